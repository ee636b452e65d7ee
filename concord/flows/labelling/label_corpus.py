"""Labelling of a corpus, the work of `flows.reprocess`: shard by shard, resumed where it stopped, tracked in MLflow."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from concord.flows.environment import page_of_run, tracking_uri
from concord.flows.errors import (
    DriftedRunError,
    NothingLabelledError,
    ShardsFailedError,
    TrackingError,
    UntrackedError,
    WithheldRunError,
)
from concord.flows.inputs.jobs import run_tags, source_place
from concord.flows.inputs.run_context import HERE, RunContext
from concord.flows.labelling.planning import FileReader, FoundSurvey, Listing, plan_corpus, read_anywhere, read_here
from concord.flows.labelling.ray_on_demand import RayOnDemand
from concord.flows.labelling.sources import (
    OpenModel,
    check_there,
    cutting,
    open_constraints,
    open_model,
    some_documents,
)
from concord.flows.nights.record import keep_night
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.layout import MANIFEST, STORE, RunOutput
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.runfolder import (
    Purpose,
    Sources,
    claim,
    dataset_digest,
    find_done,
    first_reject,
    ids_digest,
    last_shard_bytes,
    publish,
    run_output,
    write_sources,
)
from concord.flows.runfolder.tracked import keep_tracked, tracked_run
from concord.flows.screen.progress import meter, say, tell_left
from concord.schemas.decoded import Status
from concord.schemas.errors import CorpusError
from concord.schemas.run import (
    CountsByName,
    Reuse,
    RunKey,
    RunReport,
    RunSettings,
    Seconds,
    ShardReport,
    ShardResult,
)
from concord.schemas.secrets import redact, short_name
from concord.schemas.settings import Settings
from concord.workers.compiling.kept_digests import code_digest
from concord.workers.constraints.constraint_set import ConstraintSet, Separable
from concord.workers.corpus.shard_size import shard_bytes_of
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.evaluation.measures import MEASURES
from concord.workers.evaluation.measures import figures as measure_figures
from concord.workers.evaluation.named_counts import MatchCounts
from concord.workers.learning.weights.known_weights import known_weights
from concord.workers.models.model import JudgesFit, score_column
from concord.workers.remote.survey import SurveyParts
from concord.workers.storage.storage import URI, Storage, file_bytes

if TYPE_CHECKING:
    from concord.flows.tracking.tracking import Outcome, Run, Tracking


JUDGED_DOCUMENTS = 50
"""Number of documents of which a model may say that they do not fit it."""


class LabelRequest(Settings):
    """One run, as the command line and Prefect give it.

    - ``corpus``, ``model``, ``out``: places, as `flows.reprocess` has them
    - ``settings``: how each document is decoded
    - ``constraints``: YAML files, added to the label consistency of the model (``consistency``)
    - ``only``: ids of the documents that are labelled; None for all
    - ``shard_bytes``: size of a shard, in bytes of text; None: by the size of the corpus, see `shard_bytes_of`
    - ``context``: the Ray and the MLflow of the run
    - ``fail_on_drift``: whether a figure beyond its threshold is an error, once all is done
    - ``allow_gone``: whether a run is published from whose corpus more than `MOST_MISSING` of the last run's documents
      are gone
    """

    corpus: str
    model: str
    out: str
    settings: RunSettings
    constraints: tuple[str, ...] = ()
    consistency: bool = True
    only: tuple[str, ...] | None = None
    shard_bytes: int | None = Field(None, ge=1)
    context: RunContext = HERE
    fail_on_drift: bool = False
    allow_gone: bool = False


def label_corpus(request: LabelRequest) -> RunReport:
    """Labels one corpus: plan, resume, label on Ray, publish where all shards are done, track.

    Neither Ray nor MLflow is imported where all shards are done and MLflow has the run.
    """
    started = time.monotonic()
    out = run_output(request.out)
    with out.exclusive(), RayOnDemand(request.context) as ray:
        job = LabelJob.of(request, out.storage, partial(read_anywhere, ray))
        claim(out, Purpose.of(request.corpus, request.only))
        if job.found is not None:
            job.found.keep(out.storage)
            job = job._replace(found=None)  # its memory is for other things now
        done = find_done(out, job.shards, job.key)
        told = (
            None
            if job.damages
            else tracked_run(out.storage, uri=tracking_uri(request.context.tracking), digest=job.digest)
        )
        if told is None or not done.done.all():
            return _label_tracked(job, out, done, ray, started)
        report = _published(job, out, done)
        answer = _report(request, report, _Work(skipped=len(job.shards)), told, seconds=time.monotonic() - started)
        keep_night(out.storage, answer, tags=run_tags(job="reprocess"), asked=_asked(job))
        failure = _failure(answer, done)
        if failure is not None:
            raise failure
        return answer


class LabelJob(NamedTuple):
    """A request, and all that is read before work begins.

    - ``request``: the request, its text settings with the tokenizer that cuts
    - ``shard_bytes``: size of a shard, in bytes of text
    - ``opened``: the model
    - ``constraints``: the constraints, bound to the model's labels
    - ``files``: hex digest of each of their files
    - ``key``: what decides the output of a shard
    - ``shards``: the shards of the corpus
    - ``damages``: errors of the parts of the corpus that cannot be read
    - ``found``: what the next run may take of the survey of the corpus; None where that is kept already
    """

    request: LabelRequest
    shard_bytes: int
    opened: OpenModel
    constraints: Separable
    files: Mapping[str, str]
    key: RunKey
    shards: ShardTable
    damages: Sequence[CorpusError]
    found: FoundSurvey | None

    @classmethod
    def of(cls, request: LabelRequest, storage: Storage, read: FileReader = read_here) -> LabelJob:
        """The job of a request, whose output is in ``storage``. Writes nothing.

        Raises the errors of reading model, constraints and corpus.
        """
        opened = open_model(request.model, request.context)
        constraints = open_constraints(opened, request.constraints, consistency=request.consistency)
        files = {name: hashlib.sha256(file_bytes(name)).hexdigest() for name in request.constraints}
        text = cutting(opened, request.settings.text)
        request = request.model_copy(update={"settings": request.settings.model_copy(update={"text": text})})
        key = RunKey(
            settings=request.settings, model=opened.model.digest, constraints=constraints.digest, code=code_digest()
        )
        listing = Listing.of(request.corpus)
        size = request.shard_bytes or shard_bytes_of(listing.files, last_shard_bytes(storage))
        parts = SurveyParts(text, size, score_column(opened.model))
        survey, found = plan_corpus(listing, parts, storage, read, request.only)
        for file, columns in survey.columns.items():
            check_there(columns, file.path, model=opened.model, constraints=constraints, source=request.model)
        return cls(request, size, opened, constraints, files, key, survey.shards, survey.damages, found)

    @property
    def digest(self) -> str:
        """Hex digest of everything that MLflow gets of the run."""
        told = [dataset_digest(self.shards), *map(str, sorted(_params(self).items()))]
        return hashlib.sha256("\0".join(told).encode()).hexdigest()


def _label_tracked(job: LabelJob, out: RunOutput, done: Markers, ray: RayOnDemand, started: float) -> RunReport:
    """Labels what is not done, and tells MLflow."""
    from concord.flows.nights.drift import against_last
    from concord.flows.nights.files import keep_files
    from concord.flows.tracking.tracking import Outcome, Tracking
    from concord.flows.tracking.untracked import catch_up

    request = job.request
    tracking = Tracking(request.context.tracking)
    catch_up(tracking, out.storage)
    tags = run_tags(job="reprocess", predictions=redact(request.out))
    with tracking.run(_run_name(job), tags=tags) as run:
        run.params(_params(job))
        run.dataset(name=request.corpus, digest=dataset_digest(job.shards), source=request.corpus, context="reprocess")
        counted = _Labelled(_Work(skipped=int(done.done.sum())))
        try:
            _label(job, out, done, ray, counted)
        except BaseException as error:
            if not isinstance(error, Exception):  # a signal, by whichever name
                answer = _report(request, done.report(), counted.work, run.id, seconds=time.monotonic() - started)
                answer = answer.model_copy(update={"cancelled": True})
                keep_night(out.storage, answer, tags=tags, asked=_asked(job))
                tell_left(answer)
            raise
        work = counted.work._replace(errors=(*(redact(str(damage)) for damage in job.damages), *counted.work.errors))
        beside = None if work.errors else against_last(out.storage, done, job.key, job.opened.model)
        withheld = beside is not None and beside.drift.loses and not request.allow_gone
        unpublished = bool(work.errors) or withheld
        report = done.report() if unpublished else _published(job, out, done)
        answer = _report(request, report, work, run.id, seconds=time.monotonic() - started)
        if beside is not None:
            answer = answer.model_copy(update={"drift": beside.drift, "withheld": withheld})
        failure = _failure(answer, done)
        failures = work.errors or ((str(failure),) if failure else ())
        manifest = None if unpublished else out.storage.read(MANIFEST)
        keep_files(run, answer, report, manifest=manifest, last=None if beside is None else beside.last)
        figures = metrics_of(report) | _speed(work) | weights_of(job.constraints)
        chart = None if beside is None or withheld else beside.chart
        keep_night(out.storage, answer, tags=tags, asked=_asked(job), chart=chart)
        told = redact(f"{answer.headline}; output in {answer.out}")
        outcome = Outcome.now(figures, failures=failures, tags=_drift_tags(answer), description=told)
        _conclude(answer, out.storage, run, outcome, tracking, failure)
        keep_tracked(out.storage, run.id, uri=tracking_uri(request.context.tracking), digest=job.digest)
        if request.fail_on_drift and answer.drift is not None and answer.drift.breaches:
            raise DriftedRunError(answer)
        return answer


def _published(job: LabelJob, out: RunOutput, done: Markers) -> ShardReport:
    """Counts of the run, which readers can see from now on."""
    write_sources(out.storage, _sources(job))
    return publish(out, done, rules=job.constraints.strengths)


def weights_of(constraints: ConstraintSet) -> dict[str, float]:
    """MLflow's figures of the soft constraints: weights in nats, and their intervals where counts are known."""
    figures: dict[str, float] = {}
    for known in known_weights(constraints):
        ends = {"": known.weight, "/low": known.low, "/high": known.high}
        figures |= {f"weight/{known.name}{end}": x for end, x in ends.items() if x is not None and math.isfinite(x)}
    return figures


def _sources(job: LabelJob) -> Sources:
    """Sources of the run, by absolute paths."""
    request = job.request
    return Sources(
        corpus=request.corpus,
        model=request.model if URI.match(request.model) else str(Path(request.model).expanduser().absolute()),
        constraints=tuple(map(source_place, request.constraints)),
        consistency=request.consistency,
        shard_bytes=job.shard_bytes,
        only=request.only,
    )


def _failure(report: RunReport, done: Markers) -> ShardsFailedError | WithheldRunError | NothingLabelledError | None:
    """Error that the run raises at its end, if any: failed shards, too much that is gone, or a corpus of rejects alone.

    Of some rejects among answers the first is shown.
    """
    if report.errors:
        return ShardsFailedError(report)
    if report.withheld:
        return WithheldRunError(report)
    reason = first_reject(done) if report.rejected else None
    if reason and not report.documents:
        return NothingLabelledError(reason, report)
    if reason:
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


class _Work(NamedTuple):
    """What this call did.

    - ``done``, ``skipped``: shards that were labelled now, and before
    - ``documents``, ``tokens``: documents and tokens that were labelled now
    - ``reuse``: documents among these that took the answer of the last run
    - ``wall``: wall-clock seconds of the labelling
    - ``seconds``: seconds of the workers, by step
    - ``errors``: messages of the failed shards
    """

    done: int = 0
    skipped: int = 0
    documents: int = 0
    tokens: int = 0
    reuse: Reuse = Reuse()
    wall: float = 0.0
    seconds: Seconds = Seconds()
    errors: tuple[str, ...] = ()


@dataclass
class _Labelled:
    """What this call has done so far."""

    work: _Work
    certified: int = 0

    def add(self, done: ShardResult, wall: float) -> None:
        """Counts a shard; ``wall``: seconds since labelling began."""
        report, work = done.marker.report, self.work
        self.certified += report.certified
        self.work = work._replace(
            done=work.done + 1,
            documents=work.documents + report.documents,
            tokens=work.tokens + report.tokens,
            reuse=work.reuse + done.reuse,
            wall=wall,
            seconds=work.seconds.plus(done.seconds),
        )


def _label(job: LabelJob, out: RunOutput, done: Markers, ray: RayOnDemand, counted: _Labelled) -> None:
    """Labels the shards that are not done and adds their markers to ``done``; after it there is no Ray.

    ``counted`` has at every moment what was done until then.
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
    given = LabelParts(model, job.constraints, key, store, sample, last)
    errors: list[str] = []
    with ray:
        running = ray.started()
        started = time.monotonic()
        with meter("labelling", int(todo.rows.sum())) as bar:
            for answer in running.run(LABEL, todo, given):
                if answer.result is None:
                    errors.append(answer.failure)
                    continue
                done.add(answer.result.marker)
                counted.add(answer.result, time.monotonic() - started)
                share = _share(counted.certified, counted.work.documents)
                bar.advance(answer.shard.rows, note=f"documents, {share:.1%} certified")
        counted.work = counted.work._replace(wall=time.monotonic() - started, errors=tuple(sorted(errors)))


# What is reported


def metrics_of(report: ShardReport) -> dict[str, float]:
    """MLflow's figures by name; scores against gold only where there is gold."""
    figures: dict[str, float] = {
        "documents": report.documents,
        "tokens": report.tokens,
        "rejected": report.rejected,
        "infeasible": report.infeasible,
        "relabelled_tokens": report.relabelled,
        "certified": _share(report.certified, report.documents),
        "by_solver": _share(report.statuses.get(Status.BY_SOLVER, 0), report.documents),
        "gap/max": report.gap_max,
        "gap/mean": report.gap_sum / max(report.documents, 1),
    }
    for name, row in report.constraints.items():
        figures |= {
            f"violations/{name}/before": row.degree_before,
            f"violations/{name}/after": row.degree,
            f"penalty/{name}/before": row.penalty_before,
            f"penalty/{name}/after": row.penalty,
        }
    if report.with_gold:
        figures["token_accuracy"] = _share(report.correct_tokens, report.gold_tokens)
        for name, counts in report.measures.items():
            figures |= _scores("", name, counts) | _scores("viterbi/", name, report.measures_before[name])
    figures |= {f"search_errors/entities/{kind}": n for kind, n in totals(report.search_errors).items()}
    figures |= {f"search_errors/documents/{kind}": n for kind, n in totals(report.search_documents).items()}
    return figures


def totals(counts: CountsByName) -> dict[str, int]:
    """Sums of the counts over their names, by kind."""
    kinds = sorted({kind for row in counts.values() for kind in row})
    return {kind: sum(row.get(kind, 0) for row in counts.values()) for kind in kinds}


def _scores(prefix: str, measure: str, rows: CountsByName) -> dict[str, float]:
    """Figures of a measure and F1 of each name, under the measure's name; spans, which every run has, without it."""
    counts = MatchCounts.from_dict(rows)
    start = prefix if measure == "spans" else f"{prefix}{measure}/"
    scores = {f"{start}{name}": value for name, value in measure_figures(measure, counts).items()}
    by_name = counts.names if "macro_f1" in MEASURES[measure].figures else ()
    return scores | {f"{start}f1/{name}": counts.f1(name) for name in by_name}


def _speed(work: _Work) -> dict[str, float]:
    """Figures of this call alone; none where every shard was skipped."""
    if not work.done:
        return {"shards/skipped": work.skipped}
    parts = {f"worker_seconds/{name}": value for name, value in work.seconds._asdict().items()}
    return parts | {
        "shards/done": work.done,
        "shards/skipped": work.skipped,
        "shards/failed": len(work.errors),
        "tokens_per_second": work.tokens / work.wall,
    }


def _report(request: LabelRequest, report: ShardReport, work: _Work, run: str, *, seconds: float) -> RunReport:
    figures = report.constraints.values()
    return RunReport(
        documents=report.documents,
        labelled=work.documents,
        reuse=work.reuse,
        tokens=report.tokens,
        rejected=report.rejected,
        infeasible=report.infeasible,
        shards_done=work.done,
        shards_skipped=work.skipped,
        shards_failed=len(work.errors),
        seconds=round(seconds, 3),
        tokens_per_second=round(work.tokens / work.wall, 1) if work.wall else 0.0,
        worker_seconds=round(work.seconds.total, 3),
        worker_speed=round(work.tokens / work.seconds.total, 1) if work.seconds.total else 0.0,
        certified=_share(report.certified, report.documents),
        by_solver=_share(report.statuses.get(Status.BY_SOLVER, 0), report.documents),
        max_gap=report.gap_max if report.gap_max < float("inf") else None,
        violations_before=sum(f.degree_before for f in figures),
        violations=sum(f.degree for f in figures),
        penalty_before=sum(f.penalty_before for f in figures),
        penalty=sum(f.penalty for f in figures),
        search_errors=totals(report.search_errors),
        search_documents=totals(report.search_documents),
        out=redact(request.out),
        mlflow_run=run,
        mlflow_page=page_of_run(tracking_uri(request.context.tracking), run),
        errors=work.errors,
    )


def _params(job: LabelJob) -> dict[str, object]:
    request, key, settings = job.request, job.key, job.key.settings
    return {
        "corpus": request.corpus,
        "only": None if request.only is None else f"{_told_only(request.only)}, {ids_digest(request.only)}",
        "model": request.model,
        "model_version": job.opened.version,
        "model_digest": job.opened.model.digest,
        "constraints": ", ".join(request.constraints) or None,
        **{f"constraints.{short_name(name)}": digest for name, digest in job.files.items()},
        "constraints_digest": key.constraints,
        "code_digest": key.code,
        "engine": settings.engine,
        "seed": settings.seed,
        "work": settings.work,
        "seconds": settings.seconds,
        "on_infeasible": settings.on_infeasible,
        **{f"engine.{name}": value for name, value in settings.options.items()},
    }


def _asked(job: LabelJob) -> dict[str, object]:
    """What the record of nights keeps of a run's request."""
    return _params(job) | {"dataset": dataset_digest(job.shards)}


def _drift_tags(report: RunReport) -> dict[str, str]:
    """MLflow's tags of a run with figures beyond their threshold, and of one from whose corpus documents are gone."""
    if report.drift is None:
        return {}
    breaches = "\n".join(movement.told for movement in report.drift.breaches)
    missing = report.drift.told_missing if report.drift.missing else ""
    return {name: told for name, told in {"drift": breaches, "gone": missing}.items() if told}


def _run_name(job: LabelJob) -> str:
    """Corpus, engine, model with its version, and files of constraints with a digest: what tells runs apart."""
    request = job.request
    parts = [short_name(request.corpus), request.settings.engine, job.opened.version or short_name(request.model)]
    if request.only is not None:
        parts.insert(1, _told_only(request.only))
    if request.constraints:
        parts.append(f"{', '.join(map(short_name, request.constraints))} {job.constraints.digest[:8]}")
    if not request.consistency:
        parts.append("no consistency")
    return " · ".join(parts)


def _told_only(only: Sequence[str]) -> str:
    return f"{len(set(only)):,} documents"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
