"""Objective of a semi-Markov CRF: −log p(gold segments | tokens) + c2 · Σ w², in nats, and its gradient.

Sarawagi & Cohen (2004). There are three sets of token features, each in classes as in
`workers.learning.estimation.chains`: of the tokens inside a segment, of its first token and of its last. Whole
segments, lengths and transitions have weights of their own. Sentences are cut into blocks as in
`workers.learning.estimation.objective`, so any number of threads gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels, LabelSet
from concord.workers.learning.estimation.chains import TrainingChains
from concord.workers.learning.estimation.objective import ClassGradient, TokenSums, balanced, squared
from concord.workers.models.segments import SegmentCounts, Segments, SegmentScores, Whole, add_segments

SEGMENT_BLOCKS = 16
"""Blocks of sentences; fewer than for chains, since each block keeps its own counts of all whole segments."""


class GoldSegments(NamedTuple):
    """Gold segmentation of N tokens, by K labels of segments: the types in order, then outside if it occurs.

    - ``segments``: the segmentation.
    - ``width``: the number of labels K.
    - ``longest``: length of the longest segment, in tokens.
    - ``cut``: number of spans that were longer and had to be cut.
    """

    segments: Segments
    width: int
    longest: int
    cut: int

    @classmethod
    def of(cls, labels: LabelSet, ids: Labels, sentence_starts: Ints, most: int) -> GoldSegments:
        """Segments of token labels (N,): spans, cut after every ``most`` tokens; each token outside is one by itself.

        - ``sentence_starts``: the first token of each sentence.
        """
        spans = labels.spans(ids, sentence_starts)
        length = spans.end - spans.start
        longest = min(most, int(length.max(initial=1)))
        size, kind = np.ones(len(ids), np.int32), np.full(len(ids), len(labels.types), np.int32)
        member = np.repeat(np.arange(len(spans)), length)
        offset = np.arange(len(member)) - np.searchsorted(member, member)
        place = spans.start[member] + offset
        kind[place] = spans.type[member]
        size[place] = np.where(offset % longest == 0, np.minimum(longest, length[member] - offset), 0)
        width = len(labels.types) + bool((labels.type_of[ids] < 0).any())
        return cls(Segments(size, kind), width, longest, int((length > longest).sum()))


class Views(NamedTuple):
    """Parts of a point, or of its gradient.

    - ``inside``, ``first``, ``last`` (C, K): coordinates of classes; C differs between the three.
    - ``length`` (M, K), ``transition`` (K, K), ``whole`` (R, K): weights in nats, as in `SegmentScores`.
    """

    inside: Floats
    first: Floats
    last: Floats
    length: Floats
    transition: Floats
    whole: Floats


class SegmentChains(NamedTuple):
    """Training data of a semi-Markov CRF: features and gold segments of N tokens in S sentences.

    - ``parts``: features of tokens inside a segment, of its first and of its last one.
    - ``bounds`` (S + 1,): first token of each sentence, and N.
    - ``gold``: gold segments.
    - ``rows`` (F, N, M): rows of whole-segment weights, as in `SegmentScores`.
    - ``whole``: the number R of these rows.
    - ``spanning``: labels from this one on have only segments of one token.
    """

    parts: tuple[TrainingChains, TrainingChains, TrainingChains]
    bounds: Ints
    gold: GoldSegments
    rows: Whole
    whole: int
    spanning: int

    @property
    def size(self) -> int:
        """The number of coordinates of a point."""
        return sum(rows * columns for rows, columns in self._shapes())

    def views(self, point: Floats) -> Views:
        """The parts of a point (size,), as views."""
        parts, at = [], 0
        for rows, columns in self._shapes():
            parts.append(point[at : at + rows * columns].reshape(rows, columns))
            at += rows * columns
        return Views(*parts)

    def _shapes(self) -> Iterator[tuple[int, int]]:
        width = self.gold.width
        yield from ((len(part.value), width) for part in self.parts)
        yield from ((self.gold.longest, width), (width, width), (self.whole, width))


class SegmentObjective:
    """Function of a point (size,) of `SegmentChains` that returns the objective there and its gradient (size,)."""

    def __init__(self, chains: SegmentChains, c2: float, *, threads: int | None = None) -> None:
        self._chains = chains
        self._c2 = c2
        self._threads = threads or len(os.sched_getaffinity(0))
        self._sums = [TokenSums(part, chains.gold.width) for part in chains.parts]
        shape = (int(chains.bounds[-1]), chains.gold.width)
        self._scores, self._counts = ([np.zeros(shape) for _ in chains.parts] for _ in range(2))
        self._cuts = balanced(chains.bounds, SEGMENT_BLOCKS)

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        """Objective in nats, and gradient (size,); the objective is infinite where scores overflow."""
        views = self._chains.views(point)
        with ThreadPoolExecutor(self._threads) as pool:
            for sums, states, tokens in zip(self._sums, views, self._scores, strict=False):
                sums.score_tokens(pool, states, tokens)
            loss, counts = self._sentences(pool, views)
            gradient = self._gradient(pool, views, counts)
        return loss + self._c2 * squared(point), gradient

    def _sentences(self, pool: Executor, views: Views) -> tuple[float, list[Floats]]:
        """Loss −log p(gold) in nats, and expected minus gold counts of lengths, transitions and whole segments.

        Writes expected minus gold counts of tokens to ``_counts``.
        """
        chains, losses = self._chains, np.zeros(SEGMENT_BLOCKS)
        inside, first, last = self._scores
        shared = length, transition, whole = views[3:]
        scores = SegmentScores(inside, first, last, length, transition, whole, chains.rows, chains.spanning)
        blocks = [[np.zeros_like(part) for part in shared] for _ in range(SEGMENT_BLOCKS)]
        for tokens in self._counts:
            tokens[:] = 0.0

        def block(b: int) -> None:
            bounds = chains.bounds[self._cuts[b] : self._cuts[b + 1] + 1]
            counts = SegmentCounts(*self._counts, *blocks[b])
            losses[b] = add_segments(scores, bounds, chains.gold.segments, counts)

        list(pool.map(block, range(SEGMENT_BLOCKS)))
        for part in blocks[1:]:
            for total, own in zip(blocks[0], part, strict=True):
                total += own
        return float(np.cumsum(losses)[-1]), blocks[0]

    def _gradient(self, pool: Executor, views: Views, counts: list[Floats]) -> Floats:
        gradient, decay = np.empty(self._chains.size), 2.0 * self._c2
        parts = self._chains.views(gradient)
        inside, first, last = self._counts
        inside += first
        for k, tokens in enumerate((inside, first, last)):
            classes = self._chains.parts[k]
            of_states = ClassGradient(classes.value, decay, views[k], classes.states)
            self._sums[k].gradient(pool, tokens, of_states, parts[k])
        for share, weights, count in zip(parts[3:], views[3:], counts, strict=True):
            share[:] = count + decay * weights
        return gradient
