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
from concord.workers.compiling.kernel import copy_to, inner_in_place, kernel_in_place
from concord.workers.features.incidence import Lists
from concord.workers.learning.estimation.chains import (
    ChainWeights,
    Edges,
    FeatureClasses,
    GoldChains,
    TrainingChains,
    longest_of,
    score_edges,
)
from concord.workers.learning.estimation.token_vectors import TokenVectors

SENTENCE_BLOCKS = 64


class ChainRoom(NamedTuple):
    """Workspace of the recursions, for sentences of at most n tokens.

    - ``forward`` (n, L): p(y_t | tokens up to t).
    - ``scale`` (n,): inverse of the sum that each row of ``forward`` was divided by.
    - ``after`` (L,): backward message of one token.
    - ``come`` (E, L): backward messages into each token; E is n, or 1 where all tokens share one matrix of transitions.
    - ``joint`` (E, L, L): p(y_t−1, y_t) / e^transition, summed over sentences; with one matrix also over tokens.
    """

    forward: Floats
    scale: Floats
    after: Floats
    come: Floats
    joint: Floats

    @classmethod
    def of(cls, bounds: Ints, width: int, *, by_token: bool = False) -> ChainRoom:
        """Workspace for the longest of some sentences; ``by_token``: does each token have a matrix of its own?"""
        longest = longest_of(bounds)
        matrices = longest if by_token else 1
        rows = np.zeros((longest, width)), np.zeros(longest), np.zeros(width)
        return cls(*rows, np.zeros((matrices, width)), np.zeros((matrices, width, width)))


class Messages(NamedTuple):
    """Messages of the N tokens of sentences whose tokens have matrices of their own.

    p(y_t−1, y_t) is before[t, y_t−1] · e^transition[y_t−1, y_t] · come[t, y_t].

    - ``before`` (N, L): of everything before the token; 0 at a first token.
    - ``come`` (N, L): of the token and everything after it.
    """

    before: Floats
    come: Floats

    @classmethod
    def none(cls, width: int) -> Messages:
        """No messages, where tokens share one matrix."""
        return cls(np.zeros((0, width)), np.zeros((0, width)))


class Objective:
    """Function of a point (size,) of `TrainingChains` that returns the objective there and its gradient (size,).

    Beside the chains and their transposed lists it holds L numbers for each token and for each group; where transitions
    depend on the text, four times as many. What the vectors ``beside`` the chains give with their weights is added to
    the scores, and these weights' prior to the objective.
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
        shape = len(chains.gold.labels), chains.gold.width
        self._sums, self._pair_sums = TokenSums(chains, shape[1]), TokenSums(chains.pairs, shape[1])
        self._tokens = np.zeros(shape)
        self._by_token = len(chains.pairs.value) > 0
        own = Messages(np.zeros(shape), np.zeros(shape)) if self._by_token else Messages.none(shape[1])
        self._messages = own
        self._cuts = balanced(chains.gold.bounds)

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        """Objective in nats, and gradient; the objective is infinite where an exponential overflows."""
        with ThreadPoolExecutor(self._threads) as pool:
            self._sums.score_groups(pool, self._chains.parts(point).states)
            loss, pairs = self._sentences(pool, point)
            gradient = self._gradient(pool, point, pairs)
        return loss + self._c2 * squared(point) + self._prior, gradient

    def _sentences(self, pool: Executor, point: Floats) -> tuple[float, Floats]:
        """Loss −log p(gold) in nats, and expected minus gold counts of pairs of labels (L, L).

        Writes expected minus gold counts of each token's labels to ``_tokens`` (N, L), and fills ``_messages``.
        """
        chains, gold = self._chains, self._chains.gold
        weights = chains.parts(point)
        shared = Edges.shared(weights.transitions.copy())
        losses, pairs = np.zeros(SENTENCE_BLOCKS), np.zeros((SENTENCE_BLOCKS, gold.width, gold.width))
        by_token = self._by_token

        def block(b: int) -> None:
            bounds = gold.bounds[self._cuts[b] : self._cuts[b + 1] + 1]
            edges = Edges.room(chains.pairs.features, weights, bounds) if by_token else shared
            block_gold, room = gold._replace(bounds=bounds), ChainRoom.of(bounds, gold.width, by_token=by_token)
            out = self._tokens, pairs[b], self._messages
            scores = chains.groups, self._sums.rows, self._beside, edges
            losses[b] = add_sentences(*scores, block_gold, *out, room)

        list(pool.map(block, range(SENTENCE_BLOCKS)))
        return float(np.cumsum(losses)[-1]), np.cumsum(pairs, axis=0)[-1]

    def _gradient(self, pool: Executor, point: Floats, pairs: Floats) -> Floats:
        chains = self._chains
        gradient = np.empty_like(point)
        out, parts = chains.parts(gradient), chains.parts(point)
        decay = 2.0 * self._c2
        of_states = ClassGradient(chains.value, decay, parts.states, chains.states)
        self._sums.gradient(pool, self._tokens, of_states, out.states)
        out.transitions[:] = np.where(chains.transitions, pairs + decay * parts.transitions, 0.0)
        if self._by_token:
            self._pair_gradient(pool, parts, decay, out.pairs)
        return gradient

    def _pair_gradient(self, pool: Executor, parts: ChainWeights, decay: float, gradient: Floats) -> None:
        """Writes the gradient of classes of pairs to ``gradient`` (P, L · L).

        It goes by one label before after the other, so that no array has L · L numbers for each token.
        """
        classes, gold = self._chains.pairs, self._chains.gold
        width = gold.width
        for label in range(width):
            columns = slice(label * width, (label + 1) * width)
            weights = np.ascontiguousarray(parts.pairs[:, columns])
            allowed = np.ascontiguousarray(classes.states[:, columns])
            self._pair_sums.score_tokens(pool, weights, self._tokens)
            row = parts.transitions[label].copy()
            _each(pool, len(self._tokens), partial(_count_edges, gold, label, row, self._messages, self._tokens))
            out = np.empty_like(weights)
            of_pairs = ClassGradient(classes.value, decay, weights, allowed)
            self._pair_sums.gradient(pool, self._tokens, of_pairs, out)
            gradient[:, columns] = out


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

    def __init__(self, classes: FeatureClasses, width: int) -> None:
        self._classes = classes
        self.rows = np.zeros((len(classes.members), width))

    def score_groups(self, pool: Executor, states: Floats) -> None:
        """Fills the rows with the score of each group, given ``states`` (C, L)."""
        classes = self._classes
        _each(pool, len(self.rows), partial(_score_groups, classes.members, states, classes.value, self.rows))

    def score_tokens(self, pool: Executor, states: Floats, tokens: Floats) -> None:
        """Writes the score of each token and label, in nats, to ``tokens`` (N, L)."""
        self.score_groups(pool, states)
        _each(pool, len(tokens), partial(_sum_lists, self._classes.groups, self.rows, tokens))

    def gradient(self, pool: Executor, tokens: Floats, of_classes: ClassGradient, gradient: Floats) -> None:
        """Writes the gradient of each class to ``gradient`` (C, L).

        It is the class's value times the sum of ``tokens`` (N, L) over its tokens, plus ``decay`` times its ``states``.
        The rows are overwritten.
        """
        classes = self._classes
        _each(pool, len(self.rows), partial(_sum_lists, classes.tokens_of, tokens, self.rows))
        _each(pool, len(gradient), partial(_sum_groups, classes.groups_of, self.rows, of_classes, gradient))


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
def _count_edges(
    gold: GoldChains, label: int, row: Floats, messages: Messages, tokens: Floats, first: int, last: int
) -> None:
    """Turns scores of pairs into expected minus gold counts, of pairs whose label before is ``label``.

    - ``row`` (L,): scores of these pairs that all tokens share, in nats.
    - ``tokens`` (N, L): scores of the pairs' features at each token, in nats; the counts are written here.
    """
    before, come = messages
    for t in range(first, last):
        for y in range(gold.width):
            tokens[t, y] = before[t, label] * np.exp(row[y] + tokens[t, y]) * come[t, y]
        if t > 0 and gold.labels[t - 1] == label:
            # A first token has no features of pairs, so that its counts are never added up.
            tokens[t, gold.labels[t]] -= 1.0


@kernel_in_place
def add_sentences(
    lists: Lists,
    rows: Floats,
    beside: Floats,
    edges: Edges,
    chains: GoldChains,
    tokens: Floats,
    pairs: Floats,
    messages: Messages,
    room: ChainRoom,
) -> float:
    """Loss −log p(gold) of some sentences, in nats; infinite where an exponential overflows.

    - ``lists``: rows of each token; a token's scores are their sum, and what stands ``beside`` them.
    - ``rows`` (·, L): scores in nats.
    - ``beside`` (N, L): scores in nats; (0, L): there are none.
    - ``edges``: transitions, scored already where all tokens share them.
    - ``tokens`` (N, L): expected minus gold counts of labels are written here.
    - ``pairs`` (L, L): expected minus gold counts of pairs of labels are added here.
    - ``messages``: written where tokens have matrices of their own.
    """
    start, ids = lists
    bounds, gold, width = chains
    by_token = len(edges.pairs) > 0
    step, loss = int(by_token), 0.0
    for s in range(len(bounds) - 1):
        first, last = bounds[s], bounds[s + 1]
        if by_token:
            score_edges(edges, first, last)
            raise_edges(edges, 1.0, last - first)
        for t in range(first, last):
            _sum_rows(rows, ids, start[t], start[t + 1], tokens[t])
            if len(beside):
                for y in range(width):
                    tokens[t, y] += beside[t, y]
            loss -= tokens[t, gold[t]]
            if t > first:
                loss -= edges.scores[(t - first) * step, gold[t - 1] * width + gold[t]]
                pairs[gold[t - 1], gold[t]] -= 1.0
        total = forward_scaled(tokens[first:last], edges.factors, room)
        if total == np.inf:
            return np.inf
        loss += total
        backward_scaled(tokens[first:last], edges.factors, room)
        if by_token:
            _take_messages(edges.factors, first, last, pairs, messages, room)
        for t in range(first, last):
            tokens[t, gold[t]] -= 1.0
    if not by_token:
        for x in range(width):
            for y in range(width):
                pairs[x, y] += room.joint[0, x, y] * edges.factors[0, x, y]
    return loss


@inner_in_place
def raise_edges(edges: Edges, by: float, count: int) -> None:
    """Writes e^(by · score) of the first ``count`` matrices of transitions to their factors."""
    width = len(edges.transitions)
    # No transition leads to a first token.
    for t in range(0 if len(edges.factors) == 1 else 1, min(count, len(edges.factors))):
        for x in range(width):
            for y in range(width):
                edges.factors[t, x, y] = np.exp(by * edges.scores[t, x * width + y])


@inner_in_place
def _take_messages(factors: Floats, first: int, last: int, pairs: Floats, messages: Messages, room: ChainRoom) -> None:
    """Copies the messages of a sentence, and adds p(y_t−1, y_t) of its tokens to ``pairs`` (L, L); clears the joint."""
    before, come = messages
    width = len(pairs)
    before[first, :] = 0.0
    for t in range(1, last - first):
        copy_to(before[first + t], room.forward[t - 1])
        copy_to(come[first + t], room.come[t])
        for x in range(width):
            for y in range(width):
                pairs[x, y] += room.joint[t, x, y] * factors[t, x, y]
                room.joint[t, x, y] = 0.0


@inner_in_place
def forward_scaled(scores: Floats, factors: Floats, room: ChainRoom) -> float:
    """Log partition function of one sentence of n tokens, in nats; infinite where it is 0 or overflows.

    Turns ``scores`` (n, L) into e^(score − the token's largest). ``factors`` (E, L, L) are e^transition into each
    token; E is at least n, or 1 where all tokens share one matrix.
    """
    width, step = scores.shape[1], 0 if len(factors) == 1 else 1
    forward, scale = room.forward, room.scale
    total = 0.0
    for t in range(len(scores)):
        row, now, edge = scores[t], forward[t], factors[t * step]
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
                    now[y] += before * edge[x, y]
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
    width, step = scores.shape[1], 0 if len(factors) == 1 else 1
    forward, scale, after = room.forward, room.scale, room.after
    after[:] = 1.0
    for t in range(len(scores) - 1, -1, -1):
        row, edge, come, joint = scores[t], factors[t * step], room.come[t * step], room.joint[t * step]
        for y in range(width):
            come[y] = row[y] * after[y] * scale[t]
            row[y] = forward[t, y] * after[y]
        if t > 0:
            for x in range(width):
                before, total = forward[t - 1, x], 0.0
                for y in range(width):
                    joint[x, y] += before * come[y]
                    total += edge[x, y] * come[y]
                after[x] = total
