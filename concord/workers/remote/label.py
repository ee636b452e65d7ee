"""The task of labelling: shards become predictions, see `workers.labelling.shard`."""

from __future__ import annotations

from typing import NamedTuple

from concord.schemas.document import Document
from concord.schemas.run import RunKey, ShardReport, ShardResult
from concord.schemas.settings import TextSettings
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.labelling.labelled import label_batch
from concord.workers.labelling.last_answers import LastAnswers
from concord.workers.labelling.shard import label_shard
from concord.workers.labelling.warming import warm
from concord.workers.models.model import Model, text_tokenizer
from concord.workers.remote.task import Task
from concord.workers.storage.storage import Storage


class LabelParts(NamedTuple):
    """Shared parts of the task: model, constraints and run key decide the labels.

    ``store`` is where driver and workers both keep files.
    """

    model: Model
    constraints: ConstraintSet
    key: RunKey
    store: Storage
    sample: Document | None = None
    """Any document of the corpus, to compile the numba kernels on; None where none can be read."""
    last: LastAnswers | None = None
    """Answers of the last run; None for none."""

    @property
    def text(self) -> TextSettings:
        """Settings of raw text."""
        return self.key.settings.text


def _run(shard: Shard, parts: LabelParts) -> ShardResult:
    return label_shard(
        shard, model=parts.model, constraints=parts.constraints, key=parts.key, store=parts.store, last=parts.last
    )


def _rehearse(shard: Shard, parts: LabelParts) -> None:
    batch, _ = read_batch(shard, text=parts.text, tokenizer=text_tokenizer(parts.model))
    label_batch(batch, model=parts.model, constraints=parts.constraints, settings=parts.key.settings)


def _warm(parts: LabelParts) -> None:
    if parts.sample is not None:
        warm(parts.sample, model=parts.model, constraints=parts.constraints, settings=parts.key.settings)


def _counts(result: ShardResult) -> ShardReport:
    return result.marker.report


LABEL = Task("label", LabelParts, run=_run, counts=_counts, rehearse=_rehearse, warm=_warm)
