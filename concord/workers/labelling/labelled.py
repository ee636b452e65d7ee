"""Labelling a batch: scoring its documents, decoding each, and a fallback where no answer keeps hard constraints."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from concord.schemas.decoded import Budget, Confidence, Decoded, Ranking, Score, Status
from concord.schemas.document import Batch, Document
from concord.schemas.errors import CorpusError, DocumentError
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.schemas.run import ADOPTED, Reuse, RunSettings
from concord.workers.certificates.checker import check
from concord.workers.certificates.writer import prove
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.nbest.settled import LAST_ATTEMPT, settled_near
from concord.workers.inference.registry import SOLVERS, Decoder, EngineError
from concord.workers.labelling.confidence import confidence
from concord.workers.labelling.error_analysis import ErrorAnalysis
from concord.workers.labelling.infeasible import breaks_something_hard, fallback, reason
from concord.workers.labelling.kept import KeptAnswer, grounded_constraints
from concord.workers.labelling.problems import each_problem
from concord.workers.labelling.ranking import ranking
from concord.workers.labelling.report import check_gold
from concord.workers.models.model import BringsAnswers, Model, local_scores

OF_LAYER = re.compile("(.+)_(candidates|grade)")
NONE_KEPT: Mapping[int, KeptAnswer] = MappingProxyType({})
NO_GUESSES: Mapping[int, Labels] = MappingProxyType({})


@dataclass
class Labelled:
    """Answers to a batch; the lists have an entry for each labelled document, in order.

    - ``decoded``: the answer
    - ``first``: its Viterbi labels
    - ``before``: the score of these under the constraints
    - ``grounded``: mask of the constraints that have rows or pairs in the document
    - ``settled``: is the answer settled (where the run asks)?
    - ``cpu_seconds``: CPU seconds of this process while the engine worked on the document
    - ``refused``: reason by place in the batch, for documents that cannot be labelled
    - ``infeasible``: number of documents without an answer that keeps the hard constraints
    - ``infeasible_rejected``: number of these among ``refused``
    - ``reuse``: documents that took the answer of the last run
    """

    decoded: list[Decoded] = field(default_factory=list)
    first: list[Labels] = field(default_factory=list)
    before: list[Score] = field(default_factory=list)
    grounded: list[NDArray[np.bool_]] = field(default_factory=list)
    settled: list[bool] = field(default_factory=list)
    proofs: list[list[int] | None] = field(default_factory=list)
    confidence: list[Confidence] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    infeasible: int = 0
    infeasible_rejected: int = 0
    reuse: Reuse = field(default_factory=Reuse)
    errors: ErrorAnalysis = field(default_factory=ErrorAnalysis.nothing)
    score_seconds: float = 0.0
    decode_seconds: float = 0.0


def check_settings(settings: RunSettings) -> RunSettings:
    """The same settings with every option of the engine written out.

    Raises `EngineError` for an unknown engine, an unknown option, a value out of range, certificates of an
    engine that writes none, and an error analysis by an engine that proves nothing.
    """
    decoder = Decoder.of(settings.engine, settings.options)
    solver = SOLVERS[settings.engine]
    if settings.certificates and not solver.certifies:
        able = " or ".join(name for name, other in SOLVERS.items() if other.certifies)
        raise EngineError(f"engine {settings.engine} writes no certificates; use --engine {able}")
    if settings.settle and not solver.exact:
        raise EngineError(
            f"engine {settings.engine} proves nothing, so it settles no answer; use one of {_exact_engines()}"
        )
    if settings.errors_of is not None:
        Decoder.of(settings.errors_of)
        if not solver.exact:
            raise EngineError(
                f"engine {settings.engine} proves nothing, so it cannot tell the errors of {settings.errors_of} apart; "
                f"use --engine with one of {_exact_engines()}"
            )
    return settings.model_copy(update={"options": decoder.config.model_dump(mode="json")})


def _exact_engines() -> str:
    return ", ".join(name for name, solver in SOLVERS.items() if solver.exact)


def run_decoder(settings: RunSettings) -> Decoder:
    """Decoder of a run, with its engine, options, seed and budget. Raises `EngineError`."""
    budget = Budget(settings.seconds, settings.work)
    return Decoder.of(settings.engine, settings.options, seed=settings.seed, budget=budget)


def label_batch(
    batch: Batch,
    *,
    model: Model,
    constraints: ConstraintSet,
    settings: RunSettings,
    kept: Mapping[int, KeptAnswer] = NONE_KEPT,
    guesses: Mapping[int, Labels] = NO_GUESSES,
) -> Labelled:
    """Scores and decodes every document, in order; no answer depends on what else is in the batch.

    - ``kept``: answers that need no search, by place; these documents are not scored, but for what is added to answers
    - ``guesses``: labels that may be near the settled answer, by place

    A document that cannot be labelled is among `Labelled.refused`, and its neighbours are labelled.
    """
    if settings.engine == ADOPTED:
        return _adopted(batch, model)
    started = time.perf_counter()
    decoder = run_decoder(settings)
    labelled = Labelled(errors=ErrorAnalysis.by(settings))
    whole = NONE_KEPT if settings.adds else kept
    rest = Batch.of([batch.document(place) for place in range(len(batch)) if place not in whole]) if whole else batch
    problems = each_problem(rest, lambda part: _scored(part, model, constraints, labelled))
    for place, document in enumerate(batch):
        if place in whole:
            _add(labelled, whole[place])
            continue
        try:
            _label(labelled, document, next(problems), decoder, settings, kept.get(place), guesses.get(place))
        except DocumentError as error:
            labelled.refused[place] = error.reason
    labelled.decode_seconds = time.perf_counter() - started - labelled.score_seconds
    return labelled


def check_there(there: Sequence[str], place: str, *, model: Model, constraints: ConstraintSet, source: str) -> None:
    """Raises `CorpusError` if a column that is read is not among the token columns ``there`` of a place."""
    needs = [
        (
            f"the model {source}",
            model.columns,
            "use a model trained without it, such as with the default features, core+mentions+clusters+entities",
        ),
        ("a constraint", constraints.columns, "leave that constraint out"),
    ]
    for who, columns, remedy in needs:
        missing = [name for name in columns if name not in there]
        if missing:
            raise CorpusError(
                f"{place}: {who} reads the column {', '.join(map(repr, missing))}, which is not there "
                f"(there are {', '.join(there)}); {remedy}, or {_added(missing[0])}"
            )


def _added(column: str) -> str:
    """What adds a column; those of a layer, named as in `schemas.layers`, have a command."""
    layer = OF_LAYER.fullmatch(column)
    if layer is None:
        return f"add the column (if it is a layer, with `concord import entities --name {column}`)"
    option = "--candidates " if layer[2] == "candidates" else ""
    return f"add it with `concord import entities {option}--name {layer[1]}`"


def _adopted(batch: Batch, model: Model) -> Labelled:
    """The answers that the model brings, without constraints; another program gave them, so no bound is known."""
    assert isinstance(model, BringsAnswers)
    labelled, nothing = Labelled(), Score(0.0, np.zeros(0), np.zeros(0))
    for place, document in enumerate(batch):
        try:
            check_gold(model.labels, batch.part(place, place + 1))
            labels, probability = model.answer(document)
        except DocumentError as error:
            labelled.refused[place] = error.reason
            continue
        decoded = Decoded(labels, nothing, np.inf, Status.ADOPTED)
        _add(labelled, KeptAnswer(decoded, labels, nothing, np.zeros(0, np.bool_), settled=False))
        labelled.confidence.append(Confidence(probability))
    return labelled


def _scored(batch: Batch, model: Model, constraints: ConstraintSet, labelled: Labelled) -> Iterator[Problem]:
    """The problem of each document, in order. Raises `DocumentError` where one has none."""
    check_gold(model.labels, batch)
    started = time.perf_counter()
    scores = local_scores(model, batch)
    labelled.score_seconds += time.perf_counter() - started
    yield from scores.problems(batch, model.labels, constraints)


def _label(
    labelled: Labelled,
    document: Document,
    problem: Problem | DocumentError,
    decoder: Decoder,
    settings: RunSettings,
    kept: KeptAnswer | None,
    guess: Labels | None,
) -> None:
    """Adds the answer to a document's problem. Raises `DocumentError` where it has to be refused."""
    if isinstance(problem, DocumentError):
        raise problem
    prepared = aim = Prepared.of(problem)
    started, started_cpu = time.perf_counter(), time.process_time()
    if kept is None:
        decoded, origin = _decoded(prepared, document, decoder, settings, guess)
    else:
        decoded, origin = kept.decoded, _AnswerOrigin.SETTLED if kept.settled else _AnswerOrigin.SEARCHED
    cpu_seconds = time.process_time() - started_cpu
    if origin is not _AnswerOrigin.SEARCHED:  # no engine has measured it
        decoded = replace(decoded, seconds=time.perf_counter() - started)
    if breaks_something_hard(decoded):
        decoded = _without_what_is_hard(labelled, document, prepared, decoded, decoder, settings)
        if decoded.status is Status.RELAXED:
            aim = Prepared.of(prepared.relaxed(settings.relaxed_weight))
    else:
        labelled.errors.add(document, prepared, decoded)
    if settings.certificates:
        proof = prove(aim, decoded.labels, decoded.bound, nodes=settings.certificate_nodes)
        labelled.proofs.append(proof)
        if proof is not None and decoded.status is Status.BY_SOLVER:
            check(aim, decoded.bound, proof)  # a status is what others will be told without looking
            decoded = replace(decoded, status=Status.OPTIMAL)
    if settings.confidence != "none":
        labelled.confidence.append(confidence(aim, decoded, document.doc_id, settings))
    if settings.n_best:
        labelled.rankings.append(ranking(aim, decoded, document.doc_id, settings))
    grounded = grounded_constraints(prepared)
    is_settled = origin is not _AnswerOrigin.SEARCHED
    _add(labelled, KeptAnswer(decoded, prepared.viterbi, prepared.first, grounded, is_settled), cpu_seconds)
    if origin is _AnswerOrigin.NEAR_GUESS:
        labelled.reuse += Reuse(confirmed=1)


class _AnswerOrigin(Enum):
    """How an answer was found."""

    NEAR_GUESS = auto()
    """It was found from a guess, and is settled."""
    SETTLED = auto()
    """It was found from the Viterbi labels or is the engine's, and is settled."""
    SEARCHED = auto()
    """It is the engine's."""


def _decoded(
    problem: Prepared, document: Document, decoder: Decoder, settings: RunSettings, guess: Labels | None
) -> tuple[Decoded, _AnswerOrigin]:
    """The settled answer, if there is one, whoever finds it; otherwise the engine's."""
    if not settings.settle:
        return decoder(problem, document.doc_id), _AnswerOrigin.SEARCHED
    near = settled_near(problem, guess) if guess is not None and len(guess) == len(problem) else None
    if near is not None:
        return near, _AnswerOrigin.NEAR_GUESS
    settled = settled_near(problem, problem.viterbi)
    if settled is not None:
        return settled, _AnswerOrigin.SETTLED
    decoded = decoder(problem, document.doc_id)
    if breaks_something_hard(decoded):
        return decoded, _AnswerOrigin.SEARCHED
    # Also where the engine reached its limit: an earlier run may have the proof, and the two should not differ.
    proven = settled_near(problem, decoded.labels, factor=LAST_ATTEMPT)
    return (decoded, _AnswerOrigin.SEARCHED) if proven is None else (proven, _AnswerOrigin.SETTLED)


def _add(labelled: Labelled, answer: KeptAnswer, cpu_seconds: float = 0.0) -> None:
    labelled.decoded.append(answer.decoded)
    labelled.first.append(answer.viterbi)
    labelled.before.append(answer.before)
    labelled.grounded.append(answer.grounded)
    labelled.settled.append(answer.settled)
    labelled.cpu_seconds.append(cpu_seconds)


def _without_what_is_hard(
    labelled: Labelled,
    document: Document,
    problem: Prepared,
    decoded: Decoded,
    decoder: Decoder,
    settings: RunSettings,
) -> Decoded:
    """Answer by the run's policy where none keeps the hard constraints. Raises `DocumentError` if that is to reject."""
    labelled.infeasible += 1
    answer = fallback(
        problem,
        decoded,
        policy=settings.on_infeasible,
        weight=settings.relaxed_weight,
        solve=lambda relaxed: decoder(relaxed, document.doc_id),
    )
    if settings.on_infeasible == "reject":
        labelled.infeasible_rejected += 1
        raise DocumentError(reason(answer, problem.constraint_names))
    return answer
