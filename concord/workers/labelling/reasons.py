"""Reasons of an answer at a span: its rivals, who speaks for it and against it, and the mentions that decided.

A rival is the best labelling in which the span is something else: a correction (`constraints.correction_mask`) forces
that, and what is left is an ordinary problem, solved with a bound. The distance of two labellings is exactly

    score(answer) − score(rival) = local(answer) − local(rival) + Σ_k (penalty_k(rival) − penalty_k(answer)),

so each term is what the model, or a constraint, says for the answer, in nats.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from concord.schemas.corrections import Correction
from concord.schemas.decoded import Decoded, MarginStatus
from concord.schemas.errors import DocumentError
from concord.schemas.labels import Labels
from concord.schemas.problem import NO_KEY, Relation, SpanAgreement
from concord.schemas.run import RunSettings
from concord.schemas.why import ConstraintPull, MentionPull, OtherSpan, RivalType, SpanReason
from concord.workers.constraints.correction_mask import with_corrections
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.numerics import TOLERANCE
from concord.workers.labelling.confidence import Entity, EntityMargin, entity_margin, margin_decoder

CONTEXT_WORDS = 3
"""Words that are shown on each side of a mention."""
OUTSIDE_TYPE = -1
"""In place of a type: no entity."""


class AnsweredProblem(NamedTuple):
    """A document's problem with its answer.

    - ``words`` (N,): its tokens
    """

    problem: Prepared
    answer: Decoded
    words: list[str]
    doc_id: str
    settings: RunSettings


class _Solved(NamedTuple):
    kind: int
    decoded: Decoded


def changed_spans(answered: AnsweredProblem) -> list[tuple[int, int]]:
    """Spans of entities that only the answer or only the Viterbi labels have, in the order of tokens."""
    one, other = (_entities(answered.problem, labels) for labels in (answered.answer.labels, answered.problem.viterbi))
    return sorted({span for span in one.keys() | other.keys() if one.get(span) != other.get(span)})


def reason_of(answered: AnsweredProblem, start: int, end: int) -> SpanReason:
    """Why the span is labelled as it is."""
    problem, answer = answered.problem, answered.answer
    entities, alone = (_entities(problem, labels) for labels in (answer.labels, problem.viterbi))
    kind = entities.get((start, end), OUTSIDE_TYPE)
    solved = sorted(_rivals(answered, start, end, kind), key=lambda one: -one.decoded.objective)
    margin = _margin(answered, Entity(start, end, kind), solved)
    nearest = solved[0] if solved else None
    before = alone.get((start, end), OUTSIDE_TYPE)
    return SpanReason(
        start=start,
        end=end,
        text=" ".join(answered.words[start:end]),
        type=_name(problem, kind),
        viterbi_type=_name(problem, before),
        margin=margin.nats,
        margin_status=str(margin.status),
        nearest=() if margin.labels is None else tuple(_other_spans(answered, margin.labels)),
        rivals=tuple(
            RivalType(
                type=_name(problem, one.kind),
                nats=answer.objective - one.decoded.objective,
                proven=one.decoded.gap <= TOLERANCE,
            )
            for one in solved
        ),
        local=0.0 if nearest is None else answer.local - nearest.decoded.local,
        constraints=() if nearest is None else tuple(_pulls(answered, nearest.decoded)),
        mentions=() if nearest is None else tuple(_mentions(answered, Entity(start, end, kind), nearest.kind)),
    )


def _name(problem: Prepared, kind: int) -> str | None:
    return None if kind == OUTSIDE_TYPE else problem.labels.types[kind]


def _entities(problem: Prepared, labels: Labels) -> dict[tuple[int, int], int]:
    spans = problem.labels.spans(labels, problem.potentials.sentence_starts)
    places = zip(spans.start.tolist(), spans.end.tolist(), strict=True)
    return dict(zip(places, spans.type.tolist(), strict=True))


def _rivals(answered: AnsweredProblem, start: int, end: int, kind: int) -> Iterator[_Solved]:
    """The best labelling for each other type of the span, and without an entity there, as far as there is one."""
    problem, decoder = answered.problem, margin_decoder(answered.settings)
    for other in (OUTSIDE_TYPE, *range(len(problem.labels.types))):
        if other == kind or (other == OUTSIDE_TYPE and not (problem.labels.type_of < 0).any()):
            continue
        forced = Correction(start, end, _name(problem, other))
        try:
            potentials = with_corrections(problem.potentials, problem.labels, (forced,))
        except DocumentError:
            continue
        decoded = decoder(Prepared.of(replace(problem, potentials=potentials)), answered.doc_id)
        if decoded.objective > -np.inf:
            yield _Solved(other, decoded)


def _other_spans(answered: AnsweredProblem, labels: Labels) -> Iterator[OtherSpan]:
    """Spans that are another thing in a labelling than in the answer, in the order of tokens."""
    there, here = (_entities(answered.problem, one) for one in (labels, answered.answer.labels))
    for span in sorted(there.keys() | here.keys()):
        now, then = here.get(span, OUTSIDE_TYPE), there.get(span, OUTSIDE_TYPE)
        if now != then:
            yield OtherSpan(
                start=span[0],
                end=span[1],
                text=" ".join(answered.words[span[0] : span[1]]),
                type=_name(answered.problem, now),
                other=_name(answered.problem, then),
            )


def _margin(answered: AnsweredProblem, entity: Entity, solved: list[_Solved]) -> EntityMargin:
    if entity.type != OUTSIDE_TYPE:
        return entity_margin(answered.problem, answered.answer, answered.doc_id, entity, answered.settings)
    typed = [one.decoded for one in solved if one.kind != OUTSIDE_TYPE]
    if not typed:
        return EntityMargin(np.inf, MarginStatus.EXACT, None)
    bound, nearest = max(decoded.bound for decoded in typed), typed[0]
    proven = bound <= nearest.objective + TOLERANCE
    status = MarginStatus.EXACT if proven else MarginStatus.BOUND
    return EntityMargin(answered.answer.objective - bound, status, nearest.labels)


def _pulls(answered: AnsweredProblem, rival: Decoded) -> Iterator[ConstraintPull]:
    """What each constraint charges the rival more than the answer, the largest first."""
    nats = rival.score.penalties - answered.answer.score.penalties
    for k in np.argsort(-np.abs(nats), kind="stable").tolist():
        yield ConstraintPull(name=answered.problem.constraint_names[k], nats=float(nats[k]))


def _mentions(answered: AnsweredProblem, entity: Entity, rival: int) -> Iterator[MentionPull]:
    """Other places with the words of the entity, those that pull most first."""
    width = entity.end - entity.start
    tables = [a.key for a in answered.problem.agreements if a.relation is not Relation.DIFFERENT]
    places = {
        place
        for key in tables
        if width <= key.shape[1] and key[entity.start, width - 1] != NO_KEY
        for place in np.flatnonzero(key[:, width - 1] == key[entity.start, width - 1]).tolist()
    }
    mentions = [_mention(answered, entity, rival, place) for place in sorted(places - {entity.start})]
    yield from sorted(mentions, key=lambda one: -abs(one.nats))


def _mention(answered: AnsweredProblem, entity: Entity, rival: int, place: int) -> MentionPull:
    problem, end = answered.problem, place + entity.end - entity.start
    around = _entities(problem, answered.answer.labels), _entities(problem, problem.viterbi)
    holder, before = (_holder(entities, place, end) for entities in around)
    agreements = problem.agreements
    if holder.type == OUTSIDE_TYPE and problem.labels.type_of[answered.answer.labels[place]] >= 0:
        agreements = ()  # begins inside of an entity that ends before it does: neither a mention nor left out
    nats = sum(_pair(a, entity._replace(type=rival), place, holder) for a in agreements)
    nats -= sum(_pair(a, entity, place, holder) for a in agreements)
    return MentionPull(
        start=place,
        end=end,
        context=" ".join(answered.words[max(0, place - CONTEXT_WORDS) : end + CONTEXT_WORDS]),
        type=_name(problem, holder.type),
        viterbi_type=_name(problem, before.type),
        nats=nats,
    )


def _holder(entities: dict[tuple[int, int], int], start: int, end: int) -> Entity:
    """The entity that has these tokens, whole; the tokens themselves as none otherwise."""
    around = (Entity(*span, kind) for span, kind in entities.items() if span[0] <= start and end <= span[1])
    return next(around, Entity(start, end, OUTSIDE_TYPE))


def _pair(agreement: SpanAgreement, entity: Entity, place: int, holder: Entity) -> float:
    """Nats that an agreement charges an entity (of a type, or none) beside another place with its words.

    - ``holder``: what that place is part of
    """
    width, key = entity.end - entity.start, agreement.key
    if width > key.shape[1] or key[entity.start, width - 1] == NO_KEY:
        return 0.0
    if key[place, width - 1] != key[entity.start, width - 1]:
        return 0.0
    times = width if agreement.per_token else 1
    exact = (holder.start, holder.end) == (place, place + width)
    if agreement.relation is Relation.EXACT and exact and OUTSIDE_TYPE not in (entity.type, holder.type):
        return float(agreement.cost[entity.type, holder.type]) * times
    if agreement.relation is Relation.UNLABELLED and exact:
        typed = [kind for kind in (entity.type, holder.type) if kind != OUTSIDE_TYPE]
        return float(agreement.cost[typed[0], 0]) * times if len(typed) == 1 else 0.0
    if agreement.relation is Relation.CONTAINED and not exact and entity.type != OUTSIDE_TYPE:
        return float(agreement.cost[holder.type, entity.type]) * times
    return 0.0
