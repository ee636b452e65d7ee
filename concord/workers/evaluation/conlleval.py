"""Entity precision, recall and F1 as the CoNLL shared tasks count them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels, LabelSet, Spans
from concord.workers.evaluation.named_counts import MatchCounts


def are_in(spans: Spans, others: Spans) -> NDArray[np.bool_]:
    """(M,) which of ``spans`` are in ``others`` with the same start, end and type."""
    place = np.searchsorted(others.start, spans.start)
    hit = place < len(others)
    at = place[hit]
    hit[hit] = (
        (others.start[at] == spans.start[hit])
        & (others.end[at] == spans.end[hit])
        & (others.type[at] == spans.type[hit])
    )
    return hit


def check_lengths(*labellings: Labels) -> None:
    """Raises `ValueError` unless all labellings have one length."""
    lengths = [len(labels) for labels in labellings]
    if len(set(lengths)) > 1:
        raise ValueError(f"labellings of one batch differ in length: {lengths} tokens")


@dataclass(frozen=True, eq=False)
class EntityCounts(MatchCounts):
    """Entities by type, counted as conlleval does (Tjong Kim Sang & De Meulder 2003).

    An entity is correct when start, end and type are all right. In BIO labels an ``I-T`` that
    continues nothing opens an entity; in a plain label set an entity is a maximal run of a label.
    """

    @classmethod
    def of(cls, gold: Labels, predicted: Labels, labels: LabelSet, sentence_starts: NDArray[np.int64]) -> EntityCounts:
        """Counts of one document or a whole batch; both labellings are ids (N,) of ``labels``."""
        check_lengths(gold, predicted)
        right = labels.spans(gold, sentence_starts)
        predictions = labels.spans(predicted, sentence_starts)
        size = len(labels.types)
        correct = right.type[are_in(right, predictions)]
        return cls.of_columns(
            labels.types, [np.bincount(kind, minlength=size) for kind in (right.type, predictions.type, correct)]
        )
