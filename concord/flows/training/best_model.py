"""The best model that a corpus's own documents can choose: a ladder of steps, kept as it is climbed.

A fifth of the documents has no part in the choice: by it what was chosen is measured, beside the base. Each trial is
written to a file beside the model when it ends, so that the same call goes on after a kill, with the same choice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.flows.screen.progress import meter
from concord.flows.training.trial_file import TrialFile
from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.settings import Validation
from concord.schemas.train_report import SearchReport, StepRow
from concord.workers.learning.search.folds import LATER_SHARE, divided
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.learning.trainers.selection import (
    FOLDS,
    Climb,
    ExpectedFigures,
    Judged,
    LadderStep,
    TrainerChoice,
    climb_ladder,
    cross_validated,
    expected,
)
from concord.workers.learning.trainers.trainer import Train

RESERVE = 4.0
"""Time that follows a step that is kept, as a multiple of its trials': two trainings for the figure to expect, that of
the model and that which tunes label consistency."""
LEAST_DOCUMENTS = 10
"""Least number of documents: two have no part in the choice, and each part of the others has one."""


class BestModel(NamedTuple):
    """What was chosen, and the report of the search."""

    candidate: TrainerChoice
    report: SearchReport


class _Clock:
    """Is there time for a step?"""

    def __init__(self, minutes: float | None) -> None:
        self._end = None if minutes is None else time.monotonic() + 60.0 * minutes
        self.base_seconds = 0.0

    def has_time(self, cost: float) -> bool:
        return self._end is None or time.monotonic() + cost * RESERVE * self.base_seconds <= self._end


def best_model(
    documents: Sequence[Document],
    base: TrainerChoice,
    *,
    out: Path,
    corpus: str,
    validation: Validation,
    minutes: float | None,
) -> BestModel:
    """Climbs the ladder from a base, and measures what it ends at.

    - ``out``: folder of the model, beside which trials are kept.
    - ``corpus``: digest of the documents.
    - ``minutes``: no step begins that would not be done, with all that follows, in so much time.

    Raises `TrainingError` for too few documents, the errors of training, and `OutputError`.
    """
    if len(documents) < LEAST_DOCUMENTS:
        raise TrainingError(
            f"{len(documents)} documents are too few to choose by; --effort best wants {LEAST_DOCUMENTS} or more"
        )
    inside, outside = divided(documents, LATER_SHARE, validation)
    trials, clock = TrialFile(out, [corpus, validation]), _Clock(minutes)
    with meter("choosing", None) as bar:

        def show(step: LadderStep) -> None:
            clock.base_seconds = clock.base_seconds or step.cpu_seconds
            bar.advance(note=f"{step.name}: F1 {step.trial.value:.2%}{', kept' if step.is_kept else ''}")

        judge = partial(_judged, inside, validation, trials)
        ladder = climb_ladder(inside, base, judge, has_time=clock.has_time, progress=show)
        figures = expected(inside, outside, base, ladder.best, _train_named)
    return BestModel(ladder.best, _report(ladder, figures))


def _train_named(name: str) -> Train:
    return trainer_named(name).train


def _judged(
    documents: Sequence[Document], validation: Validation, trials: TrialFile, candidate: TrainerChoice
) -> Judged:
    """The answers of a candidate's models, from an earlier call or new ones."""
    name = f"{candidate.trainer} {candidate.settings.model_dump_json()}"
    if name not in trials.results:
        started, train = time.process_time(), _train_named(candidate.trainer)
        counts = cross_validated(documents, train, candidate.settings, folds=FOLDS, validation=validation)
        trials.add({name: [counts.tolist(), time.process_time() - started]})
    counts_of_documents, cpu_seconds = trials.results[name]
    return Judged(np.array(counts_of_documents, np.int64), cpu_seconds)


def _report(ladder: Climb, figures: ExpectedFigures) -> SearchReport:
    return SearchReport.from_results(
        figures.gain,
        steps=tuple(map(_row, ladder.steps)),
        untried=tuple(ladder.untried),
        documents=len(ladder.steps[0].trial.counts),
        held_out=len(figures.chosen.counts),
        base_f1=figures.base.value,
        f1=figures.chosen.value,
        gain=figures.gain.difference,
        tokens_a_second=round(figures.tokens_a_second),
    )


def _row(step: LadderStep) -> StepRow:
    gain = step.gain
    return StepRow(
        step=step.name,
        f1=step.trial.value,
        gain=None if gain is None else gain.difference,
        low=None if gain is None else gain.low,
        high=None if gain is None else gain.high,
        cpu_seconds=round(step.cpu_seconds, 3),
        is_kept=step.is_kept,
    )
