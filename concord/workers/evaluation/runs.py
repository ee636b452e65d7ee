"""Figures of settings that were run several times: means over runs, with intervals over documents and training draws.

A setting has runs with other seeds, and with models of other random draws of training documents. Documents are drawn
with replacement, the same ones for all settings. Where runs have several training draws these are drawn, too: a figure
of few training documents varies more with these than with the documents that judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.gains import Comparison
from concord.workers.evaluation.bootstrap import Interval, drawn_sums
from concord.workers.evaluation.figures import Figure


class RunCounts(NamedTuple):
    """Counts of the runs of one setting.

    - ``counts`` (D, S, ..., 3): counts of D documents in S runs
    - ``training`` (S,): which draw of training documents each run learned from
    """

    counts: NDArray[Any]
    training: tuple[int | None, ...]

    def values(self, figure: Figure) -> Floats:
        """(S,) the figure of each run on all documents."""
        return figure(self.counts.sum(axis=0))


class DrawnMean(NamedTuple):
    """Mean of a figure over runs: its ``value``, and that of each draw, ``drawn`` (draws,)."""

    value: float
    drawn: Floats

    def interval(self, confidence: float = 0.95) -> Interval:
        """The value and the interval that holds the middle ``confidence`` of the draws."""
        low, high = np.quantile(self.drawn, _bounds(confidence))
        return Interval(self.value, float(low), float(high))

    def minus(self, base: DrawnMean, confidence: float = 0.95) -> Comparison:
        """The difference from a base of the same call; the p-value is that of `paired_bootstraps`."""
        observed, differences = self.value - base.value, self.drawn - base.drawn
        low, high = np.quantile(differences, _bounds(confidence))
        # A difference of 0 must count against itself although the two are computed apart.
        extreme = int((np.abs(differences - observed) >= abs(observed) - 1e-12).sum())
        p_value = (1 + extreme) / (1 + len(differences))
        return Comparison(difference=observed, low=float(low), high=float(high), p_value=p_value)


def drawn_means(
    settings: Sequence[RunCounts], figure: Figure, *, rng: np.random.Generator, draws: int = 1000
) -> list[DrawnMean]:
    """The mean figure of each setting, whose runs judge the same D documents, under the same draws of these.

    If two settings were trained on the same resampled documents, each draw uses the same training sample for both.
    Raises `ValueError` on no documents, and on settings with other numbers of documents.
    """
    flat = [runs.counts.reshape(len(runs.counts), -1) for runs in settings]
    sums = drawn_sums(np.concatenate(flat, axis=1), rng, draws)
    times, means = dict[tuple[int | None, ...], Floats](), list[DrawnMean]()
    parts = np.split(sums, np.cumsum([part.shape[1] for part in flat])[:-1], axis=1)
    for runs, part in zip(settings, parts, strict=True):
        different = tuple(dict.fromkeys(runs.training))
        if different not in times:
            times[different] = _drawn_again(len(different), rng, draws)
        member = np.array([[one == training for training in runs.training] for one in different], np.float64)
        share = member / member.sum(axis=1, keepdims=True)
        drawn = figure(part.reshape(draws, *runs.counts.shape[1:]))
        by_training, whole = drawn @ share.T, runs.values(figure) @ share.T
        means.append(DrawnMean(float(whole.mean()), (by_training * times[different]).sum(axis=1) / len(different)))
    return means


def _drawn_again(size: int, rng: np.random.Generator, draws: int) -> Floats:
    """(draws, size) how often each of some training draws is drawn; once, where there is but one."""
    if size < 2:
        return np.ones((draws, size))
    return rng.multinomial(size, np.full(size, 1.0 / size), draws).astype(np.float64)


def _bounds(confidence: float) -> tuple[float, float]:
    tail = (1.0 - confidence) / 2.0
    return tail, 1.0 - tail
