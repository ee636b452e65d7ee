"""The task of counting words."""

from __future__ import annotations

from typing import NamedTuple

from concord.schemas.settings import TextSettings
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard, read_batch
from concord.workers.features.clustering.word_counts import WordCounts
from concord.workers.remote.task import Task, itself, nothing


class WordsParts(NamedTuple):
    """Settings of raw text."""

    text: TextSettings = DEFAULT_TEXT


def _count_words(shard: Shard, parts: WordsParts) -> WordCounts:
    batch, rejects = read_batch(shard, text=parts.text)
    return WordCounts.of(batch, rejected=len(rejects))


WORDS = Task("words", WordsParts, run=_count_words, counts=itself, rehearse=_count_words, warm=nothing)
