"""`concord reprocess --dry-run`: what a run would do, and why; nothing is written."""

from __future__ import annotations

from concord.flows.inputs.jobs import checked_places, run_place
from concord.flows.labelling.label_job import LabelJob
from concord.flows.labelling.planned_run import planned_run
from concord.flows.runfolder.runfolder import Purpose, check_purpose, find_done, run_output
from concord.schemas.folders import FolderKind
from concord.schemas.requests import LabelRequest
from concord.schemas.run_plan import RunPlan
from concord.workers.labelling.labelled import check_settings


def plan_run(request: LabelRequest) -> RunPlan:
    """The plan of a run. Raises what the run would raise before its first shard."""
    folder = run_place(request.out)
    (place,) = checked_places(
        [request.corpus], folder, makes=FolderKind.RUN, model=request.model, files=request.files_read
    )
    changes = {"corpus": place, "out": folder, "settings": check_settings(request.settings)}
    out = run_output(folder)
    job = LabelJob.of(request.model_copy(update=changes), out.storage)
    check_purpose(out, Purpose.of(place, request.only))
    return planned_run(job, out.storage, find_done(out, job.shards, job.key))
