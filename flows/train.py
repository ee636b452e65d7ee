"""Training: the CRF, and the label consistency that is tuned on documents it has not seen."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.jobs import check_apart, corpus_name, corpus_place, folder_place, run_tags
from flows.prefect.prefect_server import guard_server
from flows.prefect.private_flow import private_flow
from flows.progress import meter
from flows.runfolder.runfolder import LOCK, dataset_digest, locked
from flows.tracking.tracking import ALIAS, MODEL_FOLDER, Outcome, Registered, Run, Tracking, TrackingError
from schemas.document import Document
from schemas.errors import InputError
from schemas.labels import LabelError
from schemas.run import TrainReport
from schemas.secrets import masked_errors
from schemas.settings import CrfSettings, Settings
from workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from workers.corpus.plan import plan
from workers.corpus.shards import Shard, read_batch
from workers.learning.saved_consistency import EXTRA, consistency_extra
from workers.learning.tuning import ScaleTrial, most_trials, tune_scales
from workers.models import crf
from workers.models.crf import CrfModel, Iteration
from workers.models.folder import MANIFEST, update_manifest
from workers.storage.files import staged


class TrainingError(InputError):
    """A corpus that nothing can be learned from, or an output folder that is something else."""


class Request(Settings):
    """One training, as the command line and Prefect give it."""

    corpus: str
    out: str
    settings: CrfSettings
    consistency: bool = True
    held_out: float = 0.2
    register_as: str | None = None
    alias: str = ALIAS
    tracking: str | None = None


guard_server()


@private_flow("train", run_name="{corpus} with {features}")
def train(
    corpus: str,
    out: str,
    *,
    features: str = "rich",
    options: dict[str, Any] | None = None,
    consistency: bool = True,
    held_out: float = 0.2,
    register_as: str | None = None,
    alias: str = ALIAS,
    tracking: str | None = None,
) -> TrainReport:
    """Trains a CRF on a labelled corpus and saves it as the folder ``out``.

    With ``consistency`` a second CRF is trained without the share ``held_out`` of the documents
    first, and the scales of the label consistency are tuned on that share. ``options`` are those
    of `schemas.settings.CrfSettings`. ``register_as`` names the model in MLflow's registry.
    """
    request = Request(
        corpus=corpus_place(corpus),
        out=folder_place(out),
        settings=CrfSettings.model_validate({"features": features} | (options or {})),
        consistency=consistency,
        held_out=held_out,
        register_as=register_as,
        alias=alias,
        tracking=tracking,
    )
    check_apart(request.out, request.corpus)
    return train_model(request)


@task(name="train-model", cache_policy=NO_CACHE, persist_result=False)
@masked_errors()
def train_model(request: Request) -> TrainReport:
    """Reads, tunes, trains, saves, tracks and registers; one training a folder at a time, or `RunFolderError`."""
    out = Path(request.out)
    _check_out(out)
    target = Path(os.path.realpath(out))
    # Beside the folder: the new model takes that one's place as a whole.
    with locked(target.with_name(f".{target.name}{LOCK}"), out):
        return _train(request, out)


def _train(request: Request, out: Path) -> TrainReport:
    started = time.monotonic()
    tracking = Tracking(request.tracking)
    shards = plan(request.corpus)
    name = f"{corpus_name(request.corpus)} · {request.settings.features}"
    with tracking.run(name, tags=run_tags(job="train", model=request.out)) as run:
        documents, rejected = _read(shards)
        run.params({"corpus": request.corpus, "held_out": request.held_out, **request.settings.model_dump()})
        run.dataset(name=request.corpus, digest=dataset_digest(shards), source=request.corpus, context="training")
        tuned = _tune(request, documents) if request.consistency else None
        with staged(out) as folder:
            model = _fit(documents, request.settings, folder, "training")
            metrics = _figures(model, tuned, rejected)
            extras = {} if tuned is None else {EXTRA: consistency_extra(tuned.consistency)}
            update_manifest(folder, kind=crf.KIND, metrics=metrics, extras=extras)
        try:
            registered = _register(tracking, run, out, request)
            run.end(Outcome.now(metrics | {"seconds": time.monotonic() - started}))
        except TrackingError as error:
            raise TrackingError(f"the model is in {out}, but {error}") from None
        return _report(request, model, metrics, run, registered, seconds=time.monotonic() - started)


def _check_out(out: Path) -> None:
    """Before the work, not after it. Raises `TrainingError` and `OSError`."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file()):
        raise TrainingError(f"{out}: is there and is no model; give another --out")
    if out.is_symlink() and not out.exists():
        raise TrainingError(f"{out}: is a link that leads nowhere; give another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent):
        pass  # a folder can be made there


def _read(shards: Sequence[Shard]) -> tuple[list[Document], int]:
    documents: list[Document] = []
    rejected = 0
    with meter("reading", sum(shard.rows for shard in shards)) as bar:
        for shard in shards:
            batch, rejects = read_batch(shard)
            documents += batch
            rejected += len(rejects)
            bar.advance(shard.rows, note="documents")
    return documents, rejected


class Tuned(NamedTuple):
    """The label consistency, and the entity F1 on held-out documents without it and with it."""

    consistency: LabelConsistency
    f1_without: float
    f1_with: float


def _tune(request: Request, documents: Sequence[Document]) -> Tuned:
    """Learns costs from all documents, and scales from those a model for tuning has not seen."""
    held = [is_held_out(document.doc_id, request.held_out) for document in documents]
    inside = [d for d, out in zip(documents, held, strict=True) if not out]
    outside = [d for d, out in zip(documents, held, strict=True) if out]
    if not inside or not outside:
        raise TrainingError(
            f"{request.corpus}: {len(documents)} documents are too few to hold out {request.held_out:.0%} of them; "
            "give more, or --no-consistency"
        )
    with tempfile.TemporaryDirectory(prefix="concord-tuning-") as folder:
        model = _fit(inside, request.settings, Path(folder), "training without the held-out part")
        try:
            counted = [PairCounts.of(documents, model.labels, fold_case=fold) for fold in (False, True)]
            with meter("tuning label consistency", most_trials(len(counted))) as bar:

                def show(trial: ScaleTrial) -> None:
                    note = f"scales {', '.join(f'{scale:g}' for scale in trial.scales)}: F1 {trial.f1:.2%}"
                    bar.advance(note=note)

                best, trials = tune_scales(outside, model, counted, progress=show)
        except LabelError as error:
            raise TrainingError(f"{request.corpus}: a label is too rare to hold documents out: {error}") from error
    f1 = {(trial.fold_case, trial.scales): trial.f1 for trial in trials}
    folded = best.counts.fold_case
    return Tuned(best, f1[folded, Scales(0.0, 0.0, 0.0)], f1[folded, best.scales])


def is_held_out(doc_id: str, share: float) -> bool:
    """Is this document in the held-out part? Depends on its id alone."""
    place = int.from_bytes(hashlib.blake2b(doc_id.encode(), digest_size=8).digest(), "big")
    return place < share * 2.0**64


def _fit(documents: Sequence[Document], settings: CrfSettings, out: Path, title: str) -> CrfModel:
    with meter(title, settings.max_iterations) as bar:
        done = 0

        def show(iteration: Iteration) -> None:
            nonlocal done
            bar.advance(iteration.number - done, note=f"iterations, loss {iteration.loss:,.0f}")
            done = iteration.number

        try:
            return crf.train(documents, settings=settings, out=out, progress=show)
        except ValueError as error:
            raise TrainingError(str(error)) from error


def _figures(model: CrfModel, tuned: Tuned | None, rejected: int) -> dict[str, float]:
    training = model.manifest.training
    figures = {name: float(training[name]) for name in ("documents", "sentences", "tokens", "iterations", "loss")}
    figures["rejected"] = rejected
    if tuned is None:
        return figures
    return figures | {
        "consistency/fold_case": float(tuned.consistency.counts.fold_case),
        "consistency/exact_scale": tuned.consistency.scales.exact,
        "consistency/subsequence_scale": tuned.consistency.scales.subsequence,
        "consistency/unlabelled_scale": tuned.consistency.scales.unlabelled,
        "held_out/f1_without_consistency": tuned.f1_without,
        "held_out/f1": tuned.f1_with,
    }


def _register(tracking: Tracking, run: Run, out: Path, request: Request) -> Registered | None:
    run.folder(out, MODEL_FOLDER)
    if request.register_as is None:
        return None
    return tracking.register(run, request.register_as, alias=request.alias)


def _report(
    request: Request,
    model: CrfModel,
    metrics: dict[str, float],
    run: Run,
    registered: Registered | None,
    *,
    seconds: float,
) -> TrainReport:
    return TrainReport(
        documents=int(metrics["documents"]),
        tokens=int(metrics["tokens"]),
        rejected=int(metrics["rejected"]),
        labels=len(model.labels),
        iterations=int(metrics["iterations"]),
        loss=metrics["loss"],
        exact_scale=metrics.get("consistency/exact_scale"),
        subsequence_scale=metrics.get("consistency/subsequence_scale"),
        unlabelled_scale=metrics.get("consistency/unlabelled_scale"),
        held_out_f1_without_consistency=metrics.get("held_out/f1_without_consistency"),
        held_out_f1=metrics.get("held_out/f1"),
        seconds=round(seconds, 3),
        out=request.out,
        model_digest=model.digest,
        mlflow_run=run.id,
        registered=None if registered is None else f"models:/{registered.name}@{registered.alias}",
    )
