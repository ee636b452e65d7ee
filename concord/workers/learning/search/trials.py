"""Search over settings: each is tried once on held-out documents, and the one with the highest figure is taken.

The caller gives a function that tries a setting and returns counts for each document, and the figure of these counts
that is to be maximised. `workers.learning.search.climbing` has the ways through a grid. Since counts are kept by
document, each gain has a confidence interval.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from concord.schemas.gains import Comparison
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import Figure
from concord.workers.evaluation.named_counts import Counts

Setting = TypeVar("Setting", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Trial(Generic[Setting]):
    """Result of one setting.

    - ``counts`` (D, R, 3): gold, predicted and correct items of R names in each document.
    - ``figure``: function of counts (R, 3) that gives a fraction.
    """

    setting: Setting
    counts: Counts
    figure: Figure

    @cached_property
    def value(self) -> float:
        """The figure (a fraction) over all documents together."""
        return float(self.figure(self.counts.sum(axis=0)))

    def gain(self, base: Trial[Setting], *, seed: int = 0) -> Comparison:
        """Gain over another trial on the same documents, with its interval by the paired bootstrap."""
        rng = np.random.default_rng(seed)
        return paired_bootstraps(base.counts, self.counts, {"figure": self.figure}, rng=rng)["figure"]


def best_of(trials: Iterable[Trial[Setting]]) -> Trial[Setting]:
    """The trial with the highest value, the first of equals. Raises `ValueError` for no trial."""
    return max(trials, key=lambda trial: trial.value)


class SettingsSearch(Generic[Setting]):
    """Trials of settings on the same documents; each setting is tried when it is first asked for.

    - ``attempt``: function of a setting that gives its counts (D, R, 3).
    - ``figure``: figure of the counts that is to be maximised.
    - ``preference``: function of a setting that breaks ties; the highest is preferred.
    - ``progress``: called after each trial.
    """

    def __init__(
        self,
        attempt: Callable[[Setting], Counts],
        figure: Figure,
        *,
        preference: Callable[[Setting], float] = lambda _: 0.0,
        progress: Callable[[Trial[Setting]], None] | None = None,
    ) -> None:
        self._attempt, self._figure, self._preference, self._progress = attempt, figure, preference, progress
        self._trials: dict[Setting, Trial[Setting]] = {}

    @property
    def trials(self) -> list[Trial[Setting]]:
        """All trials so far, in the order in which they were made."""
        return list(self._trials.values())

    def trial(self, setting: Setting) -> Trial[Setting]:
        """The trial of a setting."""
        if setting not in self._trials:
            trial = Trial(setting, self._attempt(setting), self._figure)
            self._trials[setting] = trial
            if self._progress is not None:
                self._progress(trial)
        return self._trials[setting]

    def worth(self, setting: Setting) -> tuple[float, float]:
        """Sort key of a setting: its value, then its preference."""
        return self.trial(setting).value, self._preference(setting)

    def best(self, settings: Iterable[Setting]) -> Setting:
        """The best of some settings; ties go to the first."""
        return max(settings, key=self.worth)
