"""Shards of a corpus whose answers another program gave: these are a part of what a shard is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from concord.schemas.settings import TextSettings
from concord.workers.corpus.row_digests import DIGEST_BYTES
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import read_ids


def answered_shards(shards: ShardTable, text: TextSettings, answer_digest: Callable[[str], bytes]) -> ShardTable:
    """The shards, whose ids cover the answers to their documents, too.

    - ``answer_digest``: digest of the answer to a document, by its id; empty for none.

    Raises the errors of reading.
    """
    ids = bytearray()
    for shard in shards:
        state = hashlib.sha256(shard.id.encode())
        for doc_id in read_ids(shard, text=text):
            state.update(answer_digest((doc_id or b"").decode(errors="replace")))
        ids += state.digest()[:DIGEST_BYTES]
    return replace(shards, ids=np.frombuffer(ids, np.uint8).reshape(-1, DIGEST_BYTES))
