"""Dynamic programming over semi-Markov chains: best segmentation, marginals and expected counts.

Sarawagi & Cohen (2004): a labelling of a sentence is a sequence of labelled segments that cover it. A segment has a
score as a whole, and one by the label of the segment before. The recursions run over all segments of at most M tokens,
which takes M times the steps of a chain. All sums are in log space, so nothing underflows, and −inf forbids.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.inference.core.recursion import BEST, FAINT, SUM, absorb, strongest

Whole = NDArray[np.int32]

HOPELESS = 100.0
"""Nats: a segment with a probability below e^−HOPELESS is left out of expected counts."""


class SegmentScores(NamedTuple):
    """Scores of segments in nats, for N tokens, K labels of segments and segments of at most M tokens.

    The score of a segment of n tokens from token t on is the sum of

    - ``inside`` (N, K): for each of its tokens.
    - ``first`` (N, K): for its first token.
    - ``last`` (N, K): for its last token.
    - ``length`` (M, K): row n − 1.
    - ``transition`` (K, K): from the label of the segment before (row), if there is one.
    - ``whole`` (R, K): row r for each r ≥ 0 in rows[:, t, n − 1].

    - ``rows`` (F, N, M): rows of ``whole`` by first token and length; negative for none.
    - ``spanning``: labels from this one on have only segments of one token.
    """

    inside: Floats
    first: Floats
    last: Floats
    length: Floats
    transition: Floats
    whole: Floats
    rows: Whole
    spanning: int


class Segments(NamedTuple):
    """A segmentation of N tokens.

    - ``size`` (N,): length, in tokens, of the segment that begins at the token; 0 where none begins.
    - ``kind`` (N,): label of the segment that the token is in.
    """

    size: Whole
    kind: Whole


class SegmentCounts(NamedTuple):
    """Count of each score of `SegmentScores`, in the same shapes; ``inside`` does not count first tokens of segments.

    Gradient of the loss: expected counts minus gold counts; expected counts alone where there is no gold.
    """

    inside: Floats
    first: Floats
    last: Floats
    length: Floats
    transition: Floats
    whole: Floats


class TokenFigures(NamedTuple):
    """A figure for each token and label, such as a marginal.

    - ``first`` (N, K): of segments that begin at the token.
    - ``inside`` (N, K): of segments that contain the token and began before it.
    """

    first: Floats
    inside: Floats


class SegmentRoom(NamedTuple):
    """Workspace of the recursions, for sentences of up to n tokens; the first four are best scores or log-sums.

    - ``ended`` (n + 1, K): everything before a place at which a segment of the label ends, with that segment.
    - ``before`` (n, K): everything before a segment of the label that begins at the place, with the transition into it.
    - ``opened`` (n, K): that segment and everything after it.
    - ``after`` (n + 1, K): everything after a segment of the label that ends at the place.
    - ``leaving`` (K, K): the scores' transitions, transposed.
    - ``terms`` (K, M), ``run`` (K,), ``cell`` (K,): scratch for one place.
    """

    ended: Floats
    before: Floats
    opened: Floats
    after: Floats
    leaving: Floats
    terms: Floats
    run: Floats
    cell: Floats

    @classmethod
    def of(cls, bounds: Ints, scores: SegmentScores) -> SegmentRoom:
        """Room for the longest of some sentences."""
        n, (most, width) = int(np.diff(bounds).max(initial=0)), scores.length.shape
        ended, before, opened, after = (np.zeros((size, width)) for size in (n + 1, n, n, n + 1))
        terms, run, cell = np.zeros((width, most)), np.zeros(width), np.zeros(width)
        leaving = np.ascontiguousarray(scores.transition.T)
        return cls(ended, before, opened, after, leaving, terms, run, cell)


def best_segments(scores: SegmentScores, bounds: Ints) -> tuple[Segments, Floats]:
    """Best segmentation of all sentences (nested Viterbi), and the score (S,) of each sentence in nats.

    ``bounds`` (S + 1,) are those of the sentences. Ties go to the lowest label and the shortest segment, later ones
    first. Where every segmentation is −inf the result is arbitrary.
    """
    count = int(bounds[-1])
    found, best = Segments(np.zeros(count, np.int32), np.zeros(count, np.int32)), np.zeros(len(bounds) - 1)
    _find_best(scores, bounds, SegmentRoom.of(bounds, scores), found, best)
    return found, best


def max_marginals(scores: SegmentScores, bounds: Ints) -> TokenFigures:
    """Max-marginals (N, K) in nats: score of the best segmentation of the sentence in which the token is first in, or
    inside, a segment of the label."""
    found = TokenFigures(*(np.full(scores.inside.shape, -np.inf) for _ in range(2)))
    _mark_best(scores, bounds, SegmentRoom.of(bounds, scores), found)
    return found


def marginals(scores: SegmentScores, bounds: Ints) -> TokenFigures:
    """Marginals (N, K): probability that the token is first in, or inside, a segment of the label.

    Zeros for a sentence of which no segmentation is possible.
    """
    shapes = (scores.inside, scores.first, scores.last, scores.length, scores.transition, scores.whole)
    counts = SegmentCounts(*map(np.zeros_like, shapes))
    _count_all(scores, bounds, SegmentRoom.of(bounds, scores), counts)
    return TokenFigures(counts.first, counts.inside)


def add_segments(scores: SegmentScores, bounds: Ints, gold: Segments, counts: SegmentCounts) -> float:
    """Loss −log p(gold) of some sentences in nats; adds expected minus gold counts to ``counts``.

    Infinite where every segmentation of a sentence is forbidden.
    """
    room = SegmentRoom.of(bounds, scores)
    return _count_all(scores, bounds, room, counts) - _take_gold(scores, bounds, gold, room, counts)


@inner_in_place
def _joined(terms: Floats, count: int, way: int) -> float:
    """Maximum (BEST) or log-sum-exp (SUM) of the first ``count`` terms."""
    top = -np.inf
    for i in range(count):
        top = max(top, terms[i])
    if way == BEST or top == -np.inf:
        return top
    total = 0.0
    for i in range(count):
        # Most segments are hopeless, and an exponential takes longer than all else.
        if terms[i] > top - FAINT:
            total += np.exp(terms[i] - top)
    return float(top + np.log(total))


@inner_in_place
def _set_cell(scores: SegmentScores, first: int, last: int, run: Floats, cell: Floats) -> None:
    """Writes the score of the segment first … last under each label to ``cell`` (K,), without the transition; ``run``
    (K,) is the sum of its ``inside`` scores."""
    n = last - first
    for y in range(len(cell)):
        cell[y] = run[y] + scores.first[first, y] + scores.last[last, y] + scores.length[n, y]
    for k in range(len(scores.rows)):
        row = scores.rows[k, first, n]
        if row >= 0:
            for y in range(len(cell)):
                cell[y] += scores.whole[row, y]


@inner_in_place
def _add_inside(scores: SegmentScores, token: int, run: Floats) -> None:
    for y in range(len(run)):
        run[y] += scores.inside[token, y]


@inner_in_place
def _extend(scores: SegmentScores, first: int, n: int, room: SegmentRoom) -> None:
    """Scores the segment of n + 1 tokens that begins at ``first``, as `_set_cell`; n goes up from 0."""
    if n == 0:
        room.run[:] = 0.0
    _add_inside(scores, first + n, room.run)
    _set_cell(scores, first, first + n, room.run, room.cell)


@inner_in_place
def pass_forward(scores: SegmentScores, start: int, end: int, way: int, room: SegmentRoom) -> float:
    """Fills ``before`` and ``ended`` for one sentence; returns its log-sum over segmentations, or best score."""
    most, width = scores.length.shape
    ended, before, terms, run, cell = room.ended, room.before, room.terms, room.run, room.cell
    for e in range(end - start + 1):
        if e > 0:
            reach = min(most, e)
            run[:] = 0.0
            for n in range(reach):
                _add_inside(scores, start + e - 1 - n, run)
                _set_cell(scores, start + e - 1 - n, start + e - 1, run, cell)
                for y in range(width if n == 0 else scores.spanning):
                    terms[y, n] = before[e - 1 - n, y] + cell[y]
            for y in range(width):
                ended[e, y] = _joined(terms[y], reach if y < scores.spanning else 1, way)
        if e == end - start:
            break
        if e > 0:
            absorb(ended[e], scores.transition, way, before[e])
        else:
            before[0, :] = 0.0
    return _joined(ended[end - start], width, way)


@inner_in_place
def pass_backward(scores: SegmentScores, start: int, end: int, way: int, room: SegmentRoom) -> None:
    """Fills ``opened`` and ``after`` for one sentence."""
    most, width = scores.length.shape
    opened, after, terms, cell = room.opened, room.after, room.terms, room.cell
    after[end - start, :] = 0.0
    for s in range(end - start - 1, -1, -1):
        reach = min(most, end - start - s)
        for n in range(reach):
            _extend(scores, start + s, n, room)
            for y in range(width if n == 0 else scores.spanning):
                terms[y, n] = cell[y] + after[s + n + 1, y]
        for y in range(width):
            opened[s, y] = _joined(terms[y], reach if y < scores.spanning else 1, way)
        absorb(opened[s], room.leaving, way, after[s])


@inner_in_place
def add_expected(
    scores: SegmentScores, start: int, end: int, total: float, room: SegmentRoom, counts: SegmentCounts
) -> None:
    """Adds the expected counts of one sentence, whose ``total`` is finite, after both passes over sums."""
    most, width = scores.length.shape
    terms, cell = room.terms, room.cell
    for s in range(end - start):
        reach = min(most, end - start - s)
        for n in range(reach):
            _extend(scores, start + s, n, room)
            for y in range(width if n == 0 else scores.spanning):
                nats = room.before[s, y] + cell[y] + room.after[s + n + 1, y] - total
                terms[y, n] = 0.0
                if nats < -HOPELESS:
                    continue
                share = np.exp(nats)
                terms[y, n] = share
                counts.first[start + s, y] += share
                counts.last[start + s + n, y] += share
                counts.length[n, y] += share
                for k in range(len(scores.rows)):
                    row = scores.rows[k, start + s, n]
                    if row >= 0:
                        counts.whole[row, y] += share
        for y in range(scores.spanning):
            beyond = 0.0
            for n in range(reach - 1, 0, -1):
                beyond += terms[y, n]
                counts.inside[start + s + n, y] += beyond
        if s > 0:
            for x in range(width):
                for y in range(width):
                    pair = room.ended[s, x] + scores.transition[x, y] + room.opened[s, y] - total
                    counts.transition[x, y] += np.exp(pair)


@kernel_in_place
def _count_all(scores: SegmentScores, bounds: Ints, room: SegmentRoom, counts: SegmentCounts) -> float:
    """Adds the expected counts of all sentences; returns the sum of their log partition functions, in nats.

    Returns inf where that of a sentence is not finite.
    """
    every = 0.0
    for s in range(len(bounds) - 1):
        total = pass_forward(scores, bounds[s], bounds[s + 1], SUM, room)
        if -np.inf < total < np.inf:
            pass_backward(scores, bounds[s], bounds[s + 1], SUM, room)
            add_expected(scores, bounds[s], bounds[s + 1], total, room, counts)
            every += total
        else:
            every = np.inf
    return every


@kernel_in_place
def _take_gold(scores: SegmentScores, bounds: Ints, gold: Segments, room: SegmentRoom, counts: SegmentCounts) -> float:
    """Subtracts the gold segments of all sentences from the counts; returns their score in nats."""
    total, run, cell = 0.0, room.run, room.cell
    for s in range(len(bounds) - 1):
        t, before = bounds[s], -1
        while t < bounds[s + 1]:
            n, y = gold.size[t], gold.kind[t]
            run[:] = 0.0
            for u in range(t, t + n):
                _add_inside(scores, u, run)
                counts.inside[u, y] -= 1.0 if u > t else 0.0
            _set_cell(scores, t, t + n - 1, run, cell)
            total += cell[y]
            counts.first[t, y] -= 1.0
            counts.last[t + n - 1, y] -= 1.0
            counts.length[n - 1, y] -= 1.0
            for k in range(len(scores.rows)):
                row = scores.rows[k, t, n - 1]
                if row >= 0:
                    counts.whole[row, y] -= 1.0
            if before >= 0:
                total += scores.transition[before, y]
                counts.transition[before, y] -= 1.0
            t, before = t + n, y
    return total


@kernel_in_place
def _find_best(scores: SegmentScores, bounds: Ints, room: SegmentRoom, found: Segments, best: Floats) -> None:
    width = scores.inside.shape[1]
    for s in range(len(bounds) - 1):
        start, e = bounds[s], bounds[s + 1] - bounds[s]
        best[s] = pass_forward(scores, start, bounds[s + 1], BEST, room)
        label = 0
        for y in range(width):
            if room.ended[e, y] > room.ended[e, label]:
                label = y
        while e > 0:
            size = _best_size(scores, start, e, label, room)
            e -= size
            found.size[start + e] = size
            for t in range(start + e, start + e + size):
                found.kind[t] = label
            if e > 0:
                label = strongest(room.ended[e], scores.transition, label)


@inner_in_place
def _best_size(scores: SegmentScores, start: int, e: int, label: int, room: SegmentRoom) -> int:
    """Length, in tokens, of the best segment of a label that ends at place e."""
    top, size = -np.inf, 1
    room.run[:] = 0.0
    for n in range(min(len(scores.length), e) if label < scores.spanning else 1):
        _add_inside(scores, start + e - 1 - n, room.run)
        _set_cell(scores, start + e - 1 - n, start + e - 1, room.run, room.cell)
        value = room.before[e - 1 - n, label] + room.cell[label]
        if value > top:
            top, size = value, n + 1
    return size


@kernel_in_place
def _mark_best(scores: SegmentScores, bounds: Ints, room: SegmentRoom, found: TokenFigures) -> None:
    for s in range(len(bounds) - 1):
        pass_forward(scores, bounds[s], bounds[s + 1], BEST, room)
        pass_backward(scores, bounds[s], bounds[s + 1], BEST, room)
        _mark_sentence(scores, bounds[s], bounds[s + 1], room, found)


@inner_in_place
def _mark_sentence(scores: SegmentScores, start: int, end: int, room: SegmentRoom, found: TokenFigures) -> None:
    most, width = scores.length.shape
    terms, cell = room.terms, room.cell
    for s in range(end - start):
        reach = min(most, end - start - s)
        for n in range(reach):
            _extend(scores, start + s, n, room)
            for y in range(width if n == 0 else scores.spanning):
                terms[y, n] = room.before[s, y] + cell[y] + room.after[s + n + 1, y]
        for y in range(width):
            found.first[start + s, y] = _joined(terms[y], reach if y < scores.spanning else 1, BEST)
        for y in range(scores.spanning):
            beyond = -np.inf
            for n in range(reach - 1, 0, -1):
                beyond = max(beyond, terms[y, n])
                found.inside[start + s + n, y] = max(found.inside[start + s + n, y], beyond)
