"""Confidence of each entity of an answer: its marginal probability, and its certified margin.

The margin of an entity is the score of the answer minus the score of the best labelling without exactly this entity
(borders and type), in nats; local scores, rows and agreements all count. A labelling without the entity either has
another label at one of the entity's tokens, or has all its labels and the span continues before or after. Each of these
cases only forbids labels at tokens, so it is an ordinary problem, and together they are all labellings without the
entity:

    margin = score(answer) − max over cases of the best score in it ≥ score(answer) − max over cases of a proven bound.

Without penalties a case is one Viterbi pass over the entity's sentence. Otherwise cases are solved in descending order
of their local optimum, until the next one's is no better than what was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Budget, Confidence, Decoded, MarginStatus, Status
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.run import RunSettings
from concord.workers.inference.core.chain import best_labels
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.span_marginals import span_marginals
from concord.workers.inference.numerics import TOLERANCE
from concord.workers.inference.registry import Decoder

PROVER = "certify"
"""The engine that proves margins, whichever one labels."""

NOWHERE = -np.inf


class Entity(NamedTuple):
    """An entity: its first token, its end (exclusive) and its type."""

    start: int
    end: int
    type: int


class Rival(NamedTuple):
    """Best labelling without an entity.

    - ``score``: of the best one found, in nats
    - ``bound``: upper bound for all of them, in nats
    - ``by_solver``: whether the bound rests on a solver's word
    - ``labels``: the best one found; None where there is none
    """

    score: float
    bound: float
    by_solver: bool
    labels: Labels | None


NO_RIVAL = Rival(NOWHERE, NOWHERE, by_solver=False, labels=None)


class EntityMargin(NamedTuple):
    """Margin of an entity in nats, what is proven of it, and the labelling that sets it (None where there is none)."""

    nats: float
    status: MarginStatus
    labels: Labels | None


def margin_decoder(settings: RunSettings) -> Decoder:
    """Decoder that proves margins, with the run's seed, and with its options if the run uses the same engine."""
    options = settings.options if settings.engine == PROVER else {}
    return Decoder.of(PROVER, options, seed=settings.seed, budget=Budget(work=settings.margin_work))


def confidence(problem: Prepared, answer: Decoded, doc_id: str, settings: RunSettings) -> Confidence:
    """Confidence of each entity of an answer to ``problem``, as far as ``settings`` ask for it."""
    spans = problem.labels.spans(answer.labels, problem.potentials.sentence_starts)
    probability = span_marginals(problem, spans)
    if settings.confidence == "marginal":
        return Confidence(probability)
    if answer.objective == -np.inf:
        return Confidence(probability, np.full(len(spans), np.nan), (None,) * len(spans))
    prover = _Prover(problem, answer, doc_id, margin_decoder(settings))
    entities = map(Entity, spans.start.tolist(), spans.end.tolist(), spans.type.tolist())
    margins = [prover.margin(entity) for entity in entities]
    return Confidence(probability, np.array([one.nats for one in margins]), tuple(one.status for one in margins))


def entity_margin(
    problem: Prepared, answer: Decoded, doc_id: str, entity: Entity, settings: RunSettings
) -> EntityMargin:
    """Margin of one entity of an answer."""
    return _Prover(problem, answer, doc_id, margin_decoder(settings)).margin(entity)


@dataclass(frozen=True, eq=False)
class _Prover:
    """Proves the margins of one answer's entities."""

    problem: Prepared
    answer: Decoded
    doc_id: str
    decoder: Decoder

    def margin(self, entity: Entity) -> EntityMargin:
        """Margin of an entity: exact, exact by a solver's word, or only a bound."""
        rival = self._rival(entity)
        nats = self.answer.objective - rival.bound
        if rival.bound > rival.score + TOLERANCE:
            return EntityMargin(nats, MarginStatus.BOUND, rival.labels)
        return EntityMargin(nats, MarginStatus.BY_SOLVER if rival.by_solver else MarginStatus.EXACT, rival.labels)

    def _rival(self, entity: Entity) -> Rival:
        best = NO_RIVAL
        for local, case, labels in self._cases(entity):
            if local <= best.score:
                break
            best = _better(best, self._solved(local, case, labels))
        return best

    def _cases(self, entity: Entity) -> list[tuple[float, Potentials, Labels]]:
        """Cases by descending local optimum: that optimum in nats, the case's potentials, and labels to start from."""
        p = self.problem.potentials
        first, last = _sentence(p, entity.start)
        own = p.part(first, last)
        inside = Entity(entity.start - first, entity.end - first, entity.type)
        rest = self.problem.viterbi_score - float(best_labels(own)[1].sum())
        cases = []
        for unary in lacking(own.unary, self.problem.labels, inside):
            labels, score = best_labels(replace(own, unary=unary))
            if score[0] == -np.inf:
                continue
            whole, start = p.unary.copy(), self.answer.labels.copy()
            whole[first:last], start[first:last] = unary, labels
            cases.append((rest + float(score[0]), replace(p, unary=whole), start))
        return sorted(cases, key=lambda case: -case[0])

    def _solved(self, local: float, case: Potentials, labels: Labels) -> Rival:
        if not len(self.problem.rows) and not self.problem.agreements:
            return Rival(local, local, by_solver=False, labels=labels)
        problem = Prepared.of(replace(self.problem, potentials=case))
        decoded = self.decoder(problem, self.doc_id, incumbent=labels)
        return Rival(decoded.objective, decoded.bound, decoded.status is Status.BY_SOLVER, decoded.labels)


def _better(one: Rival, other: Rival) -> Rival:
    nearest = other if other.score > one.score else one
    return nearest._replace(bound=max(one.bound, other.bound), by_solver=one.by_solver or other.by_solver)


def _sentence(potentials: Potentials, token: int) -> tuple[int, int]:
    """First and last (exclusive) token of the sentence that a token is in."""
    starts = potentials.sentence_starts
    place = int(np.searchsorted(starts, token, side="right"))
    return int(starts[place - 1]), int(starts[place]) if place < len(starts) else len(potentials)


def lacking(unary: Floats, labels: LabelSet, entity: Entity) -> Iterator[Floats]:
    """Unary scores (N, L) of one sentence, case by case: together they allow all labellings without exactly the entity,
    and none that has it."""
    scores, firsts, inside = unary.copy(), labels.first_labels[entity.type], labels.inside[entity.type]
    for t in range(entity.start, entity.end):
        own = np.isin(np.arange(unary.shape[1]), firsts if t == entity.start else inside)
        case = scores.copy()
        case[t, own] = -np.inf
        yield case
        scores[t, ~own] = -np.inf
    # The entity's own labels as a part of a longer span, which begins before it or ends after it.
    if entity.start > 0:
        for first in firsts:
            goes_on = labels.continues[:, first]
            if not goes_on.any():
                continue
            yield _limited(scores, (entity.start, np.arange(unary.shape[1]) == first), (entity.start - 1, goes_on))
    if entity.end < len(unary):
        last = firsts if entity.end == entity.start + 1 else inside
        yield _limited(scores, (entity.end, labels.continues[last].reshape(-1, unary.shape[1]).any(axis=0)))


def _limited(unary: Floats, *allowed: tuple[int, NDArray[np.bool_]]) -> Floats:
    """Unary scores in which each given token has only its allowed labels, a mask (L,)."""
    case = unary.copy()
    for t, labels in allowed:
        case[t, ~labels] = -np.inf
    return case
