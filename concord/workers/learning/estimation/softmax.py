"""Softmax regression on the states of a frozen encoder: the head of `workers.models.encoded`.

    loss(W, b) = −Σ_t log softmax(W · context_t + b)[gold_t] + c2 · Σ W²

It is convex, and L-BFGS minimises it (`scipy.optimize`). States are centred and scaled first, so that one prior fits
all of them. A word's context has four states; they are put together for some thousand words at a time, since all of
them together would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ids
from concord.workers.models.encoded import Head
from concord.workers.models.encoder import COLUMNS_AT_ONCE, CONTEXT_PARTS, WordContext, WordStates, row_at

CONTEXTS_AT_ONCE = 1 << 13
"""Words whose contexts are put together at once."""

LEAST_SPREAD = 1e-6
"""Standard deviation of a state that is hardly ever anything else; added to all."""


class HeadWords(NamedTuple):
    """What a head learns from.

    - ``states`` (N, D): states of the words.
    - ``context``: where those of a word's context are.
    - ``gold`` (N,): label of each word, of ``width``.
    """

    states: WordStates
    context: WordContext
    gold: Ids
    width: int


def fit_head(
    words: HeadWords, *, c2: float, iterations: int, progress: Callable[[int, float], None] | None = None
) -> Head:
    """The head of least loss; ``progress`` is called with each iteration's number and loss (nats)."""
    from scipy.optimize import minimize

    center = words.states.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread = _spread(words.states) + LEAST_SPREAD
    empty = Head(center, (1.0 / spread).astype(np.float32), np.zeros((0, 0, 0), np.float32), np.zeros(0))
    objective = _HeadObjective(words, empty.read(words.states), c2)
    number = 0

    def passed(_: Floats) -> None:
        nonlocal number
        number += 1
        if progress is not None:
            progress(number, objective.last)

    start = np.zeros(objective.size)
    # The bias is that of the labels' frequencies: most words are outside of all names.
    start[-words.width :] = np.log(np.bincount(words.gold, minlength=words.width) + 1.0)
    optimum = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations}, callback=passed)
    weights, bias = objective.split(optimum.x)
    shape = (CONTEXT_PARTS, words.states.shape[1], words.width)
    return empty._replace(weights=weights.reshape(shape).astype(np.float32), bias=bias)


def _spread(states: WordStates) -> Floats:
    """(D,) standard deviation of each number; some at a time, since each takes 8 bytes a word."""
    width = states.shape[1]
    parts = (states[:, first : first + COLUMNS_AT_ONCE] for first in range(0, width, COLUMNS_AT_ONCE))
    return np.concatenate([part.std(axis=0, dtype=np.float64) for part in parts])


class _HeadObjective:
    """The loss and its gradient at a point: the weights, row by row, then the bias."""

    def __init__(self, words: HeadWords, read: WordStates, c2: float) -> None:
        self._words, self._read, self._c2 = words, read, c2
        self._elsewhere = words.context.elsewhere(read)
        self._rows = CONTEXT_PARTS * read.shape[1]
        self.size = (self._rows + 1) * words.width
        self.last = np.inf

    def split(self, point: Floats) -> tuple[Floats, Floats]:
        """Weights (`CONTEXT_PARTS` · D, L) and bias (L,) of a point."""
        return point[: -self._words.width].reshape(self._rows, -1), point[-self._words.width :]

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        weights, bias = self.split(point)
        single = weights.astype(np.float32)
        loss, slope, slope_bias = 0.0, np.zeros_like(weights), np.zeros_like(bias)
        for gold, context in self._blocks():
            scores = (context @ single).astype(np.float64) + bias
            scores -= scores.max(axis=1, keepdims=True)
            total = np.exp(scores).sum(axis=1)
            here = np.arange(len(gold))
            loss += float((np.log(total) - scores[here, gold]).sum())
            share = np.exp(scores) / total[:, None]
            share[here, gold] -= 1.0
            slope += context.T @ share.astype(np.float32)
            slope_bias += share.sum(axis=0)
        self.last = loss + self._c2 * float((weights**2).sum())
        return self.last, np.concatenate([(slope + 2.0 * self._c2 * weights).ravel(), slope_bias])

    def _blocks(self) -> Iterator[tuple[Ids, NDArray[np.float32]]]:
        """Gold labels and contexts (n, `CONTEXT_PARTS` · D) of some words at a time."""
        context = self._words.context
        for first in range(0, len(self._read), CONTEXTS_AT_ONCE):
            part = slice(first, first + CONTEXTS_AT_ONCE)
            around = (row_at(self._read, place[part]) for place in (context.previous, context.next))
            yield self._words.gold[part], np.concatenate([self._read[part], self._elsewhere[part], *around], axis=1)
