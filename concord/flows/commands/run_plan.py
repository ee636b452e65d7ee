"""`concord reprocess --dry-run`: which documents a run would decode, and why; nothing is written."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pyarrow as pa

from concord.flows.inputs.jobs import checked_places, run_place
from concord.flows.labelling.label_job import LabelJob
from concord.flows.runfolder.asking import asked
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.layout import times_of
from concord.flows.runfolder.published import PublishedError, published
from concord.flows.runfolder.runfolder import Purpose, check_purpose, find_done, run_output
from concord.flows.screen.progress import meter
from concord.schemas.arrays import Floats
from concord.schemas.folders import FolderKind
from concord.schemas.requests import LabelRequest
from concord.schemas.run_report import RunPlan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import read_answer_digests
from concord.workers.labelling.kept import Reusable
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.last_answers import LastAnswers
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import Storage
from concord.workers.storage.tables import read_unthreaded

SHARDS_READ = 4_096
"""Most shards to do that are read to see which documents the last run has answered."""

FILES_READ = 512
"""Files, about, of the last run whose times are read."""


def plan_run(request: LabelRequest) -> RunPlan:
    """The plan of a run. Raises what the run would raise before its first shard."""
    folder = run_place(request.out)
    (place,) = checked_places(
        [request.corpus], folder, makes=FolderKind.RUN, model=request.model, files=request.files_read
    )
    settings = check_settings(request.settings)
    out = run_output(folder)
    job = LabelJob.of(request.model_copy(update={"corpus": place, "out": folder, "settings": settings}), out.storage)
    check_purpose(out, Purpose.of(place, request.only))
    done = find_done(out, job.shards, job.key)
    last = last_answers(out.storage, done, job.constraints.strengths)
    todo = done.todo()
    known, settled = _answered(todo, last, job)
    rows, documents = int(job.shards.rows.sum()), todo.documents
    same, rules = last.known is Reusable.SAME, last.known is Reusable.RULES
    standing = settled if rules else 0
    return RunPlan(
        documents=rows,
        skipped=rows - int(todo.rows.sum()),
        repeated=int(todo.rows.sum()) - documents,
        kept=known if same else 0,
        checked=standing,
        guessed=0 if same else known - standing,
        decoded=documents - known,
        cpu_seconds=_estimate(out.storage, documents - known),
        shards=len(todo),
        sampled=last.known is not Reusable.NOTHING and len(todo) > SHARDS_READ,
    )


def _answered(todo: ShardTable, last: LastAnswers, job: LabelJob) -> tuple[int, int]:
    """For how many documents of these shards the last run has an answer, and a settled one.

    Of more than `SHARDS_READ` shards some are read, at equal distances, and stand for the others.
    """
    if last.known is Reusable.NOTHING:
        return 0, 0
    read, known, settled = todo[:: math.ceil(len(todo) / SHARDS_READ) or 1], 0, 0
    with meter("reading", int(read.rows.sum())) as bar:
        for shard in read:
            repeats = {row for row, _ in shard.repeats}
            rows = enumerate(read_answer_digests(shard, text=job.key.settings.text))
            digests = [digest for row, digest in rows if row not in repeats]
            found = last.find(shard.id, digests, job.opened.model.labels)
            known += len(found)
            settled += sum(answer.settled for answer in found.values())
            bar.advance(shard.rows)
    scale = todo.documents / max(1, read.documents)
    return round(scale * known), round(scale * settled)


def _estimate(storage: Storage, documents: int) -> float | None:
    """CPU seconds of decoding so many documents, at the mean of those that the last run decoded; None without one.

    Of a run of many files some are read, at equal distances.
    """
    try:
        run = published(storage.uri)
        files = islice(run.files_in(PREDICTIONS), 0, None, -(-run.manifest.shards // FILES_READ) or 1)
        seconds = [own for _, own in asked(storage, lambda file: _seconds(storage, file[0]), files)]
    except (PublishedError, OSError, pa.ArrowException):
        return None
    spent = np.concatenate([np.zeros(0), *seconds])
    spent = spent[spent > 0.0]
    return float(spent.mean()) * documents if len(spent) else None


def _seconds(storage: Storage, path: str) -> Floats:
    """CPU seconds of each document of a file of predictions."""
    with storage.opened(times_of(path)) as file:
        seconds: Floats = read_unthreaded(file, ["cpu_seconds"])["cpu_seconds"].to_numpy()
        return seconds
