"""The main job: a corpus labelled jointly, shard by shard, resumed where it stopped, tracked in MLflow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.cluster import Job, cluster
from flows.jobs import corpus_place, folder_place, run_tags
from flows.prefect_server import guard_server
from flows.progress import meter
from flows.runfolder import dataset_digest, exclusive, prepare, write_manifest
from flows.shards import plan
from flows.sources import OpenModel, open_constraints, open_model
from flows.tracking import Run, Tracking
from schemas.document import Document
from schemas.run import Counts, OnInfeasible, RunKey, RunReport, RunSettings, Seconds, ShardMarker, ShardReport
from schemas.settings import Settings, TextSettings
from workers.code import code_digest
from workers.constraints.constraint_set import ConstraintSet
from workers.evaluation.conlleval import EntityCounts
from workers.parquet import CorpusError
from workers.shard import check_settings
from workers.shard_io import Shard, read_batch


class Request(Settings):
    """One run, as the command line and Prefect give it."""

    corpus: str
    model: str
    out: str
    settings: RunSettings
    constraints: tuple[str, ...] = ()
    consistency: bool = True
    ray: str | None = None
    workers: int | None = None
    tracking: str | None = None


guard_server()


@flow(name="reprocess", flow_run_name="{corpus} with {engine}", persist_result=False)
def reprocess(
    corpus: str,
    model: str,
    out: str,
    *,
    engine: str = "gibbs",
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
    work: int | None = None,
    seconds: float | None = None,
    on_infeasible: OnInfeasible = "viterbi",
    text: Mapping[str, Any] | None = None,
    constraints: Sequence[str] = (),
    consistency: bool = True,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> RunReport:
    """Labels every document of ``corpus`` with ``model`` into the folder ``out``.

    ``model`` is a folder or ``models:/NAME@ALIAS``; ``constraints`` are YAML files, added to the
    label consistency trained with the model (``consistency``). ``ray`` is the address of a
    cluster, none for this machine. See `schemas.run.RunSettings` for the rest. The same call
    again does only what is not done yet.
    """
    settings = RunSettings(
        engine=engine,
        options=options or {},
        seed=seed,
        work=work,
        seconds=seconds,
        on_infeasible=on_infeasible,
        text=TextSettings.model_validate(dict(text or {})),
    )
    request = Request(
        corpus=corpus_place(corpus),
        model=model,
        out=folder_place(out),
        settings=check_settings(settings),
        constraints=tuple(constraints),
        consistency=consistency,
        ray=ray,
        workers=workers,
        tracking=tracking,
    )
    return label_corpus(request)


@task(name="label-corpus", cache_policy=NO_CACHE, persist_result=False)
def label_corpus(request: Request) -> RunReport:
    """One corpus: plan, resume, label on Ray, write the manifest, track."""
    started = time.monotonic()
    out = Path(request.out)
    with exclusive(out):
        tracking = Tracking(request.tracking)
        opened = open_model(request.model, tracking)
        constraints = open_constraints(opened, request.constraints, consistency=request.consistency)
        key = RunKey(
            settings=request.settings, model=opened.model.digest, constraints=constraints.digest, code=code_digest()
        )
        shards = plan(request.corpus, text=request.settings.text)
        with tracking.run(_run_name(request), tags=run_tags(job="reprocess", predictions=request.out)) as run:
            run.params(_params(request, key, opened))
            run.dataset(name=request.corpus, digest=dataset_digest(shards), source=request.corpus, context="reprocess")
            done = prepare(out, request.corpus, shards, key)
            work = _label(request, shards, done, opened, constraints, key)
            report = ShardReport.merge(marker.report for marker in done.values())
            if not work.errors:
                write_manifest(out, key, shards, done, report)
            run.metrics(metrics_of(report) | _speed(work))
            return _report(request, report, work, run, seconds=time.monotonic() - started)


class _Work(NamedTuple):
    """What this call did: shards now and before, tokens now, wall-clock time, workers' time, failures."""

    done: int = 0
    skipped: int = 0
    tokens: int = 0
    wall: float = 0.0
    seconds: Seconds = Seconds()
    errors: tuple[str, ...] = ()


def _label(
    request: Request,
    shards: Sequence[Shard],
    done: dict[str, ShardMarker],
    opened: OpenModel,
    constraints: ConstraintSet,
    key: RunKey,
) -> _Work:
    """Labels the shards that are not done and adds their markers to ``done``."""
    skipped = len(done)
    todo = [shard for shard in shards if shard.id not in done]
    if not todo:
        return _Work(skipped=skipped)
    job = Job(opened.model, constraints, key, Path(request.out), _sample(todo, key))
    errors: list[str] = []
    parts: list[Seconds] = []
    tokens = certified = documents = 0
    with cluster(request.ray, workers=request.workers) as running:
        started = time.monotonic()
        with meter("labelling", sum(shard.rows for shard in todo)) as bar:
            for answer in running.label_shards(todo, job):
                if answer.result is None:
                    errors.append(f"{_place(answer.shard)}: {answer.error}")
                    continue
                marker = answer.result.marker
                done[answer.shard.id] = marker
                parts.append(answer.result.seconds)
                tokens += marker.report.tokens
                documents += marker.report.documents
                certified += marker.report.certified
                speed = tokens / max(time.monotonic() - started, 1e-9)
                bar.advance(
                    answer.shard.rows,
                    note=f"documents, {speed:,.0f} tokens/s, {_share(certified, documents):.1%} certified",
                )
        wall = time.monotonic() - started
    total = Seconds(*(sum(column) for column in zip(*parts, strict=True))) if parts else Seconds()
    return _Work(len(parts), skipped, tokens, wall, total, tuple(sorted(errors)))


def _place(shard: Shard) -> str:
    last = shard.first_row + shard.rows - 1
    return f"{shard.file.path}, row group {shard.row_group}, rows {shard.first_row} to {last}"


def _sample(shards: Sequence[Shard], key: RunKey) -> Document | None:
    """The first document that can be read, to compile numba kernels on; None where no shard can be read."""
    for shard in shards:
        try:
            batch, _ = read_batch(shard, text=key.settings.text)
        except CorpusError:
            continue  # the shard's worker meets it again and reports it
        if len(batch):
            return batch.document(0)
    return None


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
        figures |= _scores("", EntityCounts.from_dict(report.entities))
        figures |= _scores("viterbi/", EntityCounts.from_dict(report.entities_before))
    figures |= {f"search_errors/entities/{kind}": n for kind, n in totals(report.search_errors).items()}
    figures |= {f"search_errors/documents/{kind}": n for kind, n in totals(report.search_documents).items()}
    return figures


def totals(counts: Counts) -> dict[str, int]:
    """Counts summed over their names, by kind."""
    kinds = sorted({kind for row in counts.values() for kind in row})
    return {kind: sum(row.get(kind, 0) for row in counts.values()) for kind in kinds}


def _scores(prefix: str, counts: EntityCounts) -> dict[str, float]:
    figures = {
        f"{prefix}precision": counts.precision(),
        f"{prefix}recall": counts.recall(),
        f"{prefix}f1": counts.f1(),
    }
    return figures | {f"{prefix}f1/{name}": counts.f1(name) for name in counts.names}


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


def _report(request: Request, report: ShardReport, work: _Work, run: Run, *, seconds: float) -> RunReport:
    figures = report.constraints.values()
    return RunReport(
        documents=report.documents,
        tokens=report.tokens,
        rejected=report.rejected,
        infeasible=report.infeasible,
        shards_done=work.done,
        shards_skipped=work.skipped,
        shards_failed=len(work.errors),
        seconds=round(seconds, 3),
        tokens_per_second=round(work.tokens / work.wall, 1) if work.wall else 0.0,
        certified=_share(report.certified, report.documents),
        max_gap=report.gap_max if report.gap_max < float("inf") else None,
        violations_before=sum(f.degree_before for f in figures),
        violations=sum(f.degree for f in figures),
        penalty_before=sum(f.penalty_before for f in figures),
        penalty=sum(f.penalty for f in figures),
        search_errors=totals(report.search_errors),
        search_documents=totals(report.search_documents),
        out=request.out,
        mlflow_run=run.id,
        errors=work.errors,
    )


def _params(request: Request, key: RunKey, opened: OpenModel) -> dict[str, object]:
    settings = key.settings
    return {
        "corpus": request.corpus,
        "model": request.model,
        "model_digest": opened.model.digest,
        "constraints": ", ".join(request.constraints) or None,
        "constraints_digest": key.constraints,
        "code_digest": key.code,
        "engine": settings.engine,
        "seed": settings.seed,
        "work": settings.work,
        "seconds": settings.seconds,
        "on_infeasible": settings.on_infeasible,
        **{f"engine.{name}": value for name, value in settings.options.items()},
    }


def _run_name(request: Request) -> str:
    return f"{Path(request.corpus).name} · {request.settings.engine}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
