"""Objective of a linear-chain CRF: −log p(gold | tokens) + c2 · Σ w², in nats, and its gradient.

Lafferty et al. (2001). Sums over labellings come from the forward-backward recursions in probabilities, scaled to 1 at
each token (Rabiner 1989 §V.A), so that few logarithms are taken.

Sentences are cut into a fixed number of blocks, and the sums of the blocks are added in order. Everything else is
computed for each group and class by itself. So threads can take the next free piece of work, and any number of threads
gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ids, Ints, Mask
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.features.incidence import Lists
from concord.workers.learning.estimation.chains import GoldChains, TrainingChains
from concord.workers.learning.estimation.token_vectors import TokenVectors

SENTENCE_BLOCKS = 64


class ChainRoom(NamedTuple):
    """Workspace of the recursions, for sentences of at most n tokens.

    - ``forward`` (n, L): p(y_t | tokens up to t).
    - ``scale`` (n,): inverse of the sum that each row of ``forward`` was divided by.
    - ``after``, ``come`` (L,): backward messages of one token.
    - ``joint`` (L, L): sum of p(y_t−1, y_t) / e^transition over all sentences.
    """

    forward: Floats
    scale: Floats
    after: Floats
    come: Floats
    joint: Floats

    @classmethod
    def of(cls, bounds: Ints, width: int) -> ChainRoom:
        """Workspace for the longest of some sentences."""
        longest = int(np.diff(bounds).max(initial=0))
        rows = np.zeros((longest, width)), np.zeros(longest), np.zeros(width), np.zeros(width)
        return cls(*rows, np.zeros((width, width)))


class Objective:
    """Function of a point (size,) of `TrainingChains` that returns the objective there and its gradient (size,).

    Beside the chains and their transposed lists it holds L numbers for each token and for each group. What the vectors
    ``beside`` the chains give with their weights is added to the scores, and these weights' prior to the objective.
    """

    def __init__(
        self,
        chains: TrainingChains,
        c2: float,
        *,
        threads: int | None = None,
        beside: TokenVectors | None = None,
    ) -> None:
        self._chains = chains
        self._beside = np.zeros((0, chains.gold.width)) if beside is None else beside.scores()
        self._prior = 0.0 if beside is None else c2 * squared(beside.weights.ravel())
        self._c2 = c2
        self._threads = threads or len(os.sched_getaffinity(0))
        self._sums = TokenSums(chains)
        self._tokens = np.zeros((len(chains.gold.labels), chains.gold.width))
        self._cuts = balanced(chains.gold.bounds)

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        """Objective in nats, and gradient; the objective is infinite where an exponential overflows."""
        with ThreadPoolExecutor(self._threads) as pool:
            self._sums.score_groups(pool, self._chains.parts(point)[0])
            loss, pairs = self._sentences(pool, point)
            gradient = self._gradient(pool, point, pairs)
        return loss + self._c2 * squared(point) + self._prior, gradient

    def _sentences(self, pool: Executor, point: Floats) -> tuple[float, Floats]:
        """Loss −log p(gold) in nats, and expected minus gold counts of pairs of labels (L, L).

        Writes expected minus gold counts of each token's labels to ``_tokens`` (N, L).
        """
        chains, gold = self._chains, self._chains.gold
        _, transitions = chains.parts(point)
        transitions, factors = transitions.copy(), np.exp(transitions)
        losses, pairs = np.zeros(SENTENCE_BLOCKS), np.zeros((SENTENCE_BLOCKS, gold.width, gold.width))

        def block(b: int) -> None:
            bounds = gold.bounds[self._cuts[b] : self._cuts[b + 1] + 1]
            block_gold, room = gold._replace(bounds=bounds), ChainRoom.of(bounds, gold.width)
            scores = chains.groups, self._sums.rows, self._beside, transitions, factors
            losses[b] = add_sentences(*scores, block_gold, self._tokens, pairs[b], room)

        list(pool.map(block, range(SENTENCE_BLOCKS)))
        return float(np.cumsum(losses)[-1]), np.cumsum(pairs, axis=0)[-1]

    def _gradient(self, pool: Executor, point: Floats, pairs: Floats) -> Floats:
        chains = self._chains
        gradient = np.empty_like(point)
        (states, transitions), parts = chains.parts(gradient), chains.parts(point)
        decay = 2.0 * self._c2
        self._sums.gradient(pool, self._tokens, parts[0], decay, states)
        transitions[:] = np.where(chains.transitions, pairs + decay * parts[1], 0.0)
        return gradient


class ClassGradient(NamedTuple):
    """Inputs of the gradient of classes, beside the sums over their tokens.

    - ``value`` (C,): feature values.
    - ``decay``: twice the prior's weight, in nats.
    - ``states`` (C, L): the coordinates.
    - ``allowed`` (C, L): marks the coordinates that may have a weight.
    """

    value: Floats
    decay: float
    states: Floats
    allowed: Mask


class TokenSums:
    """Sums over features: scores of tokens from weights of classes, and gradients of classes from figures of tokens.

    ``rows`` (G, L) are sums for each group.
    """

    def __init__(self, chains: TrainingChains) -> None:
        self._chains = chains
        self.rows = np.zeros((len(chains.members), chains.gold.width))

    def score_groups(self, pool: Executor, states: Floats) -> None:
        """Fills the rows with the score of each group, given ``states`` (C, L)."""
        chains = self._chains
        _each(pool, len(self.rows), partial(_score_groups, chains.members, states, chains.value, self.rows))

    def score_tokens(self, pool: Executor, states: Floats, tokens: Floats) -> None:
        """Writes the score of each token and label, in nats, to ``tokens`` (N, L)."""
        self.score_groups(pool, states)
        _each(pool, len(tokens), partial(_sum_lists, self._chains.groups, self.rows, tokens))

    def gradient(self, pool: Executor, tokens: Floats, states: Floats, decay: float, gradient: Floats) -> None:
        """Writes the gradient of each class to ``gradient`` (C, L).

        It is the class's value times the sum of ``tokens`` (N, L) over its tokens, plus ``decay`` times its ``states``.
        The rows are overwritten.
        """
        chains = self._chains
        _each(pool, len(self.rows), partial(_sum_lists, chains.tokens_of, tokens, self.rows))
        classes = ClassGradient(chains.value, decay, states, chains.states)
        _each(pool, len(states), partial(_sum_groups, chains.groups_of, self.rows, classes, gradient))


def squared(point: Floats) -> float:
    """Σ x², without BLAS, whose sums depend on the number of threads."""
    return float(np.einsum("i,i->", point, point))


def balanced(bounds: NDArray[np.int64], blocks: int = SENTENCE_BLOCKS) -> NDArray[np.int64]:
    """(blocks + 1,) cuts of the sentences into blocks of about equally many tokens."""
    return np.searchsorted(bounds, np.linspace(0, bounds[-1], blocks + 1)).astype(np.int64)


def _each(pool: Executor, count: int, share: Callable[[int, int], Any]) -> None:
    """Calls ``share`` on consecutive ranges that together cover 0 to ``count``."""
    cuts = np.linspace(0, count, SENTENCE_BLOCKS + 1).astype(int).tolist()
    list(pool.map(share, cuts[:-1], cuts[1:]))


@inner_in_place
def _sum_rows(rows: Floats, ids: Ids, first: int, last: int, total: Floats) -> None:
    """Writes to ``total`` (L,) the sum of the rows ids[first] to ids[last − 1]."""
    total[:] = 0.0
    for k in range(first, last):
        for y in range(len(total)):
            total[y] += rows[ids[k], y]


@kernel_in_place
def _score_groups(lists: Lists, states: Floats, value: Floats, rows: Floats, first: int, last: int) -> None:
    """Writes to rows[g] (L,) the score of each label by the classes of group g."""
    start, ids = lists
    width = rows.shape[1]
    for g in range(first, last):
        row = rows[g]
        row[:] = 0.0
        for k in range(start[g], start[g + 1]):
            c = ids[k]
            x = value[c]
            for y in range(width):
                row[y] += x * states[c, y]


@kernel_in_place
def _sum_lists(lists: Lists, rows: Floats, sums: Floats, first: int, last: int) -> None:
    """Writes to sums[i] (L,) the sum of the rows of list i."""
    for i in range(first, last):
        _sum_rows(rows, lists.ids, lists.start[i], lists.start[i + 1], sums[i])


@kernel_in_place
def _sum_groups(lists: Lists, rows: Floats, classes: ClassGradient, gradient: Floats, first: int, last: int) -> None:
    """Writes to gradient[c] (L,) the sum over the groups of class c, plus the gradient of the prior."""
    start, ids = lists
    value, decay, states, allowed = classes
    width = rows.shape[1]
    for c in range(first, last):
        row = gradient[c]
        _sum_rows(rows, ids, start[c], start[c + 1], row)
        for y in range(width):
            row[y] = value[c] * row[y] + decay * states[c, y] if allowed[c, y] else 0.0


@kernel_in_place
def add_sentences(
    lists: Lists,
    rows: Floats,
    beside: Floats,
    transitions: Floats,
    factors: Floats,
    chains: GoldChains,
    tokens: Floats,
    pairs: Floats,
    room: ChainRoom,
) -> float:
    """Loss −log p(gold) of some sentences, in nats; infinite where an exponential overflows.

    - ``lists``: rows of each token; a token's scores are their sum, and what stands ``beside`` them.
    - ``rows`` (·, L): scores in nats.
    - ``beside`` (N, L): scores in nats; (0, L): there are none.
    - ``transitions`` (L, L): scores of pairs of labels, in nats.
    - ``factors`` (L, L): e^transition.
    - ``tokens`` (N, L): expected minus gold counts of labels are written here.
    - ``pairs`` (L, L): expected minus gold counts of pairs of labels are added here.
    """
    start, ids = lists
    bounds, gold, width = chains
    loss = 0.0
    for s in range(len(bounds) - 1):
        first, last = bounds[s], bounds[s + 1]
        for t in range(first, last):
            _sum_rows(rows, ids, start[t], start[t + 1], tokens[t])
            if len(beside):
                for y in range(width):
                    tokens[t, y] += beside[t, y]
            loss -= tokens[t, gold[t]]
            if t > first:
                loss -= transitions[gold[t - 1], gold[t]]
                pairs[gold[t - 1], gold[t]] -= 1.0
        total = forward_scaled(tokens[first:last], factors, room)
        if total == np.inf:
            return np.inf
        loss += total
        backward_scaled(tokens[first:last], factors, room)
        for t in range(first, last):
            tokens[t, gold[t]] -= 1.0
    for x in range(width):
        for y in range(width):
            pairs[x, y] += room.joint[x, y] * factors[x, y]
    return loss


@inner_in_place
def forward_scaled(scores: Floats, factors: Floats, room: ChainRoom) -> float:
    """Log partition function of one sentence of n tokens, in nats; infinite where it is 0 or overflows.

    Turns ``scores`` (n, L) into e^(score − the token's largest). ``factors`` (L, L) are e^transition.
    """
    width = scores.shape[1]
    forward, scale = room.forward, room.scale
    total = 0.0
    for t in range(len(scores)):
        row, now = scores[t], forward[t]
        top = row[0]
        for y in range(1, width):
            top = max(top, row[y])
        total += top
        for y in range(width):
            row[y] = np.exp(row[y] - top)
            now[y] = 1.0 if t == 0 else 0.0
        if t > 0:
            for x in range(width):
                before = forward[t - 1, x]
                for y in range(width):
                    now[y] += before * factors[x, y]
        mass = 0.0
        for y in range(width):
            now[y] *= row[y]
            mass += now[y]
        if not 0.0 < mass < np.inf:
            return np.inf
        scale[t] = 1.0 / mass
        for y in range(width):
            now[y] *= scale[t]
        total += np.log(mass)
    return total


@inner_in_place
def backward_scaled(scores: Floats, factors: Floats, room: ChainRoom) -> None:
    """Turns the ``scores`` (n, L) left by `forward_scaled` into p(y_t); adds p(y_t−1, y_t) / factor to the joint."""
    width = scores.shape[1]
    forward, scale, after, come, joint = room.forward, room.scale, room.after, room.come, room.joint
    after[:] = 1.0
    for t in range(len(scores) - 1, -1, -1):
        row = scores[t]
        for y in range(width):
            come[y] = row[y] * after[y] * scale[t]
            row[y] = forward[t, y] * after[y]
        if t > 0:
            for x in range(width):
                before, total = forward[t - 1, x], 0.0
                for y in range(width):
                    joint[x, y] += before * come[y]
                    total += factors[x, y] * come[y]
                after[x] = total
