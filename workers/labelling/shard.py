"""Labels one shard: a plain loop over its documents, and an atomic write. No Ray here."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from schemas.columns import PREDICTIONS as PREDICTIONS_LAYOUT
from schemas.columns import Reject, nest, stamp
from schemas.decoded import Budget, Decoded, Status
from schemas.document import Batch, Column, Document
from schemas.errors import DocumentError
from schemas.labels import Labels
from schemas.predictions import certificates_table, predictions_table, times_table
from schemas.problem import Problem, Score
from schemas.run import RunKey, RunSettings, Seconds, ShardMarker, ShardResult
from schemas.settings import GibbsSettings
from workers.certificates.writer import prove
from workers.constraints.constraint_set import ConstraintSet, build_problems
from workers.corpus.shards import Shard, read_batch
from workers.evaluation.search_errors import DocumentErrors, EntityErrors, Objectives
from workers.inference.core.chain import viterbi
from workers.inference.core.engine import document_rng
from workers.inference.registry import SOLVERS, EngineError, solver_named
from workers.inference.sampling import gibbs
from workers.labelling.infeasible import breaks_something_hard, reason, settled
from workers.labelling.output import (
    CERTIFICATES,
    PREDICTIONS,
    TIMES,
    shard_key,
    shard_name,
    without_place,
    write_marker,
    write_table,
)
from workers.labelling.report import check_gold, report_of, with_gold
from workers.models.model import Model

SCORE_TOKENS = 100_000
"""Tokens scored at once: bounds the memory of the unary table, whatever the size of a row group."""

VITERBI_LABELS = "viterbi_labels"
"""Extra column of the predictions: the chain's own answer, so that every change can be explained."""


CERTIFY = "certify"
"""The engine whose proofs tell search errors from model errors."""


@dataclass
class Labelled:
    """A batch with its answers: one `Decoded` a document, and the Viterbi labelling it is compared to.

    ``refused`` are the documents that cannot be labelled, by their place in the batch, with the reason;
    the lists have the others, in order. ``first`` holds the Viterbi labels of each document, ``before``
    their score under the constraints. ``infeasible`` counts documents without an answer that keeps the
    hard constraints, ``infeasible_rejected`` those among ``refused``. The errors compare a sampler with
    gold where its answer was proven.
    """

    decoded: list[Decoded] = field(default_factory=list)
    first: list[Labels] = field(default_factory=list)
    before: list[Score] = field(default_factory=list)
    proofs: list[list[int] | None] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    infeasible: int = 0
    infeasible_rejected: int = 0
    entity_errors: EntityErrors = field(default_factory=EntityErrors.empty)
    document_errors: DocumentErrors = field(default_factory=DocumentErrors.empty)
    score_seconds: float = 0.0
    decode_seconds: float = 0.0


def check_settings(settings: RunSettings) -> RunSettings:
    """The same settings with every option of the engine written out.

    Raises `EngineError` for an unknown engine, an unknown option, a value out of range, and certificates of an
    engine that proves nothing.
    """
    kind = solver_named(settings.engine).settings
    if settings.certificates and settings.engine != CERTIFY:
        raise EngineError(f"engine {settings.engine} writes no certificates; use --engine {CERTIFY}")
    try:
        options = kind.model_validate(dict(settings.options))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        known = ", ".join(kind.model_fields) or "no options"
        raise EngineError(f"options of engine {settings.engine!r}: {faults} (it has {known})") from error
    return settings.model_copy(update={"options": options.model_dump(mode="json")})


def label_batch(batch: Batch, *, model: Model, constraints: ConstraintSet, settings: RunSettings) -> Labelled:
    """Scores and decodes every document, in order; no answer depends on what else is in the batch.

    A document that cannot be labelled is among `Labelled.refused`, and its neighbours are labelled.
    """
    started = time.perf_counter()
    labelled = Labelled()
    problems = (problem for part in _parts(batch) for problem in _problems(part, model, constraints, labelled))
    for place, (document, problem) in enumerate(zip(batch, problems, strict=True)):
        try:
            _label(labelled, document, problem, settings)
        except DocumentError as error:
            labelled.refused[place] = error.reason
    labelled.decode_seconds = time.perf_counter() - started - labelled.score_seconds
    return labelled


def _problems(
    batch: Batch, model: Model, constraints: ConstraintSet, labelled: Labelled
) -> Iterator[Problem | DocumentError]:
    """The problem of each document, in order, or why it has none.

    Documents among which one has none are tried again in halves, so that each is judged by itself.
    """
    done = 0
    try:
        for problem in _problems_of_all(batch, model, constraints, labelled):
            yield problem
            done += 1
        return
    except DocumentError as error:
        if len(batch) == 1:
            yield error
            return
    middle = (done + len(batch)) // 2
    for first, last in ((done, middle), (middle, len(batch))):
        if first < last:
            yield from _problems(batch.part(first, last), model, constraints, labelled)


def _problems_of_all(batch: Batch, model: Model, constraints: ConstraintSet, labelled: Labelled) -> Iterator[Problem]:
    """The problem of each document, in order. Raises `DocumentError` where one has none."""
    check_gold(model.labels, batch)
    started = time.perf_counter()
    potentials = model.potentials(batch)
    labelled.score_seconds += time.perf_counter() - started
    yield from build_problems(batch, potentials, model.labels, constraints)


def _label(labelled: Labelled, document: Document, problem: Problem | DocumentError, settings: RunSettings) -> None:
    """Adds the answer to a document's problem. Raises `DocumentError` where it has to be refused."""
    if isinstance(problem, DocumentError):
        raise problem
    first = viterbi(problem.potentials)
    decoded = _solve(problem, document.doc_id, settings)
    same = np.array_equal(decoded.labels, first)
    before = Score(decoded.local, decoded.degree, decoded.penalties) if same else problem.score(first)
    if breaks_something_hard(decoded):
        labelled.infeasible += 1
        decoded = settled(
            problem,
            decoded,
            viterbi=first,
            policy=settings.on_infeasible,
            weight=settings.relaxed_weight,
            solve=partial(_solve, doc_id=document.doc_id, settings=settings),
        )
        if settings.on_infeasible == "reject":
            labelled.infeasible_rejected += 1
            raise DocumentError(reason(decoded, problem.constraint_names))
    elif settings.engine == CERTIFY and document.labels is not None:
        _count_errors(labelled, problem, document, decoded, settings)
    if settings.certificates:
        proof = prove(problem, decoded.labels, decoded.bound, nodes=settings.certificate_nodes)
        labelled.proofs.append(proof)
        if proof is not None and decoded.status is Status.BY_SOLVER:
            decoded = replace(decoded, status=Status.OPTIMAL)
    labelled.decoded.append(decoded)
    labelled.first.append(first)
    labelled.before.append(before)


def _solve(problem: Problem, doc_id: str, settings: RunSettings) -> Decoded:
    solver = SOLVERS[settings.engine]
    config = solver.settings.model_validate(dict(settings.options))
    budget = Budget(settings.seconds, settings.work)
    return solver.solve(problem, config=config, rng=document_rng(settings.seed, doc_id), budget=budget)


def _count_errors(
    labelled: Labelled, problem: Problem, document: Document, decoded: Decoded, settings: RunSettings
) -> None:
    """Search errors and model errors of what engine gibbs answers."""
    rng = document_rng(settings.seed, document.doc_id)
    sampled = gibbs.solve(problem, config=GibbsSettings(), rng=rng)
    joint, gold = with_gold(problem.labels, document)
    known = int(gold.max(initial=0)) < len(problem.labels)
    objectives = Objectives(
        problem.score(gold).objective if known else -np.inf,
        sampled.objective,
        decoded.objective,
        decoded.certified,
    )
    labelled.entity_errors += EntityErrors.of(
        gold, sampled.labels, decoded.labels, joint, document.sentence_starts, proven=decoded.certified
    )
    labelled.document_errors += DocumentErrors.of(objectives, right=bool((gold == sampled.labels).all()))


def _parts(batch: Batch) -> Iterator[Batch]:
    """The batch in runs of whole documents of at most `SCORE_TOKENS` tokens (or one longer document)."""
    for first, last in batch.runs(SCORE_TOKENS):
        whole = last - first == len(batch)
        yield batch if whole else Batch.of([batch.document(i) for i in range(first, last)])


def label_shard(shard: Shard, *, model: Model, constraints: ConstraintSet, key: RunKey, store: Path) -> ShardResult:
    """Reads a shard, labels it, and writes its predictions, times and, last, its marker with the rejects.

    Safe to run twice, even at the same time: the bytes are the same and every file is replaced as
    a whole. Raises what reading raises and `OutputError`; a document that cannot be read or labelled is a
    reject instead.
    """
    started = time.perf_counter()
    name = shard_name(shard, key)
    batch, rejects = read_batch(shard, text=key.settings.text)
    read = time.perf_counter() - started
    labelled = label_batch(batch, model=model, constraints=constraints, settings=key.settings)
    if labelled.refused:
        rejects = _with_refused(rejects, shard, batch, labelled.refused)
        batch = Batch.of([batch.document(i) for i in range(len(batch)) if i not in labelled.refused])
    report = report_of(batch, labelled, labels=model.labels, names=constraints.names, rejected=len(rejects))
    decided = time.perf_counter()
    write_table(times_table(batch, labelled.decoded), store, TIMES, name)
    files = [write_table(_table(batch, labelled, model, constraints, key), store, PREDICTIONS, name)]
    if key.settings.certificates:
        files.append(write_table(certificates_table(batch, labelled.proofs), store, CERTIFICATES, name))
    marker = ShardMarker(
        key=shard_key(shard, key), files=tuple(files), rejects=without_place(rejects, shard), report=report
    )
    write_marker(marker, store)
    seconds = Seconds(read, labelled.score_seconds, labelled.decode_seconds, time.perf_counter() - decided)
    return ShardResult(marker, seconds)


def _with_refused(unread: list[Reject], shard: Shard, batch: Batch, refused: Mapping[int, str]) -> list[Reject]:
    """All rejects of a shard by row: rows that could not be read, and documents that could not be labelled."""
    bad = {reject.row for reject in unread}
    rows = [row for row in range(shard.first_row, shard.first_row + shard.rows) if row not in bad]
    new = [Reject(shard.file.path, rows[i], batch.doc_ids[i], why) for i, why in refused.items()]
    return sorted(unread + new, key=lambda reject: reject.row or 0)


def _table(batch: Batch, labelled: Labelled, model: Model, constraints: ConstraintSet, key: RunKey) -> pa.Table:
    table = predictions_table(
        batch,
        labelled.decoded,
        model.labels,
        engine=key.settings.engine,
        constraint_names=constraints.names,
        model_digest=model.digest,
        constraint_digest=constraints.digest,
    )
    first = np.concatenate([np.zeros(0, np.int32), *labelled.first])
    column = nest(Column(first, model.labels.names), batch.doc_starts)
    return stamp(table.append_column(VITERBI_LABELS, column), PREDICTIONS_LAYOUT)
