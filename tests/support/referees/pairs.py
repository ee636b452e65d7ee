"""What both referees read off `schemas/problem.py`: all spans of a document, what each is made of, and pairs that cost.

Written from the docstrings of `SpanAgreement`, `Relation` and `LabelSet`, by plain loops, and without their code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from concord.schemas.labels import Scheme
from concord.schemas.problem import NO_KEY, Problem, Relation, SpanAgreement


class Span(NamedTuple):
    """A span that some labelling may have: ``needs`` are (token, label) that it has, ``bars`` those that end it."""

    start: int
    end: int
    type: int
    needs: tuple[tuple[int, int], ...]
    bars: tuple[tuple[int, int], ...]

    def meets(self, other: Span) -> bool:
        """Do the two share a token?"""
        return self.start < other.end and other.start < self.end


def spans_of(problem: Problem) -> list[Span]:
    """All spans up to the widest key table, with or without a key."""
    widest = max((a.key.shape[1] for a in problem.agreements), default=0)
    starts = [*problem.potentials.sentence_starts.tolist(), len(problem)]
    found = []
    for first, last in pairwise(starts):
        for start in range(first, last):
            for end in range(start + 1, min(last, start + widest) + 1):
                found += [_span(problem, first, last, start, end, kind) for kind in range(len(problem.labels.types))]
    return found


def _span(problem: Problem, first: int, last: int, start: int, end: int, kind: int) -> Span:
    names = problem.labels.names
    name = problem.labels.types[kind]
    if problem.labels.scheme is Scheme.PLAIN:
        opening = inside = names.index(name)
    else:
        opening, inside = names.index(f"B-{name}"), names.index(f"I-{name}")
    needs = ((start, opening), *((t, inside) for t in range(start + 1, end)))
    bars = ((end, inside),) if end < last else ()
    if problem.labels.scheme is Scheme.PLAIN and start > first:
        bars = (*bars, (start - 1, inside))
    return Span(start, end, kind, needs, bars)


def key_of(agreement: SpanAgreement, start: int, end: int) -> int:
    """The key of the words of a span, `NO_KEY` where the agreement does not compare it."""
    if end - start > agreement.key.shape[1]:
        return NO_KEY
    return int(agreement.key[start, end - start - 1])


def pairs_of(agreement: SpanAgreement, spans: list[Span]) -> Iterator[tuple[int, int, float]]:
    """Pairs (span, span, nats) of an agreement other than `Relation.UNLABELLED`, each once; only those that can stand
    together and cost something."""
    compared = [i for i, s in enumerate(spans) if s.end - s.start <= agreement.key.shape[1]]
    keys = {i: key_of(agreement, spans[i].start, spans[i].end) for i in compared}
    parts = {i: _parts(agreement, spans[i]) for i in compared}
    for i in compared:
        for j in compared:
            one, other = spans[i], spans[j]
            if one.meets(other) or keys[j] == NO_KEY:
                continue
            if agreement.relation is Relation.CONTAINED:
                related = keys[j] in parts[i]
            elif j < i or keys[i] == NO_KEY:
                continue
            else:
                related = (keys[i] == keys[j]) == (agreement.relation is Relation.EXACT)
            cost = float(agreement.cost[one.type, other.type])
            if related and cost > 0:
                yield i, j, cost * (other.end - other.start if agreement.per_token else 1)


def _parts(agreement: SpanAgreement, span: Span) -> set[int]:
    """Keys of all proper parts of a span's words."""
    ends = [(a, b) for a in range(span.start, span.end) for b in range(a + 1, span.end + 1)]
    return {key_of(agreement, a, b) for a, b in ends if (a, b) != (span.start, span.end)} - {NO_KEY}


def left_out_of(agreement: SpanAgreement, spans: list[Span]) -> Iterator[tuple[int, int, float]]:
    """(span, token, nats) of a `Relation.UNLABELLED`: what the span costs if that token has an outside label."""
    places: dict[int, list[int]] = {}
    for t, row in enumerate(agreement.key.tolist()):
        for key in row:
            if key != NO_KEY:
                places.setdefault(key, []).append(t)
    for i, span in enumerate(spans):
        key, cost = key_of(agreement, span.start, span.end), float(agreement.cost[span.type, 0])
        if key == NO_KEY or cost == 0:
            continue
        for t in places[key]:
            if not span.start <= t < span.end:
                yield i, t, cost * (span.end - span.start if agreement.per_token else 1)
