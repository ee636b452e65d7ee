"""`concord reprocess --dry-run`: which documents a run would decode, and why; nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.jobs import checked_places
from concord.flows.label_corpus import LabelJob, LabelRequest
from concord.flows.progress import meter
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.runfolder import find_done
from concord.schemas.run import RunPlan
from concord.workers.corpus.plan import distinct
from concord.workers.corpus.shards import read_digests
from concord.workers.labelling.kept import Known, LastAnswers
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.output import TIMES


def plan_run(request: LabelRequest) -> RunPlan:
    """The plan of a run. Raises what the run would raise before its first shard."""
    (place,), folder = checked_places([request.corpus], request.out, model=request.model, files=request.constraints)
    settings = check_settings(request.settings)
    job = LabelJob.of(request.model_copy(update={"corpus": place, "out": folder, "settings": settings}))
    out = Path(folder)
    done = find_done(out, job.shards, job.key)
    last = last_answers(out, job.key, job.constraints.strengths)
    todo = distinct([shard for shard in job.shards if shard.id not in done])
    known, settled, rows = 0, 0, 0
    with meter("reading", sum(shard.rows for shard in todo)) as bar:
        for shard in todo:
            digests = read_digests(shard, text=job.key.settings.text)
            found = last.find(digests, job.opened.model.labels)
            known += len(found)
            settled += sum(answer.settled for answer in found.values())
            rows += shard.rows
            bar.advance(shard.rows)
    same, rules = last.known is Known.SAME, last.known is Known.RULES
    standing = settled if rules else 0
    return RunPlan(
        documents=sum(shard.rows for shard in job.shards),
        skipped=sum(shard.rows for shard in job.shards) - rows,
        kept=known if same else 0,
        checked=standing,
        guessed=0 if same else known - standing,
        decoded=rows - known,
        cpu_seconds=_estimate(last, rows - known, out),
        shards=len(todo),
    )


def _estimate(last: LastAnswers, documents: int, out: Path) -> float | None:
    """CPU seconds of decoding so many documents, at the mean of those that the last run decoded; None without one."""
    if not last.files:
        return None
    names = [out / TIMES / Path(path).name for path, _ in last.files]
    try:
        seconds = [pq.read_table(name, columns=["cpu_seconds"])["cpu_seconds"].to_numpy() for name in names]
    except (OSError, pa.ArrowException):
        return None
    spent = np.concatenate([np.zeros(0), *seconds])
    spent = spent[spent > 0.0]
    return float(spent.mean()) * documents if len(spent) else None
