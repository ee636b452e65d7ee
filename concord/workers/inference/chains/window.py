"""Dynamic programming over windows of labels: exact where each row looks at a few neighbouring tokens.

A state is the labels of the last w − 1 tokens of a sentence, out of those with a possible unary score. A row whose
tokens all lie within w neighbouring tokens of a sentence is charged when its last token is labelled. So trigrams of
labels (Canisius et al. 2011) are solved by w = 3, in time linear in the text. The rest of a problem (wider rows, rows
over several sentences, agreements) can only lower a score, so the score of the best path is an upper bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import ANY, Problem
from concord.workers.compiling.kernel import kernel
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.folding import on_folded
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.core.recursion import ScoredChain, chain_of, edge_place, sentence_bounds
from concord.workers.inference.core.row_reach import RowColumns, row_columns, tokens_of_rows
from concord.workers.inference.settings import WindowSettings


@on_folded
def solve(
    problem: Problem,
    *,
    config: WindowSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best path over windows of ``config.width`` tokens; its score is an upper bound of every labelling.

    An answer whose score meets the bound is proven. Hard rows inside a window are kept. Work is the number of tokens; a
    budget does not cut it short.
    """
    del rng, budget
    search = Search(problem, budget=UNLIMITED, incumbent=incumbent)
    if search.closed:
        return search.decoded(0.0)
    search.work = len(problem)
    labels, score = best_in_windows(search.problem, width=config.width, states=config.states)
    if score > -np.inf:
        search.offer(labels)
    return search.decoded(search.top - score)


class _Local(NamedTuple):
    """The rows that fit into a window, by last token: those of token t are ``order[pointer[t]:pointer[t + 1]]``."""

    order: Ints
    pointer: Ints


class Candidates(NamedTuple):
    """Possible labels of each token.

    - ``labels`` (N, D): the possible ones first.
    - ``sizes`` (N,): their number.
    """

    labels: Ints
    sizes: Ints


def best_in_windows(problem: Problem, *, width: int, states: int) -> tuple[Labels, float]:
    """The best labels (N,) where only rows within ``width`` neighbouring tokens are charged, and their score in nats.

    The width is reduced if a token would have more than ``states`` states. The score is −inf if nothing is possible.
    """
    p = problem.potentials
    allowed = np.isfinite(p.unary)
    sizes = allowed.sum(axis=1)
    candidates = np.argsort(~allowed, axis=1, kind="stable")[:, : max(1, int(sizes.max(initial=0)))].astype(np.int64)
    bounds, span = sentence_bounds(p), tokens_of_rows(problem)
    width = int(max(span[span <= width].max(initial=2), 2))
    while width > 2 and _most_states(sizes, bounds, width) > states:
        width -= 1
    local, constant = _local_rows(problem, span, width)
    labels, score = _best(chain_of(p), Candidates(candidates, sizes), width, local, row_columns(problem.rows))
    return labels, score - constant


def _most_states(sizes: Ints, bounds: Ints, width: int) -> float:
    """The largest number of states that a token has with windows of ``width`` tokens."""
    log = np.concatenate([np.zeros(1), np.cumsum(np.log(np.maximum(sizes, 1)))])
    token = np.arange(len(sizes))
    begins = np.repeat(bounds[:-1], np.diff(bounds))
    return float(np.exp((log[token + 1] - log[np.maximum(begins, token - width + 2)]).max(initial=0.0)))


def _local_rows(problem: Problem, span: Ints, width: int) -> tuple[_Local, float]:
    """The rows of at most ``width`` tokens, and the nats that rows without any token cost."""
    rows = problem.rows
    _, last = rows.ends
    inside = np.flatnonzero((span > 0) & (span <= width))
    order = inside[np.argsort(last[inside], kind="stable")]
    empty = (span == 0) & (rows.bound < -rows.slack)
    constant = float((-rows.bound[empty] * rows.weight[empty]).sum())
    return _Local(order, np.searchsorted(last[order], np.arange(len(problem) + 1))), constant


@kernel
def _best(chain: ScoredChain, given: Candidates, width: int, local: _Local, rows: RowColumns) -> tuple[Labels, float]:
    """Best labels (N,) and their score in nats, with the rows of ``local`` charged; −inf where nothing is possible."""
    unary, edge, bounds = chain
    candidates, sizes = given
    order, first_of = local
    pointer, position, previous, label, coefficient, bound, slack, weight = rows
    labels, total = np.zeros(len(unary), np.int32), 0.0
    window = np.zeros(width, np.int64)
    for s in range(len(bounds) - 1):
        first, end = bounds[s], bounds[s + 1]
        most = 1
        for t in range(first, end):
            if sizes[t] == 0:
                return labels, -np.inf
            states = 1
            for u in range(max(first, t - width + 2), t + 1):
                states *= sizes[u]
            most = max(most, states)
        now, before = np.full(most, -np.inf), np.zeros(most)
        back = np.zeros((end - first, most), np.int32)
        count = 1
        for t in range(first, end):
            now, before = before, now
            if t == first:
                before[0] = 0.0
            # The window is a row of digits; the oldest goes where it is full.
            kept = count
            if t - first >= width - 1:
                kept = count // sizes[t - width + 1]
            following = kept * sizes[t]
            for state in range(following):
                now[state] = -np.inf
            for state in range(count):
                if before[state] == -np.inf:
                    continue
                rest = state
                for u in range(t - 1, max(first, t - width + 1) - 1, -1):
                    window[width - 1 - (t - u)] = candidates[u, rest % sizes[u]]
                    rest //= sizes[u]
                for j in range(sizes[t]):
                    here = candidates[t, j]
                    window[width - 1] = here
                    score = before[state] + unary[t, here]
                    if t > first:
                        score += edge[edge_place(edge, t), window[width - 2], here]
                    for i in range(first_of[t], first_of[t + 1]):
                        r = order[i]
                        excess = -bound[r]
                        for e in range(pointer[r], pointer[r + 1]):
                            place = width - 1 - (t - position[e])
                            if window[place] == label[e] and (previous[e] == ANY or window[place - 1] == previous[e]):
                                excess += coefficient[e]
                        if excess > slack[r]:
                            score -= weight[r] * excess
                    target = (state % kept) * sizes[t] + j
                    if score > now[target]:
                        now[target] = score
                        back[t - first, target] = state
            count = following
        state = 0
        for other in range(count):
            if now[other] > now[state]:
                state = other
        if now[state] == -np.inf:
            return labels, -np.inf
        total += now[state]
        for t in range(end - 1, first - 1, -1):
            labels[t] = candidates[t, state % sizes[t]]
            state = back[t - first, state]
    return labels, total
