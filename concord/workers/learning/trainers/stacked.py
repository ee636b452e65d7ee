"""Two CRFs by stochastic gradient descent: the second reads the first one's answers elsewhere in the document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from concord.schemas.document import Batch, Document
from concord.workers.features.derived import needed_columns
from concord.workers.learning.estimation.sgd import passes_over
from concord.workers.learning.search.folds import fold_of
from concord.workers.learning.trainers import sgd
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.learning.trainers.trainer import Iteration, Progress, TrainingCounts
from concord.workers.models.crf import CrfModel
from concord.workers.models.folder import begin
from concord.workers.models.model import viterbi_labels
from concord.workers.models.settings import SgdSettings, StackedSettings
from concord.workers.models.two_stage_crf import FIRST_STAGE, SECOND_STAGE, TwoStageModel, answered, save
from concord.workers.storage.scratch import scratch_folder

NAME = "stacked"
ANSWER_SET = "answers"
"""Feature set of the second model, beside those of the first."""


def train(
    documents: Iterable[Document], *, settings: StackedSettings, out: Path, progress: Progress | None = None
) -> TwoStageModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `FeatureSetError` for features that are not there.

    The second model learns from answers to unseen documents: each fold is answered by a first model of the other folds
    (Krishnan & Manning 2006 §3.3). On documents it has seen, a first model is right too often.
    """
    given = list(documents)
    columns = needed_columns(features_of(settings, given))
    corpus_counts, read_documents = TrainingCounts(columns), list[Document]()
    for document in given:
        corpus_counts.gold(document)
        read_documents.append(replace(document, columns={name: document.columns[name] for name in columns}))
    training = corpus_counts.training(NAME, settings)
    folds = fold_of(read_documents, max(2, min(settings.folds, len(read_documents))))
    passes = settings.passes or passes_over(sum(map(len, read_documents)))
    fits = _Fits(settings, passes, max(folds) + 3, progress)
    begin(out)
    again = fits.answered(read_documents, folds)
    first = fits.fit(read_documents, out / FIRST_STAGE, settings.features)
    second = fits.fit(again, out / SECOND_STAGE, f"{settings.features}+{ANSWER_SET}")
    return save(out, (first, second), settings=settings, training=training)


class _Fits:
    """Trainings of ``count`` single models; their iterations are reported as those of one training."""

    def __init__(self, settings: StackedSettings, passes: int, count: int, progress: Progress | None) -> None:
        self._settings = SgdSettings(**settings.model_dump(exclude={"folds"}) | {"passes": passes})
        self._progress = progress
        self._passes = passes
        self._total = passes * count
        self._done = 0

    def fit(self, documents: list[Document], out: Path, features: str) -> CrfModel:
        """Trains one model and saves it as a folder."""
        settings = self._settings.model_copy(update={"features": features})
        model = sgd.train(documents, settings=settings, out=out, progress=self._report)
        self._done += self._passes
        return model

    def _report(self, iteration: Iteration) -> None:
        if self._progress is not None:
            self._progress(Iteration(self._done + iteration.number, self._total, iteration.loss))

    def answered(self, documents: list[Document], folds: list[int]) -> list[Document]:
        """The documents with columns of answers, each by a model of the other folds."""
        found = list(documents)
        for mine in range(max(folds) + 1):
            inside = [document for document, fold in zip(documents, folds, strict=True) if fold != mine]
            outside = [i for i, fold in enumerate(folds) if fold == mine]
            with scratch_folder() as folder:
                model = self.fit(inside, folder / FIRST_STAGE, self._settings.features)
                batch = Batch.of([documents[i] for i in outside])
                batch = answered(batch, model.labels, viterbi_labels(model, batch))
            for i, document in zip(outside, batch, strict=True):
                found[i] = document
        return found
