"""A layer for made-up documents, as if a tagger had answered: for what learns from layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from concord.schemas.document import Column, Document
from concord.schemas.label_names import gold_label_set
from concord.schemas.layers import CANDIDATES_SUFFIX, NO_GRADE, candidate_values, layer_columns

MADE_LAYER = "tagger"
"""Layer of the made-up documents: gold labels, as a tagger's answers."""
MADE_SCORE = 0.9
"""Score of all its candidates."""


def with_layer(documents: Iterable[Document]) -> list[Document]:
    """The documents with their gold labels as a layer, too."""
    return [_with_layer(document) for document in documents]


def _with_layer(document: Document) -> Document:
    if document.labels is None:
        return document
    label, grade, _ = layer_columns(MADE_LAYER)
    names = document.labels.strings()
    labels = gold_label_set(set(names), plain=document.labels.plain)
    spans = labels.spans(labels.encode(names), document.sentence_starts)
    kinds = [labels.types[i] for i in spans.type.tolist()]
    marked = [(*place, MADE_SCORE) for place in zip(spans.start.tolist(), spans.end.tolist(), kinds, strict=True)]
    added = {
        label: document.labels,
        grade: Column(np.zeros(len(document), np.int32), (NO_GRADE,)),
        label + CANDIDATES_SUFFIX: Column.encode(candidate_values(len(document), marked)),
    }
    return replace(document, columns={**document.columns, **added})
