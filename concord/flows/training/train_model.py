"""The work of `flows.train`: training of a model, and of its label consistency on documents that it has not seen."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from concord.flows.environment import page_of_run, tracking_uri
from concord.flows.errors import TrackingError
from concord.flows.inputs.jobs import check_model_place, run_tags, source_place
from concord.flows.labelling.documents import read_documents
from concord.flows.runfolder.locks import LOCK, locked
from concord.flows.runfolder.runfolder import dataset_digest
from concord.flows.screen.progress import meter, say
from concord.flows.tracking.tracking import (
    PARENT,
    PENALTIES_FILE,
    Outcome,
    Registered,
    Run,
    Tracking,
)
from concord.flows.training.best_model import SearchLimits, best_model
from concord.flows.training.progressive import choose, search_of, track
from concord.flows.training.trial_file import TrialFile, forget
from concord.flows.training.tuning import (
    Tuned,
    learn_outside_cost,
    learn_temperature,
    outside_cost_figures,
    outside_cost_report,
    pair_counts,
    temperature_figures,
    temperature_report,
    tune_consistency,
)
from concord.schemas.document import TOKENS, Document
from concord.schemas.errors import CorpusError, TrainingError
from concord.schemas.learning_requests import TrainingEffort, TrainRequest
from concord.schemas.secrets import short_name
from concord.schemas.settings import TrainerSettings
from concord.schemas.train_report import (
    LayersReport,
    SampleRow,
    SearchReport,
    TaggersReport,
    TrainReport,
)
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard, tokenizer_of
from concord.workers.corpus.tokenizers.registry import pinned
from concord.workers.learning.search.folds import LATER_SHARE, divided
from concord.workers.learning.search.progressive import Sampling
from concord.workers.learning.trainers.layers import LayersChoice, answering, choose_layers
from concord.workers.learning.trainers.outside_cost import OutsideCostFit
from concord.workers.learning.trainers.registry import TRAINERS, trainer_named
from concord.workers.learning.trainers.selection import TrainerChoice
from concord.workers.learning.trainers.temperature import TemperatureFit
from concord.workers.learning.trainers.trainer import Iteration, Train, without_new_labels
from concord.workers.learning.weights.consistency_scales import assumed_consistency
from concord.workers.learning.weights.known_weights import known_weights_text
from concord.workers.models.folder import CONSTRAINTS_FILE, MANIFEST, Manifest, parse_manifest, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model, costing, tempered
from concord.workers.models.saved_consistency import EXTRA, consistency_extra
from concord.workers.models.settings import FeatureSettings
from concord.workers.storage.files import staged, write_whole
from concord.workers.storage.scratch import scratch_folder
from concord.workers.sweeps.documents import extras_of_named

NO_DOCUMENTS = "no documents with gold labels are held out to learn one"


class _TunedParts(NamedTuple):
    """What is learned on documents that a model has not seen.

    - ``consistency``: label consistency; None where it is not asked for.
    """

    temperature: TemperatureFit
    outside_cost: OutsideCostFit
    consistency: Tuned | None = None

    @property
    def figures(self) -> dict[str, float]:
        """Figures for MLflow and the manifest."""
        found = temperature_figures(temperature_report(self.temperature)) | outside_cost_figures(self.outside_cost)
        return found | ({} if self.consistency is None else self.consistency.figures)


NOTHING_HELD_OUT = _TunedParts(
    TemperatureFit(1.0, 0, kept_for=NO_DOCUMENTS), OutsideCostFit(0.0, kept_for=NO_DOCUMENTS)
)


AS_THEY_ARE = OutsideCostFit(0.0, kept_for="the answers of a layer stay as they are")


class TrainJob(TrainRequest):
    """A request, and the settings that its options are.

    - ``settings``: of the trainer
    """

    settings: TrainerSettings


class _ChosenSettings(NamedTuple):
    """Chosen settings.

    - ``candidate``: trainer and settings to train with.
    - ``search``: how they were chosen, step by step.
    - ``samples``: rows of progressive sampling, one for each sample.
    - ``layers``: ways to use layers of the corpus, where it is asked for.
    - ``tuning_model``: a model of the candidate that has not seen the documents by which label consistency is tuned;
      None where the choice has made none.
    - ``temperature``, ``outside_cost``: of the candidate, by documents that it has not seen; None where they were not
      learned.
    - ``rules``: text of a file of mined rules that help; None where none do.
    """

    candidate: TrainerChoice
    search: SearchReport | None = None
    samples: Sequence[SampleRow] = ()
    layers: LayersChoice | None = None
    tuning_model: Model | None = None
    temperature: TemperatureFit | None = None
    outside_cost: OutsideCostFit | None = None
    rules: str | None = None

    @property
    def answers(self) -> str | None:
        """The layer whose answers the model gives, as a feature set; None where the model learns."""
        return None if self.layers is None else self.layers.best.setting.answers

    @property
    def train(self) -> Train:
        """The trainer; or one of models that give a layer's answers, where nothing learned is better."""
        return trainer_named(self.candidate.trainer).train if self.answers is None else answering(self.answers)


def check_search(request: TrainRequest) -> None:
    """Raises `TrainingError` if Ray or a sample is asked for, but no trial runs on Ray, or if nothing can be tried."""
    is_best = request.effort is TrainingEffort.BEST
    asked = (request.context.ray, request.context.workers, request.largest_sample)
    if asked != (None, None, None) and not is_best:
        raise TrainingError("--ray, --workers and --largest-sample are for --effort best; leave them out")
    if request.largest_sample is not None and _sampling(request) is None:
        able = " or ".join(name for name, trainer in TRAINERS.items() if trainer.sampling is not None)
        raise TrainingError(f"--largest-sample is for --effort best of trainer {able} alone; leave it out")
    limits = {"--minutes": request.minutes, "--cpu-seconds": request.cpu_seconds}
    given = [option for option, limit in limits.items() if limit is not None]
    if given and not (is_best and _sampling(request) is None):
        raise TrainingError(f"{given[0]} is for --effort best of trainers that climb step by step; leave it out")
    if is_best and not trainer_named(request.trainer).gold:
        raise TrainingError(
            f"--effort best: trainer {request.trainer} reads no gold labels that could judge; leave it out"
        )


def _sampling(request: TrainRequest) -> Sampling | None:
    """Trials of missing options on a cluster; None if these are chosen by cross-validation."""
    return trainer_named(request.trainer).sampling


def train_model(request: TrainJob) -> TrainReport:
    """Reads, tunes, trains, saves, tracks, registers. Raises `RunFolderError` if another training uses the folder."""
    out = Path(request.out)
    check_model_place(out)
    target = Path(os.path.realpath(out))
    # Beside the folder: the new model takes that one's place as a whole.
    with locked(target.with_name(f".{target.name}{LOCK}"), out):
        return _train(request, out)


def _train(request: TrainJob, out: Path) -> TrainReport:
    started = time.monotonic()
    tracking = Tracking(request.context.tracking)
    shards = {context: plan(place) for context, place in corpora_of(request).items()}
    name = f"{short_name(request.corpus)} · {request.trainer}"
    with tracking.run(name, tags=run_tags(job="train", model=request.out)) as run:
        documents, rejected = _read(request, shards["training"])
        gold = trainer_named(request.trainer).learns_from_gold(documents)
        parts = _divided(request, documents) if request.consistency and gold else None
        choice = _choose(request, documents, dataset_digest(shards["training"]), tracking, run)
        request = request.model_copy(update=choice.candidate._asdict())
        run.params(_params(request))
        for context, place in corpora_of(request).items():
            run.dataset(name=place, digest=dataset_digest(shards[context]), source=place, context=context)
        with staged(out) as folder:
            losses: dict[int, float] = {}
            model = _fit(documents, request, choice.train, folder, "training", losses)
            tuned = _untuned(choice)
            if parts is not None:
                tuned = _tune(request, choice, *parts, pair_counts(documents, model.labels))
            manifest = parse_manifest(folder / MANIFEST)
            metrics = manifest.figures | {"rejected": rejected} | tuned.figures
            consistency = (
                _assumed(request, documents, model, gold=gold)
                if tuned.consistency is None
                else tuned.consistency.consistency
            )
            extras: dict[str, Any] = {} if consistency is None else {EXTRA: consistency_extra(consistency)}
            extras |= extras_of_named(request.settings)
            if choice.rules is not None:
                write_whole(folder / CONSTRAINTS_FILE, choice.rules.encode())
            tokenizer = tokenizer_of(shards["training"]) or pinned(None)
            manifest = update_manifest(
                folder,
                kind=manifest.kind,
                metrics=metrics,
                extras=extras,
                files=() if choice.rules is None else (CONSTRAINTS_FILE,),
                tokenizer=tokenizer,
                temperature=tuned.temperature.temperature,
                outside_cost=tuned.outside_cost.cost,
            )
        forget(out)
        try:
            run.params({"model_kind": manifest.kind, "learning": request.settings.learning})
            _log_penalties(run, request, out, consistency)
            run.curve("training/loss", losses)
            run.model(out, model.columns)
            registered = _register(tracking, run, request)
            run.end(Outcome.now(metrics | {"seconds": time.monotonic() - started}))
        except TrackingError as error:
            raise TrackingError(f"the model is in {out}, but {error}") from None
        seconds = time.monotonic() - started
        columns = tuple(name for name in model.columns if name != TOKENS)
        return _report(request, manifest, rejected, choice, tuned, run, registered, columns=columns, seconds=seconds)


def _read(request: TrainJob, shards: Sequence[Shard]) -> tuple[list[Document], int]:
    """The documents, and the number of rejects. Raises `CorpusError` where there is no gold that the trainer needs."""
    try:
        return read_documents(shards, gold=trainer_named(request.trainer).gold)
    except CorpusError as error:
        if getattr(request.settings, "layers", ()):
            raise CorpusError(f"{error}; or --trainer taggers, which learns from layers without gold") from error
        raise


def _choose(
    request: TrainJob, documents: Sequence[Document], corpus: str, tracking: Tracking, run: Run
) -> _ChosenSettings:
    """Trainer and settings to train with; options that were not given are chosen if that is asked for.

    - ``corpus``: digest of the documents.
    """
    started, started_cpu = time.monotonic(), time.process_time()
    layers = _judge_layers(request, documents)
    settings = request.settings if layers is None else layers.best.setting.settings or request.settings
    chosen = _ChosenSettings(TrainerChoice(request.trainer, settings), layers=layers)
    if request.effort is not TrainingEffort.BEST or chosen.answers is not None:
        return chosen
    sampling, out = _sampling(request), Path(request.out)
    if sampling is None:
        minutes, cpu_seconds = (time.monotonic() - started) / 60.0, time.process_time() - started_cpu
        best = best_model(
            documents,
            chosen.candidate,
            out=out,
            corpus=corpus,
            validation=request.validation,
            limits=SearchLimits(request.minutes, request.cpu_seconds).after(minutes, cpu_seconds),
            context=request.context,
        )
        same_part = request.held_out_share == LATER_SHARE
        return chosen._replace(
            candidate=best.candidate,
            search=best.report,
            tuning_model=best.tuning_model if same_part else None,
            temperature=best.temperature,
            outside_cost=best.outside_cost,
            rules=best.rules,
        )
    trials = TrialFile(out, search_of(corpus, sampling, settings))
    tracked_sample = partial(track, tracking, run_tags(job="train", **{PARENT: run.id}), sampling)
    settings, samples = choose(
        documents,
        sampling,
        settings,
        context=request.context,
        largest=request.largest_sample,
        trials=trials,
        progress=tracked_sample,
    )
    return chosen._replace(candidate=chosen.candidate._replace(settings=settings), samples=samples)


def _judge_layers(request: TrainJob, documents: Sequence[Document]) -> LayersChoice | None:
    """Ways to use the layers that are asked for, judged on held-out documents; None where none is.

    Documents by which ``--effort best`` measures have no part in it.
    """
    settings = request.settings
    reads_gold = trainer_named(request.trainer).gold
    if not reads_gold or not isinstance(settings, FeatureSettings) or not settings.layers:
        return None
    with meter("judging layers, by cross-validation", None) as bar:
        is_best = request.effort is TrainingEffort.BEST
        return choose_layers(
            divided(documents, LATER_SHARE, request.validation)[0] if is_best else documents,
            trainer_named(request.trainer).train,
            settings,
            validation=request.validation,
            progress=lambda trial: bar.advance(note=f"{trial.setting.name}: F1 {trial.value:.2%}"),
        )


def _layers_report(choice: LayersChoice) -> LayersReport:
    return LayersReport(
        documents=len(choice.best.counts),
        held_out_f1={trial.setting.name: trial.value for trial in choice.trials},
        base=choice.base.setting.name,
        gains={name: gain.with_interval for name, gain in choice.gains.items()},
        best=choice.best.setting.name,
        learned=choice.best.setting.settings is not None,
        names={layer: dict(names) for layer, names in choice.names.items() if names},
    )


def _taggers_report(manifest: Manifest) -> TaggersReport | None:
    """What a model's manifest says of taggers; None where its trainer says nothing."""
    if not set(TaggersReport.model_fields) <= manifest.training.keys():
        return None
    return TaggersReport(**{name: manifest.training[name] for name in TaggersReport.model_fields})


def _divided(request: TrainJob, documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Documents of which the model for tuning learns, and those that are held out, but for labels that the former lack.

    Raises `TrainingError`.
    """
    inside, held_out = divided(documents, request.held_out_share, request.validation)
    if not inside or not held_out:
        raise TrainingError(
            f"{request.corpus}: {len(documents)} documents are too few to hold out {request.held_out_share:.0%} of them"
            "; give more, or --no-consistency"
        )
    outside = without_new_labels(held_out, inside)
    if not outside:
        raise TrainingError(
            f"{request.corpus}: the {len(held_out):,} documents held out all have labels that no other has; give more "
            "documents, --validation random, or --no-consistency"
        )
    if len(outside) < len(held_out):
        count = f"{len(held_out) - len(outside):,} of {len(held_out):,} held-out documents"
        say(f"{count} have labels that no other has, and are left out of tuning")
    return inside, outside


def _untuned(choice: _ChosenSettings) -> _TunedParts:
    """What is known where nothing is held out: what the choice has learned, if it has."""
    return _TunedParts(
        choice.temperature or NOTHING_HELD_OUT.temperature, choice.outside_cost or NOTHING_HELD_OUT.outside_cost
    )


def _tune(
    request: TrainJob,
    choice: _ChosenSettings,
    inside: Sequence[Document],
    outside: Sequence[Document],
    counted: Sequence[PairCounts],
) -> _TunedParts:
    """Temperature, the outside cost at it, and label consistency beside both: its costs as ``counted`` on all
    documents, all else from those held out.

    Answers of a layer stay as they are, but where label consistency is better beyond chance, as all that is added to
    them. A model that learned under constraints keeps its scores.
    """
    with scratch_folder() as folder:
        model = choice.tuning_model
        if model is None:
            model = _fit(inside, request, choice.train, folder, "training without the held-out part")
        fit = choice.temperature or learn_temperature(outside, model, request.settings.learning)
        own, cost = tempered(model, fit.temperature), AS_THEY_ARE
        if choice.answers is None:
            cost = choice.outside_cost or learn_outside_cost(outside, own, request.settings.learning)
        own = costing(own, cost.cost)
        return _TunedParts(fit, cost, tune_consistency(outside, own, counted, beyond_chance=choice.answers is not None))


def _assumed(request: TrainJob, documents: Sequence[Document], model: Model, *, gold: bool) -> LabelConsistency | None:
    """Label consistency of a model that was learned without gold; None where it is not asked for, or there is gold."""
    if not request.consistency or gold:
        return None
    return assumed_consistency(documents, model)


def _fit(
    documents: Sequence[Document],
    request: TrainJob,
    train: Train,
    out: Path,
    title: str,
    losses: dict[int, float] | None = None,
) -> Model:
    """Trains a model, and adds the loss (nats) of each iteration, if the trainer has one, to ``losses``."""
    with meter(title, None) as bar:
        done = 0

        def show(iteration: Iteration) -> None:
            nonlocal done
            bar.expect(iteration.total)
            if losses is not None and iteration.loss is not None:
                losses[iteration.number] = iteration.loss
            loss = "" if iteration.loss is None else f", loss {iteration.loss:,.0f}"
            bar.advance(iteration.number - done, note=f"iterations{loss}")
            done = iteration.number

        return train(documents, settings=request.settings, out=out, progress=show)


def corpora_of(request: TrainJob) -> dict[str, str]:
    """Places of the corpora that a training reads, by purpose."""
    settings = request.settings
    given = {name: getattr(settings, name) for name in settings.corpora}
    return {"training": request.corpus} | {n: source_place(place) for n, place in given.items() if place is not None}


def _params(request: TrainJob) -> dict[str, object]:
    given = request.model_dump(mode="json", include={"corpus", "held_out_share", "validation", "trainer", "effort"})
    return given | request.settings.model_dump()


def _log_penalties(run: Run, request: TrainJob, out: Path, consistency: LabelConsistency | None) -> None:
    """Logs the costs of the label consistency, and of the constraints that were learned with the model."""
    sets: list[ConstraintSet] = [] if consistency is None else [consistency]
    learned = trainer_named(request.trainer).constraints or CONSTRAINTS_FILE
    if (out / learned).is_file():
        sets.append(load_constraints(out / learned))
    if sets:
        run.text(known_weights_text(sets), PENALTIES_FILE)


def _register(tracking: Tracking, run: Run, request: TrainJob) -> Registered | None:
    if request.register_as is None:
        return None
    return tracking.register(run, request.register_as, alias=request.alias)


def _report(
    request: TrainJob,
    manifest: Manifest,
    rejected: int,
    choice: _ChosenSettings,
    tuned: _TunedParts,
    run: Run,
    registered: Registered | None,
    *,
    columns: tuple[str, ...],
    seconds: float,
) -> TrainReport:
    return TrainReport(
        trainer=request.trainer,
        documents=int(manifest.figures["documents"]),
        tokens=int(manifest.figures["tokens"]),
        rejected=rejected,
        labels=len(manifest.labels),
        columns=columns,
        figures=manifest.figures,
        remarks=tuple(trainer_named(request.trainer).remarks(manifest.figures)),
        search=choice.search,
        samples=tuple(choice.samples),
        calibration=temperature_report(tuned.temperature),
        outside_cost=outside_cost_report(tuned.outside_cost),
        consistency=None if tuned.consistency is None else tuned.consistency.report,
        layers=None if choice.layers is None else _layers_report(choice.layers),
        taggers=None if trainer_named(request.trainer).gold else _taggers_report(manifest),
        seconds=round(seconds, 3),
        out=request.out,
        model_digest=load_model(Path(request.out)).digest,
        mlflow_run=run.id,
        mlflow_page=page_of_run(tracking_uri(request.context.tracking), run.id),
        registered=None if registered is None else f"models:/{registered.name}@{registered.alias}",
        rules=None if choice.rules is None else str(Path(request.out) / CONSTRAINTS_FILE),
    )
