"""What a run would do, worked out from the shards that are not done and from the run that readers have."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from concord.flows.labelling.label_job import LabelJob
from concord.flows.nights.record import read_record
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.lists import ListedShard
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import Published, PublishedError, published
from concord.flows.runfolder.storage_queries import ask_all
from concord.flows.screen.progress import meter
from concord.schemas.arrays import Ints, Mask
from concord.schemas.columns import DOC_ID, DOCUMENT_DIGEST
from concord.schemas.document import Batch
from concord.schemas.drift import MOST_MISSING
from concord.schemas.errors import CorpusError, DocumentError
from concord.schemas.labels import LabelSet
from concord.schemas.run import ADOPTED, ShardMarker
from concord.schemas.run_changes import RunChanges
from concord.schemas.run_context import RunContext
from concord.schemas.run_plan import (
    FIRST_IDS,
    Bounds,
    NamedDocuments,
    PlannedDifferences,
    PlannedWork,
    PlannedWorkKind,
    RunPlan,
)
from concord.schemas.secrets import redact
from concord.workers.corpus.shards import Shard, read_documents
from concord.workers.labelling.kept import LastAnswer, Reusable
from concord.workers.labelling.last_answers import LastAnswers
from concord.workers.labelling.output import PREDICTIONS, REJECTS
from concord.workers.labelling.report import check_gold
from concord.workers.models.model import text_tokenizer
from concord.workers.storage.files import OutputError
from concord.workers.storage.storage import Storage
from concord.workers.storage.tables import read_unthreaded

SHARDS_READ = 1_024
"""Most shards that are read, of either run, to see which documents differ: about 50 million tokens."""

MEASURED_NIGHTS = 10
"""Last nights whose times are looked at."""

LOCAL = "local"
"""Address of this machine, for Ray."""

NO_TIME = Bounds(0.0, 0.0)

NEW, CHANGED, CORRECTED, NOT_COMPARED = "new", "changed", "corrected", "new, changed, or asked for otherwise"
"""Causes beside what was asked for otherwise."""


def planned_run(job: LabelJob, storage: Storage, done: Markers, most_shards: int = SHARDS_READ) -> RunPlan:
    """What a run would do. At most ``most_shards`` shards are read; of more, counts are estimates. Writes nothing."""
    last_run = _last_run(storage, done)
    todo = _places_todo(done)
    read = todo[:: math.ceil(len(todo) / most_shards) or 1]
    extra = [] if last_run is None else np.flatnonzero(~last_run.common & done.done).tolist()
    counted = last_run is not None and max(len(todo) + len(extra), len(last_run.gone)) <= most_shards
    before = {} if last_run is None else _ids_before(last_run) if counted else None
    planned_counts = _PlanCounts(
        job, last_answers(storage, done, job.constraints.strengths), _changes(job, last_run), before
    )
    with meter("reading", int(job.shards.rows[read].sum())) as bar:
        for place in read:
            shard = job.shards[place]
            times = len(done.keys.places(done.keys[place]))
            planned_counts.add_todo(shard, common=last_run is not None and bool(last_run.common[place]), times=times)
            bar.advance(shard.rows)
    for place in extra if counted else ():
        planned_counts.add_done(job.shards[place], done[place])
    return _plan(planned_counts, storage, done, last_run, todo=todo, read=read)


class _LastRun(NamedTuple):
    """The run that readers have, beside the shards of the next one.

    - ``common`` (S,): mask of the shards that it has, too, and in which it has answers to the same documents
    - ``gone``: its files of predictions of other shards
    """

    run: Published
    common: Mask
    gone: Sequence[str]


def _last_run(storage: Storage, done: Markers) -> _LastRun | None:
    """The run that readers have; None for none, or one that is damaged and of which nothing is taken."""
    with suppress(PublishedError):
        run = published(storage.uri)
        keys, common, gone = done.keys_under(run.manifest.run), np.zeros(len(done.shards), np.bool_), list[str]()
        same_key = run.manifest.run == done.key
        for shard in run.shards():
            places = keys.places(shard.place.key)
            # Under another key other documents may be refused: of a shard with rejects documents are compared.
            if places and (same_key or not (_has_rejects(shard) or (done.has(places[0]) and done[places[0]].rejects))):
                common[places] = True
            else:
                gone += [path for path in shard.files if path.startswith(f"{PREDICTIONS}/")]
        return _LastRun(run, common, gone)
    return None


def _has_rejects(shard: ListedShard) -> bool:
    return any(path.startswith(f"{REJECTS}/") for path in shard.files)


def _ids_before(last_run: _LastRun) -> dict[str, bytes]:
    """The digests of the documents of shards that are gone, by id; of a file that is damaged, none."""
    storage = last_run.run.storage
    rows_before = dict[str, bytes]()
    for _, rows in ask_all(storage, lambda path: _ids_in(storage, path), last_run.gone):
        rows_before |= rows
    return rows_before


def _ids_in(storage: Storage, path: str) -> dict[str, bytes]:
    with suppress(pa.ArrowException, OSError, KeyError), storage.opened(path) as file:
        table = read_unthreaded(file, [DOC_ID, DOCUMENT_DIGEST])
        return dict(zip(table[DOC_ID].to_pylist(), table[DOCUMENT_DIGEST].to_pylist(), strict=True))
    return {}


def _places_todo(done: Markers) -> list[int]:
    """Places of the shards to do; of those with equal rows, the first."""
    return [place for place in done.keys.first_places().tolist() if not done.has(place)]


def _changes(job: LabelJob, last_run: _LastRun | None) -> RunChanges:
    if last_run is None:
        return RunChanges()
    return RunChanges.between(last_run.run.manifest, job.key, job.constraints.strengths)


@dataclass
class _PlanCounts:
    """What stands in the shards that are read, of a run that may take ``last`` answers.

    - ``before``: digests by id, of the documents of shards that readers have and the run has not; None where these are
      not counted
    - ``work``: documents by what happens to them, and rejected rows
    - ``why``: documents whose answer is not kept, by cause
    - ``new``, ``changed``: ids
    - ``there``: ids of ``before`` that the run has, too
    - ``rejects``: ids of rows that are rejected
    - ``faults``: of shards that cannot be read
    """

    job: LabelJob
    last: LastAnswers
    changes: RunChanges
    before: Mapping[str, bytes] | None
    work: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    corrected: int = 0
    there: set[str] = field(default_factory=set)
    rejects: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def add_todo(self, shard: Shard, *, common: bool, times: int) -> None:
        """A shard to do; ``common``: have readers answers to its rows? ``times``: shards with equal rows."""
        documents = self._read(shard)
        self.work["rejected"] += times * (shard.rows - len(documents))
        self.work["repeated"] += times * len(shard.repeats)
        differing = {} if common else self._compare(shard, documents)
        answers = self.last.find(shard.id, list(documents.values()), self.job.opened.model.labels)
        asked_otherwise = ", ".join(self.changes.causes) or "no answer that can be kept"
        for place, doc_id in enumerate(documents):
            what = self._what(answers.get(place))
            self.work[what] += 1
            if what != "kept":
                self.why[differing.get(doc_id, asked_otherwise)] += 1

    def add_done(self, shard: Shard, marker: ShardMarker) -> None:
        """Counts a finished shard that is not published yet, or was published with other content.

        A document whose id is repeated has an answer, so its rejected rows are no rejected documents.
        """
        repeats = {row for row, _ in shard.repeats}
        refused = {reject.doc_id for reject in marker.rejects if reject.row not in repeats}
        documents = self._read(shard)
        self._compare(shard, {name: digest for name, digest in documents.items() if name not in refused})

    def _read(self, shard: Shard) -> dict[str, bytes]:
        """The digest of the answer of each document that can be labelled, by id; none of a shard that is damaged."""
        model, text = self.job.opened.model, self.job.key.settings.text
        try:
            batch, rejects, digests, _ = read_documents(shard, text=text, tokenizer=text_tokenizer(model))
        except CorpusError as error:
            self.faults.append(redact(str(error)))
            return {}
        refused = _refused(model.labels, batch)
        self.rejects |= refused | {reject.doc_id for reject in rejects if reject.doc_id is not None}
        return {name: own for name, own in zip(batch.doc_ids, digests, strict=True) if name not in refused}

    def _compare(self, shard: Shard, documents: Mapping[str, bytes]) -> dict[str, str]:
        """Notes which documents readers have not, or have otherwise; how each of these differs."""
        if self.before is None:
            return dict.fromkeys(documents, NOT_COMPARED)
        corrections, differing = dict(shard.corrections), dict[str, str]()
        for doc_id, digest in documents.items():
            if doc_id not in self.before:
                self.new.append(doc_id)
                differing[doc_id] = NEW
                continue
            self.there.add(doc_id)
            if self.before[doc_id] != digest:
                self.changed.append(doc_id)
                differing[doc_id] = CORRECTED if doc_id in corrections else CHANGED
        self.corrected += sum(how == CORRECTED for how in differing.values())
        return differing

    def _what(self, answer: LastAnswer | None) -> str:
        """What happens to a document that has this answer of the last run."""
        if answer is None:
            return "decoded"
        if self.last.known is Reusable.SAME:
            return "kept"
        return "checked" if answer.settled and self.last.known is Reusable.RULES else "guessed"


def _refused(labels: LabelSet, batch: Batch) -> set[str]:
    """Ids of documents whose gold labels cannot be counted, so that they become rejects."""
    if _can_count(labels, batch):
        return set()
    return {batch.doc_ids[i] for i in range(len(batch)) if not _can_count(labels, batch.part(i, i + 1))}


def _can_count(labels: LabelSet, batch: Batch) -> bool:
    try:
        check_gold(labels, batch)
    except DocumentError:
        return False
    return True


def _plan(
    planned_counts: _PlanCounts,
    storage: Storage,
    done: Markers,
    last_run: _LastRun | None,
    *,
    todo: Sequence[int],
    read: Sequence[int],
) -> RunPlan:
    """The plan, from what stands in the shards that were ``read`` of those ``todo``."""
    job, report, rows = planned_counts.job, done.report(), planned_counts.job.shards.rows
    scale = float(rows[todo].sum() / max(1, rows[read].sum())) if len(read) < len(todo) else 1.0
    work = {what: round(scale * count) for what, count in planned_counts.work.items()}
    counts = {what: work.get(what, 0) for what in ("kept", "checked", "guessed", "decoded")}
    measured = _measured(storage, job.key.settings.engine)
    planned = _work(measured, counts, "taking over" if job.key.settings.engine == ADOPTED else "decoding")
    workers = _workers(job.request.context)
    return RunPlan(
        out=redact(job.request.out),
        rows=int(rows.sum()),
        documents=report.documents + sum(counts.values()),
        rejected=report.rejected + work.get("rejected", 0),
        repeated=work.get("repeated", 0),
        skipped=report.documents,
        **counts,
        refusing=job.key.settings.on_infeasible == "reject" and _has_hard(job) and len(todo) > 0,
        shards=len(todo),
        first_run=last_run is None,
        differences=_differences(planned_counts, done, last_run),
        changes=planned_counts.changes,
        why={cause: round(scale * count) for cause, count in planned_counts.why.most_common()},
        work=planned,
        workers=workers,
        clock=_clock(planned, workers, rows[todo]),
        damages=(*(redact(str(damage)) for damage in job.damages), *planned_counts.faults),
        sampled=len(read) < len(todo),
    )


def _has_hard(job: LabelJob) -> bool:
    return any(math.isinf(weight) for one in job.constraints.strengths.strengths for weight in one.weights)


def _differences(planned_counts: _PlanCounts, done: Markers, last_run: _LastRun | None) -> PlannedDifferences | None:
    if last_run is None or planned_counts.before is None:
        return None
    # What stands in a file that cannot be read is not gone.
    damaged = planned_counts.job.damages or planned_counts.faults
    gone = [] if damaged else [doc_id for doc_id in planned_counts.before if doc_id not in planned_counts.there]
    rejects = planned_counts.rejects | (_rejects_of(done) if gone else set())
    missing, last = sum(doc_id not in rejects for doc_id in gone), last_run.run.manifest.totals.documents
    return PlannedDifferences(
        last=last,
        new=_named(planned_counts.new),
        changed=_named(planned_counts.changed),
        gone=_named(gone),
        corrected=planned_counts.corrected,
        missing=missing,
        withheld=len(gone) > MOST_MISSING * last and not planned_counts.job.request.allow_gone,
    )


def _named(ids: Sequence[str]) -> NamedDocuments:
    return NamedDocuments(count=len(ids), first=tuple(ids[:FIRST_IDS]))


def _rejects_of(done: Markers) -> set[str]:
    """Ids of the rejects of shards that are done."""
    return {reject.doc_id for marker in done for reject in marker.rejects if reject.doc_id is not None}


class _Measured(NamedTuple):
    """Seconds of a worker a document, in the last nights; None where none has measured it.

    - ``moved``: reading and writing
    - ``scored``: scoring
    - ``decoded``: the engine's, in nights with that engine
    """

    moved: float | None
    scored: float | None
    decoded: float | None


def _measured(storage: Storage, engine: str) -> _Measured:
    try:
        nights = [night for night in read_record(storage).nights if night.steps][-MEASURED_NIGHTS:]
    except (OSError, OutputError):
        nights = []
    same = [night for night in nights if night.asked.get("engine") == engine]
    return _Measured(
        moved=_rate([night.steps["read"] + night.steps["write"] for night in nights], [n.labelled for n in nights]),
        scored=_rate([night.steps["score"] for night in nights], [n.labelled - n.unscored for n in nights]),
        decoded=_rate([night.steps["decode"] for night in same], [n.labelled - n.unscored for n in same]),
    )


def _rate(seconds: Sequence[float], documents: Sequence[int]) -> float | None:
    return sum(seconds) / sum(documents) if sum(documents) else None


def _work(measured: _Measured, counts: Mapping[str, int], answering: PlannedWorkKind) -> tuple[PlannedWork, ...]:
    """The work by kind, the last one ``answering``; what may turn out not to be needed is not in its least time."""
    moved, scored, searched = measured
    whole = None if scored is None or searched is None else scored + searched
    checked, guessed, decoded = (counts[what] for what in ("checked", "guessed", "decoded"))
    every = sum(counts.values())
    return (
        PlannedWork(kind="reading and writing", documents=every, seconds=_seconds(every, moved, moved)),
        PlannedWork(kind="proving again", documents=checked, seconds=_seconds(checked, 0.0, whole)),
        PlannedWork(kind="searching near the old answer", documents=guessed, seconds=_seconds(guessed, scored, whole)),
        PlannedWork(kind=answering, documents=decoded, seconds=_seconds(decoded, whole, whole)),
    )


def _seconds(documents: int, least: float | None, most: float | None) -> Bounds | None:
    """Seconds of so many documents, at that many a document."""
    if not documents:
        return NO_TIME
    return None if least is None or most is None else Bounds(documents * least, documents * most)


def _workers(context: RunContext) -> int | None:
    """Workers of a run; None where a cluster elsewhere decides."""
    if context.workers is not None:
        return max(1, context.workers)  # 0: this process
    here = context.ray or os.environ.get("RAY_ADDRESS") or LOCAL
    return os.cpu_count() if here == LOCAL else None


def _clock(work: Sequence[PlannedWork], workers: int | None, rows: Ints) -> Bounds | None:
    """Seconds from the workers' start to their end: the total divided by the workers, at least the largest shard's."""
    if not len(rows):
        return NO_TIME
    total, known = NO_TIME, [kind.seconds for kind in work if kind.seconds is not None]
    if workers is None or len(known) < len(work):
        return None
    for seconds in known:
        total = total.plus(seconds)
    return total.over(min(workers, float(rows.sum() / max(1, rows.max()))))
