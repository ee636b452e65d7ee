"""Task of counting: statistics of a corpus, and the tokens whose word a model does not know."""

from __future__ import annotations

from typing import NamedTuple

from concord.schemas.document import TOKENS
from concord.schemas.settings import TextSettings
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard, read_batch
from concord.workers.evaluation.corpus_counts import CorpusCounts
from concord.workers.models.model import KnownWords
from concord.workers.remote.task import Task, itself


class CountParts(NamedTuple):
    """Settings of raw text, and the known words (None: unknown words are not counted)."""

    text: TextSettings = DEFAULT_TEXT
    vocabulary: KnownWords | None = None


def _run(shard: Shard, parts: CountParts) -> CorpusCounts:
    batch, rejects = read_batch(shard, text=parts.text)
    words = batch.columns[TOKENS].values
    in_vocabulary = None if parts.vocabulary is None else parts.vocabulary.known(words)
    return CorpusCounts.of(batch, rejected=len(rejects), repeated=len(shard.repeats), in_vocabulary=in_vocabulary)


def _warm(parts: CountParts) -> None:
    if parts.vocabulary is not None:
        parts.vocabulary.known(["word"])


COUNT = Task("count", CountParts, run=_run, counts=itself, rehearse=_run, warm=_warm)
