"""Task of a step of the ladder: a way to train, judged on documents that its models have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from concord.schemas.document import Document
from concord.schemas.settings import TextSettings, Validation
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.learning.search.progressive import TrialTally
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.selection import Judged, TrainerChoice, judged
from concord.workers.remote.task import Task, nothing


class LadderTrial(NamedTuple):
    """A way to train that is tried; see `Unit`."""

    candidate: TrainerChoice

    @property
    def id(self) -> str:
        """The trainer and all its settings."""
        return f"{self.candidate.trainer} {self.candidate.settings.model_dump_json()}"

    @property
    def size(self) -> int:
        """All count alike: they are done in the order of the ladder."""
        return 1

    @property
    def place(self) -> str:
        """Description of the trial, for messages."""
        given = self.candidate.settings.model_dump(exclude_defaults=True)
        return (
            f"trainer {self.candidate.trainer}, {', '.join(f'{n} {value}' for n, value in given.items()) or 'default'}"
        )


class LadderParts(NamedTuple):
    """Shared parts of trials; ``text`` is not used, as no text is read.

    - ``documents``: labelled ones that learn and judge.
    - ``validation``: which of them judge.
    """

    documents: Sequence[Document]
    validation: Validation
    text: TextSettings = DEFAULT_TEXT


def _run(trial: LadderTrial, parts: LadderParts) -> Judged:
    train = trainer_named(trial.candidate.trainer).train
    return judged(parts.documents, train, trial.candidate.settings, parts.validation)


def _tally(answer: Judged) -> TrialTally:
    gold, _, right = answer.counts.sum(axis=0).tolist()
    return TrialTally(right, gold, answer.cpu_seconds)


LADDER = Task("ladder", LadderParts, run=_run, counts=_tally, rehearse=_run, warm=nothing)
