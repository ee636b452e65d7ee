"""Entities that an answer has right, by document: what choices of trainers are judged by."""

from __future__ import annotations

from collections.abc import Sequence

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.models.model import Model, viterbi_labels


def entity_counts(documents: Sequence[Document], labels: LabelSet, names: Sequence[str], answer: Labels) -> Counts:
    """(D, 3) gold, predicted and correct entities of each document.

    - ``labels``: label set of the gold labels.
    - ``names``: labels that the answer's ids stand for; these may be fewer than the gold labels'.
    - ``answer`` (N,): ids of the labels of all tokens.
    """
    batch = Batch.of(documents)
    assert batch.labels is not None
    gold, own = labels.encode(batch.labels.strings()), labels.encode(list(names))
    counts: Counts = spans(Pair(batch, labels, gold, own[answer])).by_document().sum(axis=1)
    return counts


def viterbi_counts(model: Model, documents: Sequence[Document], labels: LabelSet) -> Counts:
    """(D, 3) counts of the model's Viterbi labels, see `entity_counts`."""
    return entity_counts(documents, labels, model.labels.names, viterbi_labels(model, Batch.of(documents)))
