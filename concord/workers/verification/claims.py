"""Claims of a run about one document, compared with the results that follow from its problem.

A row of the predictions holds numbers that can be recomputed from the document's problem and its labels, and a bound
that needs a proof. The numbers are all recomputed here. The bound is checked as far as possible: by its certificate;
or, if it is the local optimum, without one, since penalties are never negative; and no bound may lie below the score of
any labelling at hand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.columns import (
    DOC_ID,
    DOCUMENT_DIGEST,
    LABELS,
    MARGIN,
    MARGIN_STATUS,
    N_BEST,
    N_BEST_BOUND,
    PROBABILITY,
    SENTENCE_STARTS,
    SETTLED,
    VITERBI_CONSTRAINTS,
    VITERBI_LABELS,
    VITERBI_LOCAL,
    VITERBI_PENALTY,
)
from concord.schemas.decoded import MarginStatus, Score, Status
from concord.schemas.document import TOKENS, Batch
from concord.schemas.labels import LabelError, Labels, Spans
from concord.schemas.potentials import Potentials
from concord.schemas.predictions import entities_column
from concord.schemas.problem import Problem
from concord.schemas.run import RunSettings
from concord.workers.certificates.checker import CertificateError, check
from concord.workers.inference.numerics import LEAD, TOLERANCE
from concord.workers.labelling.kept import grounded_constraints
from concord.workers.verification.plain_chain import (
    best_labels,
    best_list,
    best_without,
    changed_once,
    sentences_changed,
    span_probabilities,
)

CLAIM_TOLERANCE = 1e-6
"""Largest difference between a written and a recomputed number, in nats or units of degree."""
RELATIVE = 1e-12
"""The same as a fraction of the number: many large terms may be summed in another order."""
MOST_CHANGES = 64
"""Most labellings with one other label that are held against a list of the best."""
MOST_SENTENCES = 4
"""Labellings of each sentence that are held against a list of the best, beside the labels of its first entry."""
CHANGES, MOST_NEAR = 2, 8
"""Changes between an entry of a list and what is held against it; the best that one change makes are changed again."""
CLOSED = (Status.OPTIMAL, Status.BY_SOLVER)

Row = Mapping[str, Any]


class ClaimError(Exception):
    """A field with another value than follows from the document."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


class Standing(StrEnum):
    """Degree of confirmation of an answer whose numbers are all right."""

    OPTIMAL = "optimal"
    """Its bound is confirmed and closes the gap."""
    BOUNDED = "bounded"
    """Its bound is confirmed and leaves a gap."""
    BY_ENGINE = "by_engine"
    """It is optimal, or there is no possible labelling, by the word of the engine."""
    BY_SOLVER = "by_solver"
    """It is optimal by the word of CP-SAT."""
    OPEN = "open"
    """It claims no more than a bound, by the word of the engine."""


class Promises(NamedTuple):
    """Promises of a run's engine and settings about every answer; the fields are those of `Solver`."""

    settings: RunSettings
    tolerance: float
    exact: bool
    bounds: bool
    asks_solver: bool
    own_aim: bool


class Claims(NamedTuple):
    """The claims about one document.

    - ``row``: its row of the predictions.
    - ``document``: the document, alone in a batch.
    - ``digest``: digest of its row in the corpus.
    - ``proof``: its certificate, or None.
    """

    row: Row
    document: Batch
    digest: bytes
    proof: Ints | None


def confirm(claims: Claims, problem: Problem, promises: Promises, constants: Row) -> Standing:
    """Confirmation of the claims; ``constants`` are the columns that are the same in every row of a run.

    Raises `ClaimError` for the first field that is wrong.
    """
    row, batch = claims.row, claims.document
    for name, value in {**_copied(batch), **constants, DOCUMENT_DIGEST: claims.digest}.items():
        _require(name in row, name, "is no column")
        _require(row[name] == value, name, f"{_short(row[name])}, not {_short(value)}")
    status = _status(row, promises)
    declared = problem
    if status is Status.RELAXED:
        problem = declared.relaxed(promises.settings.relaxed_weight)
    labels = _labels(problem, row[LABELS], LABELS)
    score = problem.score(labels)
    _check_score(row, problem, score)
    _check_entities(row, problem, batch, labels)
    top = _check_viterbi(row, problem, declared, promises)
    _check_bound(row, promises, status, top)
    spans = problem.labels.spans(labels, problem.potentials.sentence_starts)
    _check_settled(row, problem, promises, labels)
    _check_confidence(row, problem, promises, labels, spans)
    _check_ranking(row, problem, promises, labels)
    confirmed = not _above(top, row["bound"])
    if claims.proof is not None:
        _check_proof(problem, row["bound"], claims.proof)
        confirmed = True
    return _standing(status, confirmed=confirmed)


def answer_labels(problem: Problem, row: Row) -> tuple[Labels, Labels]:
    """The labels of a confirmed row, and its Viterbi labels."""
    return _labels(problem, row[LABELS], LABELS), _labels(problem, row[VITERBI_LABELS], VITERBI_LABELS)


def _require(holds: object, field: str, reason: str) -> None:
    if not holds:
        raise ClaimError(field, reason)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _same(claim: Any, value: float) -> bool:
    return isinstance(claim, float) and math.isclose(claim, value, rel_tol=RELATIVE, abs_tol=CLAIM_TOLERANCE)


def _above(one: float, other: float) -> bool:
    """Is ``one`` more than ``other``, by more than rounding?"""
    return one > other and not math.isclose(one, other, rel_tol=RELATIVE, abs_tol=CLAIM_TOLERANCE)


def _number(row: Row, field: str) -> float:
    value = row[field]
    _require(isinstance(value, float) and not math.isnan(value), field, f"{value} is no number of nats")
    return float(value)


def _nats(row: Row, field: str, value: float, what: str) -> None:
    """Raises `ClaimError` if the field is not this number of nats."""
    _require(_same(row[field], value), field, f"{what} {value!r} nats, not {row[field]!r}")


def _copied(batch: Batch) -> dict[str, Any]:
    """The columns that are copied from the corpus."""
    return {
        DOC_ID: batch.doc_ids[0],
        TOKENS: batch.columns[TOKENS].strings(),
        SENTENCE_STARTS: batch.sentence_starts.tolist(),
    }


def _status(row: Row, promises: Promises) -> Status:
    """The status. Raises `ClaimError` if the engine cannot have given it."""
    possible = {Status.OPTIMAL, Status.TIMEOUT, Status.INFEASIBLE}
    possible |= set() if promises.exact else {Status.FEASIBLE}
    possible |= {Status.BY_SOLVER} if promises.asks_solver else set()
    possible |= {Status.RELAXED} if promises.settings.on_infeasible == "relax" else set()
    status = row["status"]
    named = ", ".join(sorted(possible))
    _require(status in possible, "status", f"{status!r}, but engine {promises.settings.engine} says one of {named}")
    return Status(status)


def _labels(problem: Problem, names: Any, field: str) -> Labels:
    _require(isinstance(names, list) and None not in names, field, "is not there for every token")
    _require(len(names) == len(problem), field, f"{len(names)} labels for {len(problem)} tokens")
    try:
        return problem.labels.encode(names)
    except LabelError as error:
        raise ClaimError(field, str(error)) from None


def _check_score(row: Row, problem: Problem, score: Score) -> None:
    """Raises `ClaimError` if a part of the score does not follow from the labels, or from other parts."""
    _nats(row, "local", score.local, "its labels score")
    _check_charges(row, "constraints", problem, {"degree": score.degree, "penalty": score.penalties})
    _nats(row, "penalty", score.penalty, "its labels cost")
    objective, bound = row["local"] - row["penalty"], _number(row, "bound")
    _require(row["objective"] == objective, "objective", f"local less penalty is {objective!r}, not {row['objective']}")
    _require(
        not bound < objective - CLAIM_TOLERANCE, "bound", f"its own labels score {objective - bound:.3g} nats more"
    )
    gap = 0.0 if objective == bound else max(0.0, bound - objective)
    _require(row["gap"] == gap, "gap", f"bound less objective is {gap!r}, not {row['gap']!r}")
    certified = row["status"] in CLOSED
    _require(row["certified"] is certified, "certified", f"is {row['certified']} beside status {row['status']!r}")


def _check_entities(row: Row, problem: Problem, batch: Batch, labels: Labels) -> None:
    entities, claim = entities_column(batch, problem.labels, labels).to_pylist()[0], row["entities"]
    _require(isinstance(claim, list) and len(claim) == len(entities), "entities", f"its labels have {len(entities)}")
    for one, other in zip(claim, entities, strict=True):
        wrong = next((key for key, value in other.items() if one is None or one[key] != value), None)
        where = f"of tokens {other['start']} to {other['end']}"
        _require(wrong is None, f"entities, {wrong}", f"{where} is {wrong and _short(other[wrong])}")


def _check_viterbi(row: Row, problem: Problem, declared: Problem, promises: Promises) -> float:
    """Nats of the local optimum. Raises `ClaimError` if the Viterbi labels do not score it, or refute the answer.

    ``declared`` is the problem with its hard constraints, ``problem`` the one that was answered.
    """
    labels = _labels(problem, row[VITERBI_LABELS], VITERBI_LABELS)
    _, top = best_labels(problem.potentials)
    reached, first, score = problem.potentials.score(labels), declared.score(labels), problem.score(labels)
    _require(not _above(top, reached), VITERBI_LABELS, f"score {reached!r} nats by the model alone, the best {top!r}")
    _nats(row, VITERBI_LOCAL, first.local, "the Viterbi labels score")
    _nats(row, VITERBI_PENALTY, first.penalty, "the Viterbi labels cost")
    charges = {"degree": first.degree, "penalty": first.penalties, "grounded": grounded_constraints(declared)}
    _check_charges(row, VITERBI_CONSTRAINTS, declared, charges)
    refuted = _above(score.objective, row["bound"])
    _require(not refuted, "bound", f"{row['bound']!r} nats, and the Viterbi labels score {score.objective!r}")
    worse = _above(score.objective, row["objective"]) and not promises.own_aim
    _require(not worse, LABELS, f"score less than the Viterbi labels, {score.objective!r} nats, that the engine knows")
    return top


def _check_charges(row: Row, field: str, problem: Problem, charges: Mapping[str, NDArray[Any]]) -> None:
    """Raises `ClaimError` if the field does not hold these ``charges``, (K,) each, by the name of their key."""
    claim = row[field] or []
    names = [part and part["name"] for part in claim]
    _require(names == list(problem.constraint_names), field, f"are {_short(names)}, not those of the run")
    for key, values in charges.items():
        for part, value in zip(claim, values.tolist(), strict=True):
            right = part[key] is value if isinstance(value, bool) else _same(part[key], value)
            _require(right, f"{field}, {key} of {part['name']}", f"is {value!r}, not {part[key]!r}")


def _check_settled(row: Row, problem: Problem, promises: Promises, labels: Labels) -> None:
    """Raises `ClaimError` if a settled answer has a gap, or if the Viterbi labels are other ones and come near it."""
    if not promises.settings.settle:
        return
    claim = row[SETTLED]
    _require(isinstance(claim, bool), SETTLED, f"is {claim!r}")
    whole = row["status"] == Status.OPTIMAL and row["gap"] == 0.0
    _require(whole or not claim, SETTLED, f"beside status {row['status']!r} and a gap of {row['gap']!r} nats")
    first = _labels(problem, row[VITERBI_LABELS], VITERBI_LABELS)
    less = row["objective"] - problem.score(first).objective
    near = not np.array_equal(first, labels) and _above(LEAD / 2, less)
    _require(not (claim and near), SETTLED, f"though the Viterbi labels score only {less!r} nats less")


def _check_bound(row: Row, promises: Promises, status: Status, top: float) -> None:
    """Raises `ClaimError` if the engine cannot have proven the bound, or if it does not agree with the status."""
    bound, gap, engine = row["bound"], row["gap"], promises.settings.engine
    _require(not _above(bound, top), "bound", f"{bound!r} nats, though no labelling exceeds {top!r}, the local optimum")
    own = promises.bounds or bound == -math.inf or not _above(top, bound)
    _require(own, "bound", f"{bound!r} nats, though engine {engine} bounds by the local optimum alone, {top!r}")
    _require((bound == -math.inf) is (status is Status.INFEASIBLE), "status", f"{status} with a bound of {bound} nats")
    broken = status is Status.FEASIBLE and row["objective"] == -math.inf
    _require(not broken, "status", f"{status}, though the labels break something hard")
    if status in CLOSED:
        within = gap <= promises.tolerance
        _require(within, "status", f"{status} with a gap of {gap:.3g} nats, above the tolerance {promises.tolerance:g}")
    elif status in (Status.FEASIBLE, Status.TIMEOUT):
        _require(gap > 0.0, "status", f"{status}, though bound and objective meet")


def _check_proof(problem: Problem, bound: float, proof: Ints) -> None:
    try:
        check(problem, bound, proof.tolist())
    except CertificateError as error:
        raise ClaimError("proof", str(error)) from None


def _standing(status: Status, *, confirmed: bool) -> Standing:
    if confirmed:
        return Standing.OPTIMAL if status in CLOSED else Standing.BOUNDED
    if status is Status.BY_SOLVER:
        return Standing.BY_SOLVER
    return Standing.BY_ENGINE if status in (Status.OPTIMAL, Status.INFEASIBLE) else Standing.OPEN


# Confidence of the entities


def _check_confidence(row: Row, problem: Problem, promises: Promises, labels: Labels, spans: Spans) -> None:
    """Raises `ClaimError` for a probability with another value, or for a margin that some labelling undercuts."""
    kind = promises.settings.confidence
    if kind == "none":
        return
    probabilities = span_probabilities(problem.likelihoods, problem.labels, spans).tolist()
    for place, (one, other) in enumerate(zip(_one_each(row, PROBABILITY, len(spans)), probabilities, strict=True)):
        right = one is None if math.isnan(other) else _same(one, other)
        _require(right, PROBABILITY, f"of entity {place} is {other!r}, not {one!r}")
    if kind == "margin":
        _check_margins(row, problem, labels, spans)


def _one_each(row: Row, field: str, count: int) -> list[Any]:
    claims = row.get(field)
    _require(isinstance(claims, list) and len(claims) == count, field, f"is not there for each of {count} entities")
    return list(claims or [])


def _check_margins(row: Row, problem: Problem, labels: Labels, spans: Spans) -> None:
    nats, statuses = (_one_each(row, field, len(spans)) for field in (MARGIN, MARGIN_STATUS))
    for place, (margin, status) in enumerate(zip(nats, statuses, strict=True)):
        if row["objective"] == -math.inf:
            _require((margin, status) == (None, None), MARGIN, "is there, though the answer breaks something hard")
            continue
        is_number = isinstance(margin, float) and not math.isnan(margin)
        _require(is_number, MARGIN, f"of entity {place} is no number of nats")
        _require(status in set(MarginStatus), MARGIN_STATUS, f"of entity {place} is {status!r}")
        _require(
            margin >= -row["gap"] - CLAIM_TOLERANCE,
            MARGIN,
            f"of entity {place} is {margin!r}, less than the gap allows",
        )
        rival = _rival(problem, labels, spans, place)
        less = row["objective"] - rival
        free = not len(problem.rows) and not problem.agreements
        right = _same(margin, less) if free else not _above(margin, less)
        _require(right, MARGIN, f"of entity {place} is {margin!r}, though one without it scores {less!r} nats less")


def _rival(problem: Problem, labels: Labels, spans: Spans, place: int) -> float:
    """Score in nats of a good labelling without an entity.

    Its labels are the best ones of the entity's sentence under the chain, and the answer's elsewhere.
    """
    p, start = problem.potentials, int(spans.start[place])
    rival = best_without(p, problem.labels, start, int(spans.end[place]), int(spans.type[place]))
    if rival is None:
        return -math.inf
    bounds = np.append(p.sentence_starts, len(p))
    last = int(np.searchsorted(bounds, start, side="right"))
    other, own = labels.copy(), slice(int(bounds[last - 1]), int(bounds[last]))
    other[own] = rival[own]
    return problem.score(other).objective


# The list of the best labellings


def _check_ranking(row: Row, problem: Problem, promises: Promises, labels: Labels) -> None:
    """Raises `ClaimError` if the list of labellings is not in order, or if a labelling that it lacks refutes it.

    Without rows and agreements the best labelling that it lacks is one of those, so the bound is confirmed.
    """
    most = promises.settings.n_best
    if not most:
        return
    listed, bound = row.get(N_BEST), row.get(N_BEST_BOUND)
    _require(isinstance(listed, list) and len(listed) <= most, N_BEST, f"is no list of at most {most} labellings")
    _require(isinstance(bound, float) and not math.isnan(bound), N_BEST_BOUND, f"{bound} is no number of nats")
    assert isinstance(listed, list)
    assert isinstance(bound, float)
    scores: dict[bytes, float] = {}
    for place, one in enumerate(listed or ()):
        scores |= _ranked(problem, one, place, first=listed[0], before=scores)
        proven = one["score"] >= bound - TOLERANCE
        _require(one["proven"] is proven, N_BEST, f"number {place} is proven {one['proven']} under a bound of {bound}")
    at_hand = (labels, _labels(problem, row[VITERBI_LABELS], VITERBI_LABELS))
    first = problem.labels.encode(listed[0][LABELS]) if listed else labels
    for other, score in _rivals(problem, at_hand, first, most):
        unlisted = other not in scores
        _require(not (unlisted and _above(score, bound)), N_BEST_BOUND, f"{bound!r} nats, and another scores {score!r}")


def _rivals(problem: Problem, at_hand: Iterable[Labels], first: Labels, count: int) -> Iterator[tuple[bytes, float]]:
    """Labellings that are likely among the best, with their scores in nats.

    They are those ``at_hand``, more than ``count`` of the chain, and what one or two changes make of ``first`` (N,): of
    one label, or of one sentence.
    """
    scores_by_labels = {other.tobytes(): problem.score(other).objective for other in at_hand}
    p = problem.potentials
    near = [first] if len(p) and p.score(first) > -math.inf else []
    others = best_list(p, count + 1) if len(p) else ()
    for _ in range(CHANGES):
        changed = (other for one in near for other in _changed(p, one))
        new = {own.tobytes(): own for own in itertools.chain(others, changed)}
        scores = {name: problem.score(own).objective for name, own in new.items() if name not in scores_by_labels}
        scores_by_labels |= scores
        near, others = [new[name] for name in sorted(scores, key=scores.__getitem__, reverse=True)[:MOST_NEAR]], ()
    yield from scores_by_labels.items()


def _changed(potentials: Potentials, labels: Labels) -> Iterator[Labels]:
    yield from changed_once(potentials, labels, MOST_CHANGES)
    yield from sentences_changed(potentials, labels, MOST_SENTENCES)


def _ranked(problem: Problem, one: Any, place: int, *, first: Any, before: Mapping[bytes, float]) -> dict[bytes, float]:
    """The labels and the score of one entry of the list. Raises `ClaimError`."""
    _require(isinstance(one, dict), N_BEST, f"number {place} is not there")
    labels = _labels(problem, one[LABELS], N_BEST)
    score = problem.score(labels).objective
    _require(score > -math.inf and _same(one["score"], score), N_BEST, f"number {place} scores {score!r} nats")
    _require(labels.tobytes() not in before, N_BEST, f"number {place} is there twice")
    falls = all(one["score"] <= other + CLAIM_TOLERANCE for other in before.values())
    _require(falls, N_BEST, f"number {place} scores more than one before it")
    gap = first["score"] - one["score"]
    _require(_same(one["gap"], gap), N_BEST, f"number {place} is {gap!r} nats below the first, not {one['gap']!r}")
    return {labels.tobytes(): score}
