"""A linear-chain CRF by python-crfsuite: L-BFGS, with a quadratic prior or an L1 prior on weights."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite

from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.derived import needed_columns
from concord.workers.features.scorer import compile_weights
from concord.workers.features.templates import FeatureSet
from concord.workers.learning.trainers.fit import marks_of
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.learning.trainers.trainer import Iteration, Progress, TrainingCounts, labels_of
from concord.workers.models.crf import CrfModel, LearnedCrf, save
from concord.workers.models.crfsuite_file import ModelFileError, read_crfsuite
from concord.workers.models.end_marks import EndMarks
from concord.workers.models.folder import ModelError, begin
from concord.workers.models.settings import CrfSettings

NAME = "crfsuite"
CRFSUITE_FILE = "model.crfsuite"
"""CRFsuite's own file, kept beside the weights that were read from it."""


def train(
    documents: Iterable[Document], *, settings: CrfSettings, out: Path, progress: Progress | None = None
) -> CrfModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `FeatureSetError` for features that are not there."""
    given = list(documents)
    features = features_of(settings, given)
    optimiser, counts = _Optimiser(settings.max_iterations, progress), TrainingCounts(needed_columns(features))
    marks = marks_of(settings, labels_of(given))
    _append(optimiser, given, features, counts, marks)
    training = counts.training(NAME, settings)
    labels = counts.label_set()
    begin(out)
    _run(optimiser, settings, out / CRFSUITE_FILE)
    training |= {"iterations": optimiser.iterations, "loss": optimiser.loss}
    try:
        learned = _learned(out / CRFSUITE_FILE, features, labels, marks)
    except ModelFileError as error:  # CRFsuite does not check whether its file could be written
        raise ModelError(f"{out}: the model could not be written whole, is the disk full? ({error})") from error
    return save(
        out, learned, settings=settings, training=training, libraries=("python-crfsuite",), beside=(CRFSUITE_FILE,)
    )


class _Optimiser(pycrfsuite.Trainer):  # type: ignore[misc]
    """CRFsuite's trainer, which reports iterations to ``progress`` instead of printing them."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        super().__init__(verbose=True)
        self._total = total
        self._progress = progress
        self.iterations = 0
        self.loss = 0.0

    def _quiet(self, *_: Any) -> None:
        pass

    on_start = on_featgen_progress = on_featgen_end = on_prepared = on_prepare_error = _quiet
    on_optimization_end = on_end = _quiet

    def on_iteration(self, _log: str, info: dict[str, Any]) -> None:
        self.iterations, self.loss = info["num"], info["loss"]
        if self._progress is not None:
            self._progress(Iteration(self.iterations, self._total, self.loss))


def _append(
    optimiser: _Optimiser,
    documents: Iterable[Document],
    features: FeatureSet,
    counts: TrainingCounts,
    marks: EndMarks | None,
) -> None:
    """Feeds all sentences to the optimiser."""
    attributes = AttributeMaker(features)
    for document in documents:
        gold = counts.gold(document)
        if marks is not None:
            inner = marks.marked(marks.labels.encode(gold), document.sentence_starts)
            gold = [marks.names[i] for i in inner.tolist()]
        rows = attributes(document)
        for start, end in pairwise([*document.sentence_starts.tolist(), len(document)]):
            optimiser.append(pycrfsuite.ItemSequence(rows[start:end]), gold[start:end])


def _run(optimiser: _Optimiser, settings: CrfSettings, path: Path) -> None:
    optimiser.set_params(
        {
            "c1": settings.c1,
            "c2": settings.c2,
            "max_iterations": settings.max_iterations,
            "feature.minfreq": settings.min_freq,
            "feature.possible_transitions": settings.all_possible_transitions,
            "feature.possible_states": settings.all_possible_states,
        }
    )
    optimiser.train(str(path))


def _learned(path: Path, features: FeatureSet, labels: LabelSet, marks: EndMarks | None) -> LearnedCrf:
    """CRFsuite's weights, with labels in the order of the chain's."""
    raw = read_crfsuite(path)
    names = labels.names if marks is None else marks.names
    order = np.array([names.index(name) for name in raw.labels], np.int32)
    transition = np.zeros((len(names), len(names)))
    transition[np.ix_(order, order)] = raw.transition
    missing = np.ones(len(names), np.bool_)
    missing[order] = False
    weights = compile_weights(features, raw.attributes, raw.source, order[raw.target], raw.weight)
    return LearnedCrf(labels, features, weights, transition, missing, marks)
