"""Progress of several fits as that of one training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from concord.workers.learning.trainers.trainer import Iteration, Progress

OF_A_FIT = 100
"""Iterations that each of several fits counts for."""


def fit_stages(progress: Progress | None, stages: int, *, loss_of: int) -> Iterator[Progress]:
    """What each of the fits reports its iterations to, one after the other; the loss is that of one of them alone."""
    reports = _FitStages(progress, stages, loss_of)
    return (partial(reports.report, stage) for stage in range(stages))


class _FitStages:
    def __init__(self, progress: Progress | None, stages: int, loss_of: int) -> None:
        self._progress, self._stages, self._loss_of, self._last = progress, stages, loss_of, 0

    def report(self, stage: int, iteration: Iteration) -> None:
        number = stage * OF_A_FIT + round(OF_A_FIT * iteration.number / iteration.total)
        if self._progress is None or number <= self._last:
            return
        self._last = number
        loss = iteration.loss if stage == self._loss_of else None
        self._progress(Iteration(number, self._stages * OF_A_FIT, loss))
