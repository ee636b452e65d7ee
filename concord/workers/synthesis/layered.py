"""A layer for made-up documents, as if a tagger had answered: for what learns from layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from concord.schemas.document import Column, Document
from concord.schemas.layers import NO_GRADE, layer_columns

MADE_LAYER = "tagger"
"""Layer of the made-up documents: gold labels, as a tagger's answers."""


def with_layer(documents: Iterable[Document]) -> list[Document]:
    """The documents with their gold labels as a layer, too."""
    return [_with_layer(document) for document in documents]


def _with_layer(document: Document) -> Document:
    if document.labels is None:
        return document
    label, grade, _ = layer_columns(MADE_LAYER)
    added = {label: document.labels, grade: Column(np.zeros(len(document), np.int32), (NO_GRADE,))}
    return replace(document, columns={**document.columns, **added})
