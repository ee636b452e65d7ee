"""Documents made of fields, each a label and a text; shared by the readers of citations and of addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.document import TOKENS, Column, Document, TokenizedText
from concord.workers.corpus.readers.reader import BadLineError


class Field(NamedTuple):
    """A label, and the text that has it."""

    label: str
    text: str


def document_of_fields(doc_id: str, fields: Sequence[Field], token: re.Pattern[str], *, gold: bool) -> Document:
    """Document of one sentence from fields; its text is the fields joined by a blank.

    Its tokens are the matches of ``token`` in the fields. Raises `BadLineError` where there are none.
    """
    words: list[str] = []
    labels: list[str] = []
    places: list[tuple[int, int]] = []
    shift = 0
    for field in fields:
        for found in token.finditer(field.text):
            words.append(found[0])
            labels.append(field.label)
            places.append((shift + found.start(), shift + found.end()))
        shift += len(field.text) + 1
    if not words:
        raise BadLineError("document has no tokens")
    bounds = np.array(places, np.int32)
    return Document(
        doc_id,
        np.zeros(1, np.int64),
        {TOKENS: Column.encode(words)},
        Column.encode(labels) if gold else None,
        TokenizedText(
            " ".join(field.text for field in fields),
            np.ascontiguousarray(bounds[:, 0]),
            np.ascontiguousarray(bounds[:, 1]),
        ),
    )
