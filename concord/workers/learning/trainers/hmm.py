"""A hidden Markov model by counting, or by expectation maximisation: learned in no time, and from few documents.

Counts are smoothed as in `workers.learning.estimation.hmm_counts`. With unlabelled documents, expectation maximisation
goes on from there, see `workers.learning.estimation.expectation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.labels import LabelSet
from concord.workers.features.extractors import shape
from concord.workers.learning.estimation.chains import GoldChains
from concord.workers.learning.estimation.expectation import ExpectedWords, improved
from concord.workers.learning.estimation.hmm_counts import HmmCounts, counted, estimated
from concord.workers.learning.trainers.pool import unlabelled
from concord.workers.learning.trainers.trainer import Iteration, Progress, TrainingCounts
from concord.workers.models.folder import begin
from concord.workers.models.hmm import HmmModel, Tables, save
from concord.workers.models.settings import HmmSettings

NAME = "hmm"


class Read(NamedTuple):
    """Words of labelled and unlabelled documents by number, with the gold labels.

    - ``words``: the V distinct words.
    - ``shapes``: the distinct shapes.
    - ``shape_of`` (V,): number of each word's shape.
    - ``gold``: gold labels of the N labelled tokens.
    - ``word`` (N,): number of each labelled token's word.
    - ``unlabelled``: the unlabelled tokens.
    """

    words: list[str]
    shapes: list[str]
    shape_of: Ints
    gold: GoldChains
    word: Ints
    unlabelled: ExpectedWords


def train(
    documents: Iterable[Document], *, settings: HmmSettings, out: Path, progress: Progress | None = None
) -> HmmModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `CorpusError` where the unlabelled one is not a corpus."""
    corpus_counts, read_documents = TrainingCounts((TOKENS,)), []
    for document in documents:
        corpus_counts.gold(document)
        read_documents.append(document)
    others, rejected = ([], 0) if settings.pool is None else unlabelled(settings.pool)
    for document in others:
        corpus_counts.beside(document)
    training = corpus_counts.training(NAME, settings)
    labels = corpus_counts.label_set(settings.labels)
    begin(out)
    read = read_words(read_documents, others, labels)
    counts = counted(read.gold, read.word, len(read.words))
    if settings.pool is None:
        tables = estimated(counts, read.shape_of)
        report(progress, Iteration(1, 1))
    else:
        tables, figures = _maximised(counts, read, labels, settings, progress)
        training |= figures | {"unlabelled_rejected": rejected}
    return save(out, labels, read.words, read.shapes, tables, settings=settings, training=training)


def read_words(labelled: list[Document], others: list[Document], labels: LabelSet) -> Read:
    """Words, shapes and gold labels by number, of labelled documents and ``others``, which need no labels."""
    batch, beside = (Batch.of([_words_alone(document) for document in part]) for part in (labelled, others))
    assert batch.labels is not None
    strings = batch.columns[TOKENS].strings() + beside.columns[TOKENS].strings()
    words, place = np.unique(strings, return_inverse=True)
    shapes, kind = np.unique([shape(word) for word in words], return_inverse=True)
    gold = GoldChains(batch.sentence_bounds, labels.encode(batch.labels.strings()), len(labels))
    own, rest = np.split(place, [batch.token_count])
    return Read(words.tolist(), shapes.tolist(), kind, gold, own, ExpectedWords(beside.sentence_bounds, rest))


def _words_alone(document: Document) -> Document:
    return Document(document.doc_id, document.sentence_starts, {TOKENS: document.columns[TOKENS]}, document.labels)


def _maximised(
    counts: HmmCounts, read: Read, labels: LabelSet, settings: HmmSettings, progress: Progress | None
) -> tuple[Tables, dict[str, Any]]:
    """The model of the last iteration of expectation maximisation, and figures of the training."""
    losses = []
    for step in improved(counts, read.shape_of, read.unlabelled, labels, settings):
        losses.append(step.loss)
        report(progress, Iteration(len(losses), settings.iterations, step.loss))
    return step.tables, {
        "unlabelled_tokens": len(read.unlabelled.word),
        "iterations": len(losses),
        "first_loss": losses[0],
        "loss": losses[-1],
    }


def report(progress: Progress | None, iteration: Iteration) -> None:
    """Reports an iteration, if there is a ``progress`` to report to."""
    if progress is not None:
        progress(iteration)
