"""Fitting of an existing model to labelled documents: `concord calibrate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from concord.flows.apart import check_apart
from concord.flows.jobs import check_model_place, folder_place
from concord.flows.progress import meter
from concord.flows.run_context import HERE, RunContext
from concord.flows.sources import OpenModel, open_model, read_documents
from concord.flows.tuning import Tuned, pair_counts, tune_consistency
from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.folders import FolderKind
from concord.schemas.reports import CalibrationReport
from concord.workers.constraints.consistency import PairCounts
from concord.workers.corpus.plan import plan
from concord.workers.learning.trainers.calibration import Calibrated, calibrate
from concord.workers.learning.trainers.trainer import Seen
from concord.workers.models.folder import MANIFEST, parse_manifest, update_manifest
from concord.workers.models.model import Model, score_column
from concord.workers.models.saved_consistency import EXTRA, consistency_extra, saved_consistency
from concord.workers.models.scores import ScoresModel, save
from concord.workers.models.settings import CalibrationSettings
from concord.workers.storage.files import copy, staged


class _Made(NamedTuple):
    """A calibrated model.

    - ``model``: the new model.
    - ``learned``: its learned temperature and transitions; None for a model that is no `ScoresModel`.
    """

    model: Model
    learned: Calibrated | None


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

    A `ScoresModel` gets a temperature and transitions; every model gets scales of its label consistency, unless
    ``consistency`` is off. The counts of the label consistency are those saved with the model, or else those of these
    documents. Raises `TrainingError`, and the errors of reading model and corpus and of writing.
    """
    place = Path(folder_place(out))
    check_apart(place, [corpus, model], makes=FolderKind.MODEL)
    check_model_place(place)
    opened = open_model(model, context)
    documents, rejected = read_documents(plan(corpus, scores=score_column(opened.model)), gold=True)
    seen = _seen(documents, corpus)
    with staged(place) as folder:
        made = _fitted(opened, documents, seen, settings, folder)
        tuned = _tune(documents, made.model, opened.folder) if consistency else None
        manifest = parse_manifest(folder / MANIFEST)
        extras = {} if tuned is None else {EXTRA: consistency_extra(tuned.consistency)}
        figures = {} if tuned is None else tuned.figures
        manifest = update_manifest(folder, kind=manifest.kind, metrics=figures, extras=extras)
    return _report(made, tuned, seen, rejected, str(place))


def _seen(documents: Sequence[Document], corpus: str) -> Seen:
    """Counts of the documents. Raises `TrainingError` for a document without labels, and if there are no documents."""
    seen = Seen(())
    for document in documents:
        seen.gold(document)
    if not seen.tokens:
        raise TrainingError(f"{corpus}: there are no documents to calibrate on")
    return seen


def _fitted(
    opened: OpenModel, documents: Sequence[Document], seen: Seen, settings: CalibrationSettings, folder: Path
) -> _Made:
    if not isinstance(opened.model, ScoresModel):
        manifest = parse_manifest(opened.folder / MANIFEST)
        for name in (*manifest.files, MANIFEST):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy(opened.folder / name, folder / name)
        return _Made(opened.model, None)
    with meter("learning temperature and transitions", None):
        learned = calibrate(documents, opened.model, settings)
    training = seen.training("calibrate", settings) | {"loss_before": learned.before, "loss": learned.after}
    return _Made(save(folder, learned.source, learned.transition, settings=settings, training=training), learned)


def _tune(documents: Sequence[Document], model: Model, folder: Path) -> Tuned:
    saved = saved_consistency(folder)
    counted: Sequence[PairCounts] = [saved.counts] if saved is not None else pair_counts(documents, model.labels)
    return tune_consistency(documents, model, counted)


def _report(made: _Made, tuned: Tuned | None, seen: Seen, rejected: int, out: str) -> CalibrationReport:
    learned = made.learned
    return CalibrationReport(
        documents=seen.documents,
        tokens=seen.tokens,
        rejected=rejected,
        sentences_left_out=0 if learned is None else learned.left_out,
        temperature=None if learned is None else learned.source.temperature,
        loss_before=None if learned is None else learned.before,
        loss=None if learned is None else learned.after,
        consistency=None if tuned is None else tuned.report,
        out=out,
        model_digest=made.model.digest,
    )
