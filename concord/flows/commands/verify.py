"""Verification of a finished run: `concord verify`. Every number is recomputed, and every document is looked for.

It rests on `workers.verification`: on no engine, and for most models on no compiled kernel.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from concord.flows.labelling.corrected_documents import correction_file
from concord.flows.labelling.sources import open_constraints, open_model
from concord.flows.runfolder.followers import follower_faults
from concord.flows.runfolder.layout import MANIFEST, foreign_files
from concord.flows.runfolder.lists import list_name
from concord.flows.runfolder.published import Published, PublishedError, published
from concord.flows.runfolder.runfolder import Sources, dataset_digest, read_sources, run_output
from concord.flows.screen.progress import meter
from concord.schemas.arrays import Ints
from concord.schemas.columns import CERTIFICATES_LAYOUT, DOC_ID, PREDICTIONS_LAYOUT, REJECTS_LAYOUT, Reject, SchemaError
from concord.schemas.errors import InputError, UsageError
from concord.schemas.reports import VerifyFault, VerifyReport
from concord.schemas.run import ADOPTED, RunKey, ShardPlace, ShardReport
from concord.schemas.run_context import HERE, RunContext
from concord.workers.certificates.checker import TOLERANCE
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.constraint_set import ConstraintSet, Separable
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import Shard, read_documents
from concord.workers.inference.registry import SOLVERS
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.output import CERTIFICATES, PREDICTIONS, REJECTS, in_place, shard_keys, without_place
from concord.workers.models.model import BringsAnswers, Model, score_column, text_tokenizer
from concord.workers.verification.adopted import ADOPTED_WORD, verify_adopted
from concord.workers.verification.claims import Promises, Standing
from concord.workers.verification.second_path import EVERYTHING, second_path
from concord.workers.verification.shard import RunDefinition, Verdict, WrittenShard, WrongField, verify_shard

UNVERIFIED = {"search_errors", "search_documents"}
"""Totals that only the engine knows, and that are not verified."""
SUMS = 1e-9
"""Largest relative error of a total of floats."""
NOTE = "documents"
SETTLED_WORD = "the engine's word that labellings other than the Viterbi labels do not come near a settled answer"
LISTED_WORD = (
    "the engine's word that no labelling exceeds the bound of a list that lacks it, but for those near its first and "
    "the best by the model alone, and that a list shorter than asked for ended with its work"
)
OTHER_CODE = "that this version of concord defines the problem as the one that made the run"


class VerifyError(InputError):
    """A run that cannot be verified, because a source of it has changed."""


def verify(out: str, context: RunContext = HERE) -> VerifyReport:
    """Checks the run of any engine in the folder ``out``.

    Each document's problem is rebuilt from the corpus, model and constraints of the run, and every column, reject and
    total is compared with it. Raises `VerifyError` if these have changed, `PublishedError` if there is no whole run,
    and the errors of reading.
    """
    started = time.process_time()
    run = published(out)
    sources = read_sources(run.storage)
    key = run.manifest.run
    opened = open_model(sources.model, context)
    constraints = open_constraints(opened, sources.constraints, consistency=sources.consistency)
    shards = plan(
        sources.corpus,
        text=key.settings.text,
        shard_bytes=sources.shard_bytes,
        scores=score_column(opened.model),
        only=sources.only,
        corrections=correction_file(sources.corrections),
    )
    if isinstance(opened.model, BringsAnswers):
        shards = shards.answered(opened.model.answer_digest, key.settings.text)
    _check_sources(out, run, sources, opened.model, constraints, shards)
    job = _Verification(run, shards, _definition(key, opened.model, constraints), opened.model)
    settings_faults = () if key.settings.engine == ADOPTED else _settings_faults(key)
    faults = [*settings_faults, *_rules_faults(run, constraints), *_listed_faults(job)]
    if not faults:
        faults += job.verified() or follower_faults(run_output(out), run)
    return VerifyReport(
        tolerance=job.definition.promises.tolerance,
        documents=sum(job.standings.values()),
        **{str(standing): job.standings[standing] for standing in Standing},
        rejected=job.rejected,
        lethal=job.lethal,
        failed=tuple(faults),
        trusted=_trusted(key, job.definition),
        cpu_seconds=round(time.process_time() - started, 3),
        out=out,
    )


def _check_sources(
    out: str, run: Published, sources: Sources, model: Model, constraints: ConstraintSet, shards: ShardTable
) -> None:
    """Raises `VerifyError` if a source of the run has changed."""
    key = run.manifest.run
    corpus = "corpus" if sources.corrections is None else f"corpus (or its corrections, {sources.corrections})"
    named = ", ".join(sources.constraints) or "trained with the model"
    for what, name, now, then in (
        ("model", sources.model, model.digest, key.model),
        ("constraints", named, constraints.digest, key.constraints),
        (corpus, sources.corpus, dataset_digest(shards), run.manifest.dataset),
    ):
        if now != then:
            raise VerifyError(f"{out}: the {what} {name} is not what this run was made from; put it back, or run again")


def _definition(key: RunKey, model: Model, constraints: ConstraintSet) -> RunDefinition:
    settings, solver = key.settings, SOLVERS.get(key.settings.engine)
    tolerance = settings.options.get("tolerance", TOLERANCE)
    flags = (False,) * 4 if solver is None else (solver.exact, solver.bounds, solver.asks_solver, solver.own_aim)
    promises = Promises(settings, tolerance, *flags)
    said = {"engine": settings.engine, "model_digest": key.model, "constraint_digest": key.constraints}
    return RunDefinition(model.labels, second_path(model), constraints, promises, said)


def _settings_faults(key: RunKey) -> Iterator[VerifyFault]:
    """Settings that no run can have: an unknown engine, or an option out of its range, such as the tolerance."""
    try:
        if check_settings(key.settings) != key.settings:
            yield _of_manifest("run.settings", "has not every option of the engine written out, as runs have")
    except UsageError as error:
        yield _of_manifest("run.settings", str(error))


def _rules_faults(run: Published, constraints: Separable) -> Iterator[VerifyFault]:
    """Forms and weights that are not those of the constraints, by which a later run would take answers."""
    if run.manifest.rules != constraints.strengths:
        yield _of_manifest("rules", "are not the forms and weights of the run's constraints")


def _trusted(key: RunKey, definition: RunDefinition) -> tuple[str, ...]:
    """What the verdict rests on."""
    if key.settings.engine == ADOPTED:
        return EVERYTHING[1], EVERYTHING[2], ADOPTED_WORD
    settled = (SETTLED_WORD,) if key.settings.settle else ()
    listed = (LISTED_WORD,) if key.settings.n_best else ()
    other = () if key.code == code_digest() else (OTHER_CODE,)
    return *EVERYTHING, *definition.path.trusted, *settled, *listed, *other


def _of_manifest(field: str, reason: str) -> VerifyFault:
    return VerifyFault(file=MANIFEST, doc_id=None, field=field, reason=reason)


def _listed_faults(job: _Verification) -> Iterator[VerifyFault]:
    """Shards and files that the run lacks in its list, and those that must not be there."""
    manifest, shards = job.run.manifest, job.shards
    pairs = zip(job.listed, shards, shard_keys(shards, manifest.run), strict=False)
    wrong = (number for number, (listed, shard, name) in enumerate(pairs) if listed.place != _place(shard, name))
    first = next(wrong, None)
    if first is not None or len(job.listed) != len(shards):
        counts = f"{len(job.listed)} shards, the corpus has {len(shards)}"
        yield _of_manifest(
            "lists", f"lists {counts}; they differ from shard {'the last' if first is None else first} on"
        )
        return
    if manifest.shards != len(shards):
        yield _of_manifest("shards", f"says {manifest.shards}, and there are {len(shards)}")
    names = [list_name(number, digest) for number, digest in enumerate(manifest.lists.values())]
    if names != list(manifest.lists):
        yield _of_manifest("lists", "has files whose names are not those of their numbers and digests")
    for number, shard in enumerate(job.listed):
        yield from _file_faults(number, shard.files, job.tables(number))
    files = {path for shard in job.listed for path in shard.files}
    for place in foreign_files(job.run.storage, files | manifest.lists.keys()):
        reason = "is not of this run, though readers of the folder read it; move it away"
        yield VerifyFault(file=place, doc_id=None, field="file", reason=reason)


def _file_faults(number: int, files: Collection[str], tables: Collection[str]) -> Iterator[VerifyFault]:
    """Files of a shard that are missing or too many: it has these tables, and may have rejects."""
    for path in sorted(set(tables) - set(files)):
        yield _of_manifest("lists", f"does not list {path}")
    rejects = re.compile(rf"{REJECTS}/{number:08d}-[0-9a-f]{{16}}\.parquet")
    others = sorted(set(files) - set(tables))
    known = next(filter(rejects.fullmatch, others), None)
    for path in others:
        if path != known:
            yield _of_manifest("lists", f"lists {path}, which shard {number} does not have")


def _place(shard: Shard, key: str) -> ShardPlace:
    """What a run lists of a shard."""
    return ShardPlace(key, shard.file.name, shard.first_row, shard.rows)


class _ShardProofs(NamedTuple):
    """Proofs of a shard.

    - ``proofs``: proof of each document.
    - ``fault``: fault of their file; None if there is none.
    """

    proofs: Mapping[str, Ints | None]
    fault: VerifyFault | None = None


class _Verification:
    """A verification in progress."""

    def __init__(self, run: Published, shards: ShardTable, definition: RunDefinition, model: Model) -> None:
        self.run, self.shards, self.definition, self.model = run, shards, definition, model
        self.listed = tuple(run.shards())
        self.standings: Counter[Standing] = Counter()
        self.rejected = self.lethal = 0

    def tables(self, number: int) -> list[str]:
        """Files that a shard always has: predictions, and certificates if the run writes them."""
        name = f"{number:08d}-{self.listed[number].place.key[:16]}.parquet"
        folders = [PREDICTIONS, CERTIFICATES] if self.run.manifest.run.settings.certificates else [PREDICTIONS]
        return [f"{folder}/{name}" for folder in folders]

    def verified(self) -> list[VerifyFault]:
        """Faults of all shards and of the totals. Raises the errors of reading."""
        faults: list[VerifyFault] = []
        reports: list[ShardReport] = []
        with meter("verifying", sum(shard.rows for shard in self.shards)) as bar:
            for number, shard in enumerate(self.shards):
                predictions, *certificates = self.tables(number)
                rejects, rejects_path = self._rejects(number)
                files = self.listed[number].files
                proofs = self._proofs(certificates[0], files) if certificates else _ShardProofs({})
                faults += [] if proofs.fault is None else [proofs.fault]
                rows = self.run.table(predictions, files[predictions], PREDICTIONS_LAYOUT).to_pylist()
                faults += _misplaced(rows, proofs, *certificates)
                verdict = self._judged(
                    shard, WrittenShard(rows, rejects, proofs.proofs), partial(bar.advance, note=NOTE)
                )
                faults += [_placed(fault, rejects_path if fault.rejected else predictions) for fault in verdict.faults]
                self.standings += verdict.standings
                self.rejected += verdict.rejected
                self.lethal += verdict.lethal
                reports += [] if verdict.report is None else [verdict.report]
        return faults or list(_total_faults(ShardReport.merge(reports), self.run.manifest.totals))

    def _judged(self, shard: Shard, written: WrittenShard, progress: Callable[..., None]) -> Verdict:
        """The verdict on a shard; ``progress`` is called with numbers of rows."""
        if isinstance(self.model, BringsAnswers):
            progress(shard.rows)
            key, constraints = self.run.manifest.run, self.definition.constraints
            return verify_adopted(
                shard, written.rows, written.rejects, model=self.model, constraints=constraints, key=key
            )
        there = read_documents(shard, text=self.definition.promises.settings.text, tokenizer=text_tokenizer(self.model))
        there = there._replace(rejects=in_place(without_place(there.rejects, shard), shard))
        verdict = verify_shard(there, shard.first_row, written, self.definition, progress=progress)
        progress(shard.rows - len(there.batch))
        return verdict

    def _rejects(self, number: int) -> tuple[list[Reject], str]:
        """Rejects of a shard, and their file."""
        found = ((path, digest) for path, digest in self.listed[number].files.items() if path.startswith(f"{REJECTS}/"))
        path, digest = next(found, (None, ""))
        if path is None:
            return [], REJECTS
        rows = self.run.table(path, digest, REJECTS_LAYOUT).select(Reject._fields).to_pylist()
        return [Reject(**row) for row in rows], path

    def _proofs(self, path: str, files: Mapping[str, str]) -> _ShardProofs:
        """Proofs of a shard. A file that cannot be read is a fault, and its documents have no proofs."""
        try:
            table = self.run.table(path, files[path], CERTIFICATES_LAYOUT)
        except (PublishedError, SchemaError) as error:
            return _ShardProofs({}, VerifyFault(file=path, doc_id=None, field="file", reason=str(error)))
        proofs = table["proof"].combine_chunks()
        ids = table[DOC_ID].to_pylist()
        return _ShardProofs({doc_id: _numbers(proof) for doc_id, proof in zip(ids, proofs, strict=True)})


def _misplaced(rows: Sequence[Mapping[str, Any]], proofs: _ShardProofs, *certificates: str) -> Iterator[VerifyFault]:
    """Fault of a file of certificates for other documents than the answered ones."""
    if certificates and proofs.fault is None and list(proofs.proofs) != [row[DOC_ID] for row in rows]:
        (path,) = certificates
        reason = f"are {len(proofs.proofs)} documents, not the {len(rows)} that the predictions have, in their order"
        yield VerifyFault(file=path, doc_id=None, field=DOC_ID, reason=reason)


def _placed(fault: WrongField, path: str) -> VerifyFault:
    certified = fault.field == "proof"
    place = path.replace(PREDICTIONS, CERTIFICATES, 1) if certified else path
    return VerifyFault(file=place, doc_id=fault.doc_id, field=fault.field, reason=fault.reason)


def _numbers(proof: pa.ListScalar) -> Ints | None:
    if not proof.is_valid:
        return None
    if proof.values.null_count:
        return np.zeros(0, np.int64)  # no number is no proof
    return np.asarray(proof.values.to_numpy(), np.int64)


def _total_faults(counted: ShardReport, said: ShardReport) -> Iterator[VerifyFault]:
    """Totals of the manifest that differ from those of the documents."""
    wanted = counted.model_dump(exclude=UNVERIFIED)
    for name, value in said.model_dump(exclude=UNVERIFIED).items():
        if not _alike(value, wanted[name]):
            yield _of_manifest(f"totals.{name}", f"is not what the documents add up to, {str(wanted[name])[:80]}")


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SUMS, abs_tol=SUMS)
    return bool(one == other)
