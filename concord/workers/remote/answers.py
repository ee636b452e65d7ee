"""Task of the first pass of agreement over the corpus: counts the labels that a model gives to each word."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from concord.schemas.document import Batch, Document
from concord.schemas.errors import DocumentError
from concord.schemas.settings import TextSettings
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard, read_batch
from concord.workers.models.corpus_agreement import AnswerCounts
from concord.workers.models.model import Model, text_tokenizer
from concord.workers.remote.task import Task, itself


class AnswersParts(NamedTuple):
    """Shared parts of the task.

    - ``model``: labels the documents.
    - ``text``: how raw text is read.
    - ``sample``: any document of the corpus, to compile the kernels on.
    """

    model: Model
    text: TextSettings = DEFAULT_TEXT
    sample: Document | None = None


def _run(shard: Shard, parts: AnswersParts) -> AnswerCounts:
    batch, rejects = read_batch(shard, text=parts.text, tokenizer=text_tokenizer(parts.model))
    counts = _answers(batch, parts.model)
    return replace(counts, rejected=counts.rejected + len(rejects))


def _answers(batch: Batch, model: Model) -> AnswerCounts:
    """Documents among which one cannot be scored are tried again in halves: that one alone is rejected."""
    if not batch.token_count:
        return replace(AnswerCounts.none(model.labels), documents=len(batch))
    try:
        return AnswerCounts.of(batch, model.potentials(batch), model.labels)
    except DocumentError:
        if len(batch) == 1:
            return AnswerCounts.none(model.labels, rejected=1)
    middle = len(batch) // 2
    return AnswerCounts.merge(_answers(part, model) for part in (batch.part(0, middle), batch.part(middle, len(batch))))


def _warm(parts: AnswersParts) -> None:
    if parts.sample is not None:
        _answers(Batch.of([parts.sample]), parts.model)


ANSWERS = Task("answers", AnswersParts, run=_run, counts=itself, rehearse=_run, warm=_warm)
