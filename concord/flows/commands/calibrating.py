"""Fitting of an existing model to labelled documents: `concord calibrate`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from concord.flows.inputs.jobs import check_model_place, folder_place
from concord.flows.inputs.output_places import check_output_place
from concord.flows.labelling.documents import check_labels, read_documents, shards_for
from concord.flows.labelling.sources import OpenModel, open_model
from concord.flows.screen.progress import meter
from concord.flows.training.tuning import (
    Tuned,
    learn_temperature,
    pair_counts,
    temperature_figures,
    temperature_report,
    tune_consistency,
)
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError, UsageError
from concord.schemas.folders import FolderKind
from concord.schemas.reports import CalibrationReport
from concord.schemas.run_context import HERE, RunContext
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.learning.search.trials import Trial
from concord.workers.learning.trainers.calibration import Calibrated, calibrate
from concord.workers.learning.trainers.calibration_choice import (
    AS_IMPORTED,
    FitChoice,
    choose_fit,
    learned_model,
)
from concord.workers.learning.trainers.temperature import TemperatureFit, fit_temperature
from concord.workers.learning.trainers.trainer import TrainingCounts
from concord.workers.learning.weights.consistency_check import HalvesF1, held_out_f1
from concord.workers.models.folder import CONSTRAINTS_FILE, MANIFEST, parse_manifest, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model, temperature_of, tempered
from concord.workers.models.onnx import OnnxModel
from concord.workers.models.onnx import save as save_onnx
from concord.workers.models.saved_consistency import EXTRA, consistency_extra, saved_consistency
from concord.workers.models.scores import ScoresModel, save
from concord.workers.models.settings import CalibrationSettings, Fit
from concord.workers.storage.files import copy, staged, write_whole

WEIGHT = re.compile("^(    weight: )([0-9.e+-]+)$", re.MULTILINE)
"""Line of a soft rule's weight in a file that concord has written."""


class _Made(NamedTuple):
    """A calibrated model.

    - ``model``: the new model.
    - ``learned``: its learned temperature and transitions; None for a model that is no `ScoresModel`.
    - ``choice``: figures of the ways to learn them; None where none was judged.
    - ``temperature``: the temperature of a model that is no `ScoresModel`; None for one that is.
    - ``held_out``: F1 of label consistency on documents that nothing was learned from; None where it was not judged.
    """

    model: Model
    learned: Calibrated | None
    choice: FitChoice | None = None
    temperature: TemperatureFit | None = None
    held_out: HalvesF1 | None = None


def calibrate_model(
    model: str,
    corpus: str,
    out: str,
    *,
    settings: CalibrationSettings,
    consistency: bool,
    context: RunContext = HERE,
) -> CalibrationReport:
    """Fits a model to the labelled documents of a corpus, and writes it into the folder ``out``.

    A `ScoresModel` gets those of temperature and transitions that cross-validation chooses, another model a
    temperature. Every model gets scales of its label consistency; with ``consistency`` off, those that it has keep what
    they cost beside its scores. The counts of the label consistency are those saved with the model, or else those of
    these documents. Raises `TrainingError`, `UsageError` for a fit that the model cannot have, and the errors of
    reading model and corpus and of writing.
    """
    place = Path(folder_place(out))
    check_output_place(place, [corpus, model], makes=FolderKind.MODEL)
    check_model_place(place)
    opened = open_model(model, context)
    _check_fit(settings, opened.model, model)
    documents, rejected = read_documents(shards_for(corpus, opened.model, model), gold=True)
    check_labels(documents, opened.model, corpus)
    seen = _seen(documents, corpus)
    documents = _with_scores(documents, opened.model)
    with staged(place) as folder:
        made = _fitted(opened, documents, seen, settings, folder, consistency=consistency)
        tuned = _tune(documents, _of_scores(made.model), opened.folder) if consistency else None
        kept = _at_new_scores(opened, made) if tuned is None else tuned.consistency
        manifest = parse_manifest(folder / MANIFEST)
        extras = {} if kept is None else {EXTRA: consistency_extra(kept)}
        figures = ({} if tuned is None else tuned.figures) | _held_out_figures(made)
        temperature = None if made.temperature is None else made.temperature.temperature
        files = [CONSTRAINTS_FILE] if CONSTRAINTS_FILE in manifest.files else []
        update_manifest(
            folder, kind=manifest.kind, metrics=figures, extras=extras, files=files, temperature=temperature
        )
    return _report(made, tuned, seen, rejected, str(place), load_model(place).digest)


def _check_fit(settings: CalibrationSettings, model: Model, source: str) -> None:
    """Raises `UsageError` for transitions of a model that has none to fit."""
    if settings.fit in ("both", "transitions") and not isinstance(_of_scores(model), ScoresModel):
        raise UsageError(
            f"--fit {settings.fit}: transitions are fitted to another tagger's scores, and {source} has its own; give "
            "--fit temperature, or neither"
        )


def _seen(documents: Sequence[Document], corpus: str) -> TrainingCounts:
    """Counts of the documents. Raises `TrainingError` for a document without labels, and if there are no documents."""
    seen = TrainingCounts(())
    for document in documents:
        seen.gold(document)
    if not seen.tokens:
        raise TrainingError(f"{corpus}: there are no documents to calibrate on")
    return seen


def _fitted(
    opened: OpenModel,
    documents: Sequence[Document],
    seen: TrainingCounts,
    settings: CalibrationSettings,
    folder: Path,
    *,
    consistency: bool,
) -> _Made:
    model = _of_scores(opened.model)
    if not isinstance(model, ScoresModel):
        manifest = parse_manifest(opened.folder / MANIFEST)
        for name in (*manifest.files, MANIFEST):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy(opened.folder / name, folder / name)
        fit = learn_temperature(documents, model) if settings.fits_temperature else None
        share = 1.0 if fit is None else fit.temperature / temperature_of(model)
        if share != 1.0 and CONSTRAINTS_FILE in manifest.files:
            _divide_weights(folder / CONSTRAINTS_FILE, share)
        held_out = _judged(documents, opened, settings) if consistency else None
        model = model if fit is None else tempered(model, fit.temperature)
        return _Made(model, None, temperature=fit, held_out=held_out)
    choice = None if len(documents) < 2 and settings.fit != "auto" else _choice(documents, model, settings)
    chosen = settings if choice is None else settings.model_copy(update={"fit": choice.fit})
    held_out = _judged(documents, opened, chosen) if consistency else None
    if settings.fit == "auto" and held_out is not None and chosen.fit != AS_IMPORTED:
        plain = chosen.model_copy(update={"fit": AS_IMPORTED})
        imported = _judged(documents, opened, plain)
        if imported is not None and imported.f1 > held_out.f1:
            chosen, held_out = plain, imported
    with meter("learning temperature and transitions", None):
        learned = calibrate(documents, model, chosen)
    training = seen.training("calibrate", chosen) | {"loss_before": learned.before, "loss": learned.after}
    made = _saved(opened.model, learned, folder, chosen, training)
    return _Made(made, learned, None if choice is None else choice._replace(fit=chosen.fit), held_out=held_out)


def _divide_weights(rules: Path, share: float) -> None:
    """Divides the weights in a model's file of rules, as its scores were, so that answers stay."""
    text = WEIGHT.sub(lambda found: f"{found[1]}{float(found[2]) / share:.6g}", rules.read_text("utf-8"))
    write_whole(rules, text.encode())


def _of_scores(model: Model) -> Model:
    """The model of scores inside a network in ONNX, or the model as it is."""
    return model.head if isinstance(model, OnnxModel) else model


def _with_scores(documents: Sequence[Document], model: Model) -> list[Document]:
    """The documents with the scores of a network in ONNX, each computed once, or as they are."""
    if not isinstance(model, OnnxModel):
        return list(documents)
    with meter("scoring", len(documents)) as bar:
        found = []
        for document in documents:
            found.append(replace(document, scores=model.log_probabilities(Batch.of([document]))))
            bar.advance(1, note="documents")
    return found


def _saved(
    model: Model, learned: Calibrated, folder: Path, settings: CalibrationSettings, training: Mapping[str, Any]
) -> Model:
    source, transition = learned.source, learned.transition
    if not isinstance(model, OnnxModel):
        return save(folder, source, transition, settings=settings, training=training)
    files = model.network.tobytes(), model.tokenizer_file.tobytes()
    return save_onnx(folder, *files, source, model.reading, transition=transition, settings=settings, training=training)


def _choice(documents: Sequence[Document], model: ScoresModel, settings: CalibrationSettings) -> FitChoice:
    with meter("judging what is learned, by cross-validation", None) as bar:

        def tell(trial: Trial[Fit]) -> None:
            bar.advance(note=f"{trial.setting}: F1 {trial.value:.2%}")

        return choose_fit(documents, model, settings, tell)


def _judged(documents: Sequence[Document], opened: OpenModel, settings: CalibrationSettings) -> HalvesF1 | None:
    """F1 of label consistency beside the model on held-out halves; None for fewer than two documents."""
    if len(documents) < 2:
        return None
    model, saved = _of_scores(opened.model), saved_consistency(opened.folder)

    def fit(part: Sequence[Document]) -> Model:
        if isinstance(model, ScoresModel):
            return learned_model(part, model, settings)
        return tempered(model, fit_temperature(part, model).temperature) if settings.fits_temperature else model

    def count(part: Sequence[Document], beside: Model) -> Sequence[PairCounts]:
        return [saved.counts] if saved is not None else pair_counts(part, beside.labels)

    with meter("judging label consistency on held-out documents", None):
        return held_out_f1(documents, fit, count)


def _held_out_figures(made: _Made) -> dict[str, float]:
    """Figures for the manifest."""
    figures = {f"cross_validated/{trial.setting}": trial.value for trial in made.choice.trials} if made.choice else {}
    figures |= {"cross_validated/tagger": made.choice.tagger} if made.choice else {}
    figures |= {} if made.temperature is None else temperature_figures(temperature_report(made.temperature))
    if made.held_out is not None:
        figures |= {"halves/f1_without_consistency": made.held_out.f1_without, "halves/f1": made.held_out.f1}
    return figures


def _at_new_scores(opened: OpenModel, made: _Made) -> LabelConsistency | None:
    """Label consistency of the model as it was, its scales divided as the scores were: answers stay."""
    saved = saved_consistency(opened.folder)
    if saved is None or made.temperature is None:
        return None
    return replace(saved, scales=saved.scales.at(made.temperature.temperature / temperature_of(opened.model)))


def _tune(documents: Sequence[Document], model: Model, folder: Path) -> Tuned:
    saved = saved_consistency(folder)
    counted: Sequence[PairCounts] = [saved.counts] if saved is not None else pair_counts(documents, model.labels)
    return tune_consistency(documents, model, counted)


def _report(
    made: _Made, tuned: Tuned | None, seen: TrainingCounts, rejected: int, out: str, digest: str
) -> CalibrationReport:
    learned = made.learned
    calibration = None if made.temperature is None else temperature_report(made.temperature)
    return CalibrationReport(
        documents=seen.documents,
        tokens=seen.tokens,
        rejected=rejected,
        fit=None if learned is None or made.choice is None else made.choice.fit,
        tagger_f1=None if made.choice is None else made.choice.tagger,
        held_out_f1={} if made.choice is None else {trial.setting: trial.value for trial in made.choice.trials},
        consistency_f1=None if made.held_out is None else made.held_out.f1,
        sentences_left_out=0 if learned is None else learned.left_out,
        temperature=None if learned is None else learned.source.temperature,
        calibration=calibration,
        loss_before=None if learned is None else learned.before,
        loss=None if learned is None else learned.after,
        consistency=None if tuned is None else tuned.report,
        out=out,
        model_digest=digest,
    )
