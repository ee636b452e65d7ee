"""Span max-marginals: the least local loss of any labelling that has a given span.

For a span of labels l_s … l_e in a sentence with best local score V_s, and max messages before and after it,

    loss(span) = V_s − (enter(s) + Σ unary + Σ transitions inside + leave(e)),

where enter and leave skip the labels that would make the span longer, so that it is exactly this span. The loss is
exact: a labelling that has a span with a loss above D is worse than the incumbent, whatever its other labels are.
"""

from __future__ import annotations

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import kernel, kernel_in_place
from concord.workers.inference.core.agreement import Codec
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.recursion import edge_place, sentence_bounds


class CandidateSpans:
    """The spans that some labelling within ``limit`` nats of the local optimum has, ordered by start, end and type.

    - ``start``, ``end``, ``type`` (M,): the spans; ends are exclusive.
    - ``loss`` (M,): nats between the sentence's best score and the best score of a labelling with exactly this span.
    """

    def __init__(self, spans: Ints, loss: Floats) -> None:
        self.start, self.end, self.type = spans[:, 0], spans[:, 1], spans[:, 2]
        self.loss = loss

    @classmethod
    def none(cls) -> CandidateSpans:
        """No spans."""
        return cls(np.zeros((0, 3), np.int64), np.zeros(0))

    def __len__(self) -> int:
        return len(self.loss)


def candidate_spans(problem: Prepared, limit: float) -> CandidateSpans:
    """All spans with a loss of at most ``limit`` nats.

    A span is pruned while it is extended, so the time grows with the number of spans that survive.
    """
    p = problem.potentials
    forward, backward = problem.messages
    chain = p.unary, p.edges, sentence_bounds(p), forward, backward, problem.best_marginals
    return CandidateSpans(*_candidate_spans(*chain, problem.codec, float(limit)))


@kernel
def _candidate_spans(
    unary: Floats,
    edge: Floats,
    bounds: Ints,
    forward: Floats,
    backward: Floats,
    best: Floats,
    codec: Codec,
    limit: float,
) -> tuple[Ints, Floats]:
    spans = np.empty((max(16, len(unary)), 3), np.int64)
    losses = np.empty(len(spans))
    found = 0
    for s in range(len(bounds) - 1):
        for start in range(bounds[s], bounds[s + 1]):
            first_found = found
            for kind in range(len(codec.opening)):
                score = _enter(unary, edge, forward, codec, bounds[s], start, kind)
                for end in range(start + 1, bounds[s + 1] + 1):
                    inner = codec.opening[kind] if end == start + 1 else codec.inside[kind]
                    if end > start + 1:
                        previous = codec.opening[kind] if end == start + 2 else codec.inside[kind]
                        score += edge[edge_place(edge, end - 1), previous, inner] + unary[end - 1, inner]
                    if best[start] - (score + backward[end - 1, inner]) > limit or score == -np.inf:
                        break
                    total = score + _leave(unary, edge, backward, codec, bounds[s + 1], end, inner)
                    if best[start] - total > limit or total == -np.inf:
                        continue
                    if found == len(losses):
                        spans = np.concatenate((spans, np.empty_like(spans)))
                        losses = np.concatenate((losses, np.empty_like(losses)))
                    spans[found, 0], spans[found, 1], spans[found, 2] = start, end, kind
                    losses[found] = max(0.0, best[start] - total)
                    found += 1
            _sort_by_end(spans, losses, first_found, found)
    return spans[:found], losses[:found]


@kernel_in_place
def _enter(unary: Floats, edge: Floats, forward: Floats, codec: Codec, first: int, start: int, kind: int) -> float:
    """The best score up to ``start``, given that a span of type ``kind`` opens there."""
    opening = codec.opening[kind]
    if start == first:
        return float(unary[start, opening])
    best, place = -np.inf, edge_place(edge, start)
    for label in range(unary.shape[1]):
        if not codec.continues[label, opening]:
            best = max(best, forward[start - 1, label] + edge[place, label, opening])
    return float(best + unary[start, opening])


@kernel_in_place
def _leave(unary: Floats, edge: Floats, backward: Floats, codec: Codec, last: int, end: int, inner: int) -> float:
    """The best score from ``end`` on, given that a span ends before it with the label ``inner``."""
    if end == last:
        return 0.0
    best, place = -np.inf, edge_place(edge, end)
    for label in range(unary.shape[1]):
        if not codec.continues[inner, label]:
            best = max(best, edge[place, inner, label] + unary[end, label] + backward[end, label])
    return best


@kernel_in_place
def _sort_by_end(spans: Ints, losses: Floats, first: int, last: int) -> None:
    # Insertion sort: a start has few surviving spans, found type by type with ends rising.
    for i in range(first + 1, last):
        end, kind, loss = spans[i, 1], spans[i, 2], losses[i]
        j = i - 1
        while j >= first and (spans[j, 1] > end or (spans[j, 1] == end and spans[j, 2] > kind)):
            spans[j + 1, 1], spans[j + 1, 2], losses[j + 1] = spans[j, 1], spans[j, 2], losses[j]
            spans[j + 1, 0] = spans[j, 0]
            j -= 1
        spans[j + 1, 1], spans[j + 1, 2], losses[j + 1] = end, kind, loss
        spans[j + 1, 0] = spans[first, 0]
    return
