"""The search over settings: each is tried once on held-out documents, and the one with the highest figure is taken.

Whoever searches says how a setting is tried, which gives counts of every document, and which figure of the counts is to
be high. The ways through a grid are those of `workers.learning.search.climbing`. Since counts are kept by document,
every gain comes with its interval.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from concord.workers.evaluation.bootstrap import Comparison, paired_bootstraps
from concord.workers.evaluation.figures import Figure
from concord.workers.evaluation.named_counts import Counts

Setting = TypeVar("Setting", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Trial(Generic[Setting]):
    """A setting, and the counts (D, R, 3) of each document under it: gold, predicted and correct of R names."""

    setting: Setting
    counts: Counts
    figure: Figure

    @cached_property
    def value(self) -> float:
        """The figure of all documents together, a fraction."""
        return float(self.figure(self.counts.sum(axis=0)))

    def gain(self, base: Trial[Setting], *, seed: int = 0) -> Comparison:
        """The gain over another trial on the same documents, by the paired bootstrap."""
        rng = np.random.default_rng(seed)
        return paired_bootstraps(base.counts, self.counts, {"figure": self.figure}, rng=rng)["figure"]


def best_of(trials: Iterable[Trial[Setting]]) -> Trial[Setting]:
    """The trial with the highest value, the first of equals. Raises `ValueError` for no trial."""
    return max(trials, key=lambda trial: trial.value)


class SettingsSearch(Generic[Setting]):
    """Trials of settings on the same documents; each setting is tried when it is first asked for.

    ``attempt`` gives the counts (D, R, 3) of a setting. Of settings with equal values that with the highest
    ``preference`` is the better one. ``told`` hears of every trial as it ends.
    """

    def __init__(
        self,
        attempt: Callable[[Setting], Counts],
        figure: Figure,
        *,
        preference: Callable[[Setting], float] = lambda _: 0.0,
        told: Callable[[Trial[Setting]], None] | None = None,
    ) -> None:
        self._attempt, self._figure, self._preference, self._told = attempt, figure, preference, told
        self._trials: dict[Setting, Trial[Setting]] = {}

    @property
    def trials(self) -> list[Trial[Setting]]:
        """In the order in which they were made."""
        return list(self._trials.values())

    def trial(self, setting: Setting) -> Trial[Setting]:
        """The trial of a setting."""
        if setting not in self._trials:
            made = Trial(setting, self._attempt(setting), self._figure)
            self._trials[setting] = made
            if self._told is not None:
                self._told(made)
        return self._trials[setting]

    def worth(self, setting: Setting) -> tuple[float, float]:
        """What settings are compared by: the value, and of equal values the preference."""
        return self.trial(setting).value, self._preference(setting)

    def best(self, settings: Iterable[Setting]) -> Setting:
        """The best of some settings, the first of equals."""
        return max(settings, key=self.worth)

    def along(self, start: Setting, steps: Iterable[Setting]) -> Setting:
        """The last of the ``steps`` up to which every value is higher than the one before; ``start`` if none is."""
        best = self.trial(start)
        for step in steps:
            now = self.trial(step)
            if now.value <= best.value:
                break
            best = now
        return best.setting
