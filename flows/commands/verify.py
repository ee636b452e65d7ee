"""A run's certificates, checked: `concord verify`. No engine, no kernel: `workers.certificates.checker` alone."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.progress import meter
from flows.runfolder.published import Published, published
from flows.runfolder.runfolder import Sources, dataset_digest, read_sources
from flows.sources import LateRegistry, open_constraints, open_model
from schemas.columns import CERTIFICATES as LAYOUT
from schemas.columns import DOC_ID, LABELS, PREDICTIONS, SchemaError, check
from schemas.decoded import Status
from schemas.document import Batch
from schemas.errors import InputError
from schemas.labels import LabelError
from schemas.potentials import Ints
from schemas.problem import Problem
from schemas.reports import FailedCertificate, VerifyReport
from schemas.run import RunKey
from workers.certificates.checker import CertificateError
from workers.certificates.checker import check as check_proof
from workers.constraints.constraint_set import ConstraintSet
from workers.corpus.plan import plan
from workers.corpus.shards import Shard, read_batch
from workers.labelling.output import CERTIFICATES
from workers.labelling.output import PREDICTIONS as FOLDER
from workers.models.model import Model, local_scores, score_column, text_tokenizer

PROVEN = (Status.OPTIMAL, Status.BY_SOLVER)


class VerifyError(InputError):
    """A run that cannot be verified: it has no certificates, or what it was made from has changed."""


class _Answer(NamedTuple):
    """What a run says of a document; ``proof`` is None where it has none, ``damage`` says why none can be read."""

    labels: list[str]
    objective: float
    bound: float
    status: str
    proof: Ints | None
    damage: str | None


def verify(out: str, *, tracking: str | None = None) -> VerifyReport:
    """Checks every bound of the run in the folder ``out`` that has a certificate.

    Rebuilds each document's problem from the corpus, model and constraints that the run was made from. Raises
    `VerifyError` where these are others now, `PublishedError` where there is no whole run, and what reading raises.
    """
    run, sources = published(out), read_sources(Path(out))
    key = RunKey.model_validate(run.manifest["run"])
    if not key.settings.certificates:
        raise VerifyError(f"{out}: a run without certificates; run `concord reprocess --engine certify --certificates`")
    opened = open_model(sources.model, LateRegistry(tracking))
    constraints = open_constraints(opened, sources.constraints, consistency=sources.consistency)
    shards = plan(
        sources.corpus, text=key.settings.text, shard_bytes=sources.shard_bytes, scores=score_column(opened.model)
    )
    for what, name, now, then in (
        ("model", sources.model, opened.model.digest, key.model),
        ("constraints", _named(sources), constraints.digest, key.constraints),
        ("corpus", sources.corpus, dataset_digest(shards), run.manifest["dataset"]),
    ):
        if now != then:
            raise VerifyError(f"{out}: the {what} {name} is not what this run was made from; put it back, or run again")
    started = time.process_time()
    answers = _answers(run)
    counts = {"verified": 0, "by_solver": 0, "open": 0}
    failed: list[FailedCertificate] = []
    tolerance = float(key.settings.options["tolerance"])
    with meter("verifying", len(answers)) as bar:
        for doc_id, problem in _problems(shards, opened.model, constraints, key, answers):
            try:
                counts[_verified(problem, answers[doc_id], tolerance)] += 1
            except (CertificateError, LabelError) as error:
                failed.append(FailedCertificate(doc_id=doc_id, reason=str(error)))
            bar.advance(note=f"documents, {len(failed)} failed")
    return VerifyReport(
        documents=len(answers),
        **counts,
        failed=tuple(failed),
        cpu_seconds=round(time.process_time() - started, 3),
        out=out,
    )


def _verified(problem: Problem, answer: _Answer, tolerance: float) -> str:
    """What is known of an answer now. Raises `CertificateError` and `LabelError` where it is not what the run says."""
    if answer.damage is not None:
        raise CertificateError(answer.damage)
    if len(answer.labels) != len(problem):
        raise CertificateError(f"{len(answer.labels)} labels for {len(problem)} tokens")
    objective = problem.score(problem.labels.encode(answer.labels)).objective
    closed = answer.status in PROVEN
    if answer.proof is None and not closed:
        return "open"
    if not math.isclose(objective, answer.objective, rel_tol=1e-12, abs_tol=1e-9):
        raise CertificateError(f"its labels score {objective!r} nats, not {answer.objective!r}")
    if closed and not answer.bound - objective <= tolerance:
        raise CertificateError(f"it counts as optimal with a gap of {answer.bound - objective:.3g} nats")
    if answer.proof is None:
        return "by_solver"
    check_proof(problem, answer.bound, answer.proof.tolist())
    return "verified"


def _named(sources: Sources) -> str:
    return ", ".join(sources.constraints) or "trained with the model"


def _answers(run: Published) -> dict[str, _Answer]:
    """What the run says of each document, in the order of the corpus."""
    answers: dict[str, _Answer] = {}
    paths = sorted(path for path in run.manifest["files"] if path.startswith(f"{FOLDER}/"))
    for path, table in zip(paths, run.tables(FOLDER, PREDICTIONS), strict=True):
        proofs, damage = _proofs(run, path.replace(FOLDER, CERTIFICATES, 1))
        for row in table.select([DOC_ID, LABELS, "objective", "bound", "status"]).to_pylist():
            proof = proofs.get(row[DOC_ID])
            answers[row[DOC_ID]] = _Answer(row[LABELS], row["objective"], row["bound"], row["status"], proof, damage)
    return answers


def _proofs(run: Published, path: str) -> tuple[dict[str, Ints | None], str | None]:
    """The proofs in a file of certificates by document, and what is wrong with the file."""
    try:
        data = (Path(run.base) / path).read_bytes()
        table = pq.read_table(pa.BufferReader(data), use_threads=False, page_checksum_verification=True)
        check(table.schema, LAYOUT, source=path)
        if hashlib.sha256(data).hexdigest() != run.manifest["files"].get(path):
            return {}, f"{path} is damaged: not the bytes that were written"
        ids, proofs = table[DOC_ID].to_pylist(), table["proof"].combine_chunks()
        return {doc_id: _numbers(proof) for doc_id, proof in zip(ids, proofs, strict=True)}, None
    except (OSError, pa.ArrowException, SchemaError) as error:
        return {}, f"{path} cannot be read: {error}"


def _numbers(proof: pa.ListScalar) -> Ints | None:
    if not proof.is_valid:
        return None
    if proof.values.null_count:
        return np.zeros(0, np.int64)  # no number is no proof
    return np.asarray(proof.values.to_numpy(), np.int64)


def _problems(
    shards: list[Shard], model: Model, constraints: ConstraintSet, key: RunKey, answers: dict[str, _Answer]
) -> Iterator[tuple[str, Problem]]:
    """The problem of each document that the run has an answer to. Raises `VerifyError` where an answer has none."""
    left = set(answers)
    for shard in shards:
        batch, _ = read_batch(shard, text=key.settings.text, tokenizer=text_tokenizer(model))
        documents = [document for document in batch if document.doc_id in left]
        if documents:
            answered = Batch.of(documents)
            problems = local_scores(model, answered).problems(answered, model.labels, constraints)
            yield from zip(answered.doc_ids, problems, strict=True)
            left -= set(answered.doc_ids)
    if left:
        raise VerifyError(f"no document {min(left)!r} in the corpus, which the run has an answer to")
