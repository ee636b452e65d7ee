"""What label consistency gains on documents from which neither its scales nor the model beside it were learned.

The scales are tuned on one half of the documents and judged on the other, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from concord.schemas.document import Document
from concord.schemas.settings import Validation
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.learning.search.folds import rounds
from concord.workers.learning.weights.consistency_scales import entity_counts, tune_scales
from concord.workers.models.model import Model

NO_SCALES = Scales(0.0, 0.0, 0.0)


class HalvesF1(NamedTuple):
    """Entity F1 (a fraction) on documents that nothing was learned from: without label consistency, and with it."""

    f1_without: float
    f1: float


def held_out_f1(
    documents: Sequence[Document],
    fit: Callable[[Sequence[Document]], Model],
    count: Callable[[Sequence[Document], Model], Sequence[PairCounts]],
) -> HalvesF1:
    """F1 of label consistency by two halves of the documents.

    - ``fit``: makes the model of some documents.
    - ``count``: makes the pair counts, to choose from, of some documents.

    Raises `TrainingError` for fewer than two documents, and the errors of ``fit``.
    """
    without, with_it = [], []
    for training, test in rounds(documents, 2, Validation.RANDOM):
        first, other = [documents[i] for i in training], [documents[i] for i in test]
        model = fit(first)
        tuned, _ = tune_scales(first, model, count(first, model))
        without.append(entity_counts(other, model, LabelConsistency(tuned.counts, NO_SCALES)))
        with_it.append(entity_counts(other, model, tuned))
    return HalvesF1(
        *(float(f1_of_counts(sum(part.sum(axis=(0, 1)) for part in parts))) for parts in (without, with_it))
    )
