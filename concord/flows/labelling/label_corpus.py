"""Labelling of a corpus, the work of `flows.reprocess`: shard by shard, resumed where it stopped, tracked in MLflow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from concord.flows.environment import tracking_uri
from concord.flows.errors import (
    DriftedRunError,
    NothingLabelledError,
    ShardsFailedError,
    TrackingError,
    UntrackedError,
    WithheldRunError,
)
from concord.flows.inputs.jobs import run_tags
from concord.flows.labelling.label_figures import (
    LabelProgress,
    LabelWork,
    drift_tags,
    metrics_of,
    report_of,
    speed_of,
)
from concord.flows.labelling.label_job import LabelJob
from concord.flows.labelling.pages import PAGES, RUN_PAGE
from concord.flows.labelling.planned_run import planned_run
from concord.flows.labelling.planning import read_anywhere
from concord.flows.labelling.ray_on_demand import RayOnDemand
from concord.flows.labelling.sources import some_documents
from concord.flows.nights.record import keep_night, keep_stopped, night_before
from concord.flows.nights.taken_back import check_taken_back
from concord.flows.runfolder.delta_table import check_library, commit_run, has_table
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.layout import AT_WORK, MANIFEST, STORE, RunOutput
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import PublishedError, published
from concord.flows.runfolder.runfolder import (
    PublishedRun,
    Purpose,
    claim,
    dataset_digest,
    find_done,
    is_for,
    listed_rejects,
    publish,
    run_output,
    write_sources,
)
from concord.flows.runfolder.tracked import keep_tracked, tracked_run
from concord.flows.screen.progress import meter, say, tell_left
from concord.schemas.drift import NightBefore
from concord.schemas.requests import LabelRequest, TableForm
from concord.schemas.run_changes import RunChanges
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import redact
from concord.workers.learning.weights.known_weights import known_weights
from concord.workers.models.model import JudgesFit
from concord.workers.storage.storage import Storage, read_if_there

if TYPE_CHECKING:
    from concord.flows.tracking.tracking import Outcome, Run, Tracking


SHARDS_LOOKED_AT = 16
"""Shards that are read before a run begins, to say what it will do."""

JUDGED_DOCUMENTS = 50
"""Number of documents of which a model may say that they do not fit it."""


def label_corpus(request: LabelRequest) -> RunReport:
    """Labels one corpus: plan, find what is done, label on Ray, compare with the last run, publish, track.

    Neither Ray nor MLflow is imported where all shards are done and MLflow has the run.
    """
    started = time.monotonic()
    out = run_output(request.out)
    with out.exclusive(), RayOnDemand(request.context) as ray:
        with _stops_recorded(request, out):
            if _keeps_table(request, out):
                check_library(out.storage)
            job = _planned(request, out, ray)
            if not request.allow_again:
                check_taken_back(out.storage, job.key, dataset_digest(job.shards))
        done = find_done(out, job.shards, job.key)
        run_id = _tracked_before(job, out.storage)
        if run_id is not None and done.done.all():
            return _answer_again(job, out, done, run_id, started)
        return _label_tracked(job, out, done, ray, started)


@contextmanager
def _stops_recorded(request: LabelRequest, out: RunOutput) -> Iterator[None]:
    """Gives an error or a signal before labelling a line in the record of the output, if that is of the same corpus."""
    try:
        yield
    except BaseException as error:
        if is_for(out, Purpose.of(request.corpus, request.only)):
            keep_stopped(out.storage, error, tags=run_tags(job="reprocess"))
        raise


def _planned(request: LabelRequest, out: RunOutput, ray: RayOnDemand) -> LabelJob:
    """Opens the job of the request, and claims its output folder."""
    job = LabelJob.of(request, out.storage, partial(read_anywhere, ray))
    claim(out, Purpose.of(request.corpus, request.only))
    if job.found is not None:
        job.found.keep(out.storage)
    return job._replace(found=None)  # frees the survey's memory before labelling


def _tracked_before(job: LabelJob, out: Storage) -> str | None:
    """MLflow's run of an earlier call that asked for the same; None if there is none, or if a page is asked for."""
    if job.damages or job.request.report:
        return None
    return tracked_run(out, uri=tracking_uri(job.request.context.tracking), digest=job.digest)


def _answer_again(job: LabelJob, out: RunOutput, done: Markers, run_id: str, started: float) -> RunReport:
    """The report of a run of which all is done, and which MLflow has as the run ``run_id``."""
    before = _night_before(job, out)
    shown = _published(job, out, done)
    work = LabelWork(skipped=len(job.shards))
    answer = _answer(job, done, shown, work, run_id, before, started)
    keep_night(out.storage, answer, tags=run_tags(job="reprocess"), asked=job.recorded)
    failure = _failure(answer)
    if failure is not None:
        raise failure
    return answer


def _label_tracked(job: LabelJob, out: RunOutput, done: Markers, ray: RayOnDemand, started: float) -> RunReport:
    """Labels what is not done, compares the run with the last one, publishes it, and tells MLflow."""
    from concord.flows.nights.drift import against_last
    from concord.flows.nights.files import keep_files
    from concord.flows.tracking.tracking import RUN_NAME, Outcome, Tracking
    from concord.flows.tracking.untracked import catch_up

    request = job.request
    tracking = Tracking(request.context.tracking)
    catch_up(tracking, out.storage)
    tags = run_tags(job="reprocess", predictions=redact(request.out))
    with tracking.run(job.run_name(), tags=tags) as run:
        run.params(job.params())
        run.dataset(name=request.corpus, digest=dataset_digest(job.shards), source=request.corpus, context="reprocess")
        progress = LabelProgress(LabelWork(skipped=int(done.done.sum())))
        before = _night_before(job, out)
        say(planned_run(job, out.storage, done, SHARDS_LOOKED_AT).line)
        try:
            _label(job, out, done, ray, progress)
        except BaseException as error:
            if not isinstance(error, Exception):  # a signal, by whichever name
                answer = _answer(job, done, PublishedRun(done.report()), progress.work, run.id, before, started)
                answer = answer.model_copy(update={"cancelled": True})
                keep_night(out.storage, answer, tags=tags, asked=job.recorded)
                tell_left(answer)
            raise
        damages = (redact(str(damage)) for damage in job.damages)
        work = progress.work._replace(errors=(*damages, *progress.work.errors))
        rules = job.constraints.strengths
        beside = None if work.errors else against_last(out.storage, done, job.key, job.opened.model, rules)
        withheld = beside is not None and beside.drift.loses and not request.allow_gone
        unpublished = bool(work.errors) or withheld
        shown = PublishedRun(done.report()) if unpublished else _published(job, out, done)
        answer = _answer(job, done, shown, work, run.id, before, started)
        if beside is not None:
            answer = answer.model_copy(update={"drift": beside.drift, "withheld": withheld})
        failure = _failure(answer)
        manifest = None if unpublished else out.storage.read(MANIFEST)
        last, weights = None if beside is None else beside.last, known_weights(job.constraints)
        keep_files(run, answer, shown.report, manifest=manifest, last=last, weights=weights)
        chart = None if beside is None or withheld else beside.chart
        keep_night(out.storage, answer, tags=tags, asked=job.recorded, chart=chart)
        if request.report and not unpublished:
            answer = PAGES[RUN_PAGE](run, answer, shown.report, request)
        outcome = Outcome.now(
            metrics_of(shown.report, answer) | speed_of(work),
            failures=work.errors or ((str(failure),) if failure else ()),
            tags={RUN_NAME: job.run_name(answer.title), **drift_tags(answer)},
            description=redact(f"{answer.headline}; output in {answer.out}"),
        )
        _conclude(answer, out.storage, run, outcome, tracking, failure)
        keep_tracked(out.storage, run.id, uri=tracking_uri(request.context.tracking), digest=job.digest)
        if request.fail_on_drift and answer.drift is not None and answer.drift.breaches:
            raise DriftedRunError(answer)
        return answer


def _night_before(job: LabelJob, out: RunOutput) -> NightBefore | None:
    """Returns the last published night, and how this run's request differs from it."""
    before = night_before(out.storage, job.recorded)
    if before is None:
        return None
    try:
        last = published(out.storage.uri).manifest
    except PublishedError:
        return before  # the comparison tells it
    changes = RunChanges.between(last, job.key, job.constraints.strengths)
    return before.model_copy(update={"differences": changes.lines})


def _answer(
    job: LabelJob,
    done: Markers,
    shown: PublishedRun,
    work: LabelWork,
    run_id: str,
    before: NightBefore | None,
    started: float,
) -> RunReport:
    """What the run says of itself by now; ``started``: monotonic seconds."""
    rejects = listed_rejects(done) if shown.report.rejected else ()
    seconds = time.monotonic() - started
    answer = report_of(job.request, shown.report, work, run_id, before=before, rejects=rejects, seconds=seconds)
    return answer.model_copy(update={"changes": shown.changes})


def _published(job: LabelJob, out: RunOutput, done: Markers) -> PublishedRun:
    """The run, which readers can see from now on."""
    write_sources(out.storage, job.sources)
    shown = publish(out, done, rules=job.constraints.strengths)
    if _keeps_table(job.request, out):
        commit_run(out)
    return shown


def _keeps_table(request: LabelRequest, out: RunOutput) -> bool:
    return request.table is TableForm.DELTA or has_table(out.storage)


def _failure(report: RunReport) -> ShardsFailedError | WithheldRunError | NothingLabelledError | None:
    """Error that the run raises at its end, if any: failed shards, too much that is gone, or a corpus of rejects alone.

    Of some rejects among answers the first is shown.
    """
    if report.errors:
        return ShardsFailedError(report)
    if report.withheld:
        return WithheldRunError(report)
    if not report.rejects:
        return None
    reason = report.rejects[0].line
    if not report.documents:
        return NothingLabelledError(reason, report)
    say(f"{report.rejected:,} documents are rejects; the first: {reason}", style="yellow")
    return None


def _conclude(
    report: RunReport, out: Storage, run: Run, outcome: Outcome, tracking: Tracking, failure: Exception | None
) -> None:
    """Tells MLflow how the run ended. Raises ``failure``, or `UntrackedError` where MLflow is gone."""
    from concord.flows.tracking.untracked import end_or_keep

    try:
        end_or_keep(run, tracking, outcome, out)
    except TrackingError as error:
        if failure is None:
            raise UntrackedError(str(error), report) from None
        say(str(error))
    if failure is not None:
        raise failure


@contextmanager
def _at_work(out: Storage) -> Iterator[bool]:
    """Notes in the output that a run labels; yields whether the last one that did was killed.

    It may have been a document that killed it, and workers find out which.
    """
    was_killed = read_if_there(out, AT_WORK) is not None
    out.write(AT_WORK, b"")
    try:
        yield was_killed
    finally:
        out.remove([AT_WORK])


def _label(job: LabelJob, out: RunOutput, done: Markers, ray: RayOnDemand, progress: LabelProgress) -> None:
    """Labels the shards that are not done and adds their markers to ``done``; after it there is no Ray.

    ``progress`` has at every moment what was done until then.
    """
    key, model, todo = job.key, job.opened.model, done.todo()
    if not todo:
        return
    from concord.workers.remote.label import LABEL, LabelParts

    store = out.storage.below(STORE)
    documents = some_documents(todo, key.settings.text, model, JUDGED_DOCUMENTS)
    sample = documents[0] if documents else None
    misfit = model.misfit(documents) if isinstance(model, JudgesFit) else ""
    if misfit:
        say(misfit, style="yellow")
    last = last_answers(out.storage, done, job.constraints.strengths)
    parts = LabelParts(model, job.constraints, key, store, sample, last)
    errors: list[str] = []
    rows = int(todo.rows.sum())
    with ray, _at_work(out.storage) as was_killed:
        running = ray.started(None if was_killed else rows)
        started = time.monotonic()
        with meter("labelling", rows) as bar:
            for answer in running.run(LABEL, todo, parts):
                if answer.result is None:
                    errors.append(answer.failure)
                    continue
                done.add(answer.result.marker)
                progress.add(answer.result, time.monotonic() - started)
                bar.advance(answer.shard.rows, note=f"documents, {progress.certified_share:.1%} certified")
        progress.work = progress.work._replace(wall=time.monotonic() - started, errors=tuple(sorted(errors)))
