"""Labels one shard: a plain loop over its documents, and an atomic write. No Ray here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from schemas.columns import PREDICTIONS as PREDICTIONS_LAYOUT
from schemas.columns import Reject, nest, rejects_table, stamp
from schemas.decoded import Budget, Decoded
from schemas.document import Batch, Column, Document
from schemas.labels import Labels
from schemas.predictions import predictions_table, times_table
from schemas.problem import Problem, Score
from schemas.run import RunKey, RunSettings, Seconds, ShardMarker, ShardResult
from schemas.settings import GibbsSettings
from workers.constraints.constraint_set import ConstraintSet, build_problems
from workers.evaluation.search_errors import DocumentErrors, EntityErrors, Objectives
from workers.infeasible import breaks_something_hard, reason, settled
from workers.inference import gibbs
from workers.inference.chain import viterbi
from workers.inference.engine import document_rng
from workers.inference.registry import SOLVERS, EngineError, solver_named
from workers.models.model import Model
from workers.output import MARKERS, PREDICTIONS, REJECTS, TIMES, shard_key, shard_name, write_bytes, write_table
from workers.shard_io import Shard, read_batch
from workers.shard_report import report_of, with_gold

SCORE_TOKENS = 100_000
"""Tokens scored at once: bounds the memory of the unary table, whatever the size of a row group."""

VITERBI_LABELS = "viterbi_labels"
"""Extra column of the predictions: the chain's own answer, so that every change can be explained."""


CERTIFY = "certify"
"""The engine whose proofs tell search errors from model errors."""


@dataclass
class Labelled:
    """A batch with its answers: one `Decoded` a document, and the Viterbi labelling it is compared to.

    ``first`` holds the Viterbi labels of each document, ``before`` their score under the constraints,
    ``infeasible`` whether no answer was found that keeps the hard constraints. The errors compare a
    sampler with gold where its answer was proven.
    """

    decoded: list[Decoded] = field(default_factory=list)
    first: list[Labels] = field(default_factory=list)
    before: list[Score] = field(default_factory=list)
    infeasible: list[bool] = field(default_factory=list)
    infeasible_rejected: int = 0
    entity_errors: EntityErrors = field(default_factory=EntityErrors.empty)
    document_errors: DocumentErrors = field(default_factory=DocumentErrors.empty)
    score_seconds: float = 0.0
    decode_seconds: float = 0.0


def check_settings(settings: RunSettings) -> RunSettings:
    """The same settings with every option of the engine written out.

    Raises `EngineError` for an unknown engine, an unknown option or a value out of range.
    """
    kind = solver_named(settings.engine).settings
    try:
        options = kind.model_validate(dict(settings.options))
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        known = ", ".join(kind.model_fields) or "no options"
        raise EngineError(f"options of engine {settings.engine!r}: {faults} (it has {known})") from error
    return settings.model_copy(update={"options": options.model_dump(mode="json")})


def label_batch(batch: Batch, *, model: Model, constraints: ConstraintSet, settings: RunSettings) -> Labelled:
    """Scores and decodes every document, in order; no answer depends on what else is in the batch."""
    labelled = Labelled()
    for part in _parts(batch):
        started = time.perf_counter()
        potentials = model.potentials(part)
        scored = time.perf_counter()
        problems = build_problems(part, potentials, model.labels, constraints)
        for document, problem in zip(part, problems, strict=True):
            first = viterbi(problem.potentials)
            decoded = _solve(problem, document.doc_id, settings)
            same = np.array_equal(decoded.labels, first)
            before = Score(decoded.local, decoded.degree, decoded.penalties) if same else problem.score(first)
            labelled.infeasible.append(breaks_something_hard(decoded))
            if labelled.infeasible[-1]:
                decoded = settled(
                    problem,
                    decoded,
                    viterbi=first,
                    policy=settings.on_infeasible,
                    weight=settings.relaxed_weight,
                    solve=partial(_solve, doc_id=document.doc_id, settings=settings),
                )
            elif settings.engine == CERTIFY and document.labels is not None:
                _count_errors(labelled, problem, document, decoded, settings)
            labelled.decoded.append(decoded)
            labelled.first.append(first)
            labelled.before.append(before)
        labelled.score_seconds += scored - started
        labelled.decode_seconds += time.perf_counter() - scored
    return labelled


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


def label_shard(shard: Shard, *, model: Model, constraints: ConstraintSet, key: RunKey, out: Path) -> ShardResult:
    """Reads a shard, labels it, and writes its predictions, rejects, times and, last, its marker.

    Safe to run twice, even at the same time: the bytes are the same and every file is replaced as
    a whole. Raises what reading raises; a document that cannot be read is a reject instead.
    """
    started = time.perf_counter()
    name = shard_name(shard)
    batch, rejects = read_batch(shard, text=key.settings.text)
    read = time.perf_counter() - started
    labelled = label_batch(batch, model=model, constraints=constraints, settings=key.settings)
    if key.settings.on_infeasible == "reject" and any(labelled.infeasible):
        rejects += _infeasible_rejects(batch, labelled, constraints, source=shard.file.path)
        batch, labelled = _feasible(batch, labelled)
    report = report_of(batch, labelled, labels=model.labels, names=constraints.names, rejected=len(rejects))
    decided = time.perf_counter()
    files = [write_table(_table(batch, labelled, model, constraints, key), out, PREDICTIONS, name)]
    if rejects:
        files.append(write_table(rejects_table(rejects), out, REJECTS, name))
    else:
        (out / REJECTS / f"{name}.parquet").unlink(missing_ok=True)
    write_table(times_table(batch, labelled.decoded), out, TIMES, name)
    marker = ShardMarker(shard=name, key=shard_key(shard, key), files=tuple(files), report=report)
    write_bytes(marker.model_dump_json(indent=1).encode(), out, f"{MARKERS}/{name}.json")
    seconds = Seconds(read, labelled.score_seconds, labelled.decode_seconds, time.perf_counter() - decided)
    return ShardResult(marker, seconds)


def _infeasible_rejects(batch: Batch, labelled: Labelled, constraints: ConstraintSet, *, source: str) -> list[Reject]:
    rows = zip(batch.doc_ids, labelled.decoded, labelled.infeasible, strict=True)
    names = constraints.names
    return [Reject(source, None, doc_id, reason(decoded, names)) for doc_id, decoded, broken in rows if broken]


def _feasible(batch: Batch, labelled: Labelled) -> tuple[Batch, Labelled]:
    """What is left once documents without an answer are rejected."""
    kept = [i for i, broken in enumerate(labelled.infeasible) if not broken]
    left = replace(
        labelled,
        decoded=[labelled.decoded[i] for i in kept],
        first=[labelled.first[i] for i in kept],
        before=[labelled.before[i] for i in kept],
        infeasible_rejected=len(batch) - len(kept),
    )
    return Batch.of([batch.document(i) for i in kept]), left


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
