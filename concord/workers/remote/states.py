"""The task of clusters by an encoder: adding up the states of the words that get clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from concord.schemas.settings import TextSettings
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard, read_batch
from concord.workers.features.clustering.word_states import StateSums
from concord.workers.models.encoder import Encoder
from concord.workers.remote.task import Task, itself, nothing


class StatesParts(NamedTuple):
    """Shared parts: the number of each word that gets a cluster, the encoder, and how raw text is read."""

    numbers: Mapping[str, int]
    encoder: Encoder
    text: TextSettings = DEFAULT_TEXT


def _add_states(shard: Shard, parts: StatesParts) -> StateSums:
    batch, rejects = read_batch(shard, text=parts.text)
    return StateSums.of(batch, parts.encoder.states(batch), parts.numbers, rejected=len(rejects))


STATE_SUMS = Task("states", StatesParts, run=_add_states, counts=itself, rehearse=_add_states, warm=nothing)
"""The sums of the states of all shards."""
