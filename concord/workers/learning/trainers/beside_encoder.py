"""A CRF beside a frozen encoder, for trainers whose settings have `EncoderSettings`.

The head learns from the same documents as the CRF, and its share in the scores is chosen by entity F1 on the last
documents, which neither has seen, by a CRF and a head of the others. A share of 0 is among those that are tried, so
that an encoder that does not help is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.potentials import Potentials
from concord.schemas.settings import Validation
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.templates import STATE_CLUSTERS
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.estimation.softmax import HeadWords, fit_head
from concord.workers.learning.estimation.states_clustering import fit_state_clusters
from concord.workers.learning.search.folds import LATER_SHARE, held_out
from concord.workers.learning.search.trials import Trial, best_of
from concord.workers.learning.trainers.entity_counts import entity_counts
from concord.workers.learning.trainers.fit_stages import fit_stages
from concord.workers.learning.trainers.trainer import Iteration, Progress, Train, gold_of, labels_of
from concord.workers.models.crf import CrfModel
from concord.workers.models.encoded import CRF_FOLDER, Head, save
from concord.workers.models.encoder import Encoder, WordContext, WordStates
from concord.workers.models.folder import begin
from concord.workers.models.model import Model
from concord.workers.models.named_encoder import encoder_named
from concord.workers.models.settings import EncoderSettings
from concord.workers.models.state_clusters import StateClusters
from concord.workers.storage.scratch import scratch_folder

SHARES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Shares that are tried, in order: of equals the first is taken."""


class WithStates(NamedTuple):
    """Documents as a batch, and the states of their words."""

    documents: Sequence[Document]
    batch: Batch
    states: WordStates

    @classmethod
    def of(cls, documents: Sequence[Document], encoder: Encoder) -> WithStates:
        """The states of documents."""
        batch = Batch.of([_words_alone(document) for document in documents])
        return cls(documents, batch, encoder.states(batch))

    def in_clusters(self, clusters: StateClusters) -> WithStates:
        """The same, with columns of the clusters of states beside those of the documents."""
        columns = clusters.columns(clusters.of(self.states))
        documents = [
            replace(document, columns={**document.columns, **{name: own[a:b] for name, own in columns.items()}})
            for document, (a, b) in zip(self.documents, pairwise(self.batch.doc_starts.tolist()), strict=True)
        ]
        return self._replace(documents=documents)

    def part(self, chosen: Sequence[bool]) -> WithStates:
        """Some of the documents."""
        documents = [document for document, own in zip(self.documents, chosen, strict=True) if own]
        token = np.repeat(np.array(chosen, np.bool_), np.diff(self.batch.doc_starts))
        return WithStates(documents, Batch.of([_words_alone(document) for document in documents]), self.states[token])


def beside_encoder(train: Train) -> Train:
    """The trainer; where its settings name an encoder, its model is put beside that."""

    @wraps(train)
    def trained(
        documents: Iterable[Document], *, settings: EncoderSettings, out: Path, progress: Progress | None = None
    ) -> Model:
        if settings.encoder is None:
            return train(documents, settings=settings, out=out, progress=progress)
        return _train(train, list(documents), settings, out, progress)

    return trained


def _train(
    train: Train, documents: list[Document], settings: EncoderSettings, out: Path, progress: Progress | None
) -> Model:
    plain = settings.model_copy(update={"encoder": None, "share": None, "state_clusters": ()})
    encoder = encoder_named(str(settings.encoder))
    begin(out)
    words = WithStates.of(documents, encoder)
    count = (2 if settings.share is not None else 4) + bool(settings.state_clusters)
    stages = fit_stages(progress, count, loss_of=count - 2)
    clusters = None
    if settings.state_clusters:
        clusters = _clusters(words, settings, next(stages))
        words = words.in_clusters(clusters)
        part = STATE_CLUSTERS + ",".join(map(str, settings.state_clusters))
        plain = plain.model_copy(update={"features": f"{plain.features}+{part}"})
    trials = () if settings.share is not None else _tried(train, words, plain, settings, stages)
    share = settings.share if settings.share is not None else best_of(trials).setting
    inner = _crf(train(words.documents, settings=plain, out=out / CRF_FOLDER, progress=next(stages)))
    head = _head(words, inner, settings, next(stages))
    training = {**inner.manifest.training, "encoder": encoder.digest, "share": share, **_figures(trials)}
    return save(out, inner, encoder, head, share=share, clusters=clusters, settings=settings, training=training)


def _clusters(words: WithStates, settings: EncoderSettings, progress: Progress) -> StateClusters:
    def clustered(number: int) -> None:
        progress(Iteration(number, len(settings.state_clusters)))

    return fit_state_clusters(words.states, settings.state_clusters, clustered)


def _figures(trials: Sequence[Trial[float]]) -> dict[str, float]:
    """F1 on held-out documents with the chosen share, and without the encoder; nothing without trials."""
    alone = [trial.value for trial in trials if trial.setting == 0.0]
    return {"held_out_f1": best_of(trials).value, "held_out_f1_without_encoder": alone[0]} if trials else {}


def _crf(model: Model) -> CrfModel:
    assert isinstance(model, CrfModel), "trainers with an encoder make CRFs"
    return model


def _tried(
    train: Train, words: WithStates, plain: EncoderSettings, settings: EncoderSettings, stages: Iterator[Progress]
) -> list[Trial[float]]:
    """Each share on documents that were held out. Raises `TrainingError` where there are too few documents."""
    outside = held_out(words.documents, LATER_SHARE, Validation.LATER)
    inside = [not out for out in outside]
    if not any(outside) or not any(inside):
        raise TrainingError(f"{len(outside)} documents are too few to choose the encoder's share; give --set share=0.4")
    training, judged = words.part(inside), words.part(outside)
    with scratch_folder() as folder:
        inner = _crf(train(training.documents, settings=plain, out=folder / CRF_FOLDER, progress=next(stages)))
        head = _head(training, inner, settings, next(stages))
        batch = Batch.of(judged.documents)
        of_head = head.log_probabilities(head.parts(judged.states), WordContext.of(batch))
        local = inner.potentials(batch)
    # The documents that the CRF learned from may lack a label that others have.
    labels = labels_of(words.documents)

    def counted(share: float) -> Counts:
        scores = Potentials(local.unary + share * of_head, local.transition, local.sentence_starts)
        return entity_counts(judged.documents, labels, inner.labels.names, viterbi(scores.legal(inner.labels)))

    return [Trial(share, counted(share), f1_of_counts) for share in SHARES]


def _head(words: WithStates, inner: CrfModel, settings: EncoderSettings, progress: Progress) -> Head:
    """A head that learns from gold labels, those of the CRF's label set."""
    gold = inner.labels.encode(_gold(words.documents))
    context = HeadWords(words.states, WordContext.of(words.batch), gold, len(inner.labels))

    def passed(number: int, _: float) -> None:
        progress(Iteration(number, settings.head_iterations))

    return fit_head(context, c2=settings.head_c2, iterations=settings.head_iterations, progress=passed)


def _gold(documents: Iterable[Document]) -> list[str]:
    """Gold labels of all words of documents."""
    return [name for document in documents for name in gold_of(document)]


def _words_alone(document: Document) -> Document:
    return replace(document, columns={TOKENS: document.columns[TOKENS]}, labels=None)
