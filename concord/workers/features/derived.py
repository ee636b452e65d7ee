"""Derived token columns: computed from the other columns, with small vocabularies, and read like any column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import TOKENS, Batch, Column
from concord.schemas.errors import InputError
from concord.workers.features.copies import copied_labels
from concord.workers.features.gazetteers import GAZETTEER_COLUMNS, READINGS
from concord.workers.features.mentions import MENTION_COLUMNS, mention_columns
from concord.workers.features.templates import CASE, COPIED, EDGE, OPENING, PLACE, SIZE, TOPIC, FeatureSet

CASES = ("upper", "title", "mixed")
EDGES = ("inside", "first", "last", "only")
PLACES = tuple(str(i) for i in range(10))
SIZES = tuple(str(i) for i in range(13))


def sentence_case(batch: Batch) -> Column:
    """Capitalisation of each token's sentence.

    - ``upper``: no lower-case letter (headlines, sports tables).
    - ``title``: less than a third of the tokens start in lower case.
    - ``mixed``: all others.
    """
    words = batch.columns[TOKENS]
    count = len(words)
    if count == 0:
        return Column(np.zeros(0, np.int32), CASES)
    has_lower = _flags([w != w.upper() for w in words.values])[words.codes]
    starts_lower = _flags([w[:1].islower() for w in words.values])[words.codes]
    lengths = _sentence_lengths(batch)
    any_lower = np.add.reduceat(has_lower, batch.sentence_starts) > 0
    mixed = np.add.reduceat(starts_lower, batch.sentence_starts) * 3 >= lengths
    code = np.where(~any_lower, 0, np.where(mixed, 2, 1)).astype(np.int32)
    return Column(np.repeat(code, lengths), CASES)


def sentence_size(batch: Batch) -> Column:
    """The number of tokens of each token's sentence; 12 stands for 12 and more."""
    lengths = _sentence_lengths(batch)
    return Column(np.repeat(np.minimum(lengths, len(SIZES) - 1), lengths).astype(np.int32), SIZES)


def sentence_opening(batch: Batch) -> Column:
    """The first word of each token's sentence."""
    words = batch.columns[TOKENS]
    return Column(np.repeat(words.codes[batch.sentence_starts], _sentence_lengths(batch)), words.values)


def sentence_edge(batch: Batch) -> Column:
    """Place of each token in its sentence: first, last, both or neither."""
    code = np.zeros(batch.token_count, np.int32)
    code[batch.sentence_starts] += 1
    code[batch.sentence_bounds[1:] - 1] += 2
    return Column(code, EDGES)


def document_place(batch: Batch) -> Column:
    """The tenth of its document that each token is in."""
    lengths = np.diff(batch.doc_starts)
    within = np.arange(batch.token_count) - np.repeat(batch.doc_starts[:-1], lengths)
    return Column((within * 10 // np.repeat(lengths, lengths)).astype(np.int32), PLACES)


def document_topic(batch: Batch) -> Column:
    """The first word of each token's document, in lower case."""
    lengths = np.diff(batch.doc_starts)
    words = batch.columns[TOKENS]
    first = words.codes[batch.doc_starts[:-1][lengths > 0]].tolist()
    codes = np.repeat(np.arange(len(first), dtype=np.int32), lengths[lengths > 0])
    return Column(codes, [words.values[i].lower() for i in first])


def _sentence_lengths(batch: Batch) -> NDArray[np.int64]:
    return np.diff(batch.sentence_bounds)


def _flags(values: list[bool]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


DERIVED: dict[str, Callable[[Batch], Column]] = {
    CASE: sentence_case,
    SIZE: sentence_size,
    OPENING: sentence_opening,
    EDGE: sentence_edge,
    PLACE: document_place,
    TOPIC: document_topic,
}

MADE_COLUMNS = frozenset({*DERIVED, *MENTION_COLUMNS, *GAZETTEER_COLUMNS})
"""Columns that are computed from others; a corpus's own columns have other names."""


class ColumnError(InputError):
    """The corpus lacks a token column that the features read."""


def needed_columns(features: FeatureSet) -> tuple[str, ...]:
    """Columns that a corpus must have for these features, sorted; derived columns are computed and not among them."""
    columns = (*features.columns, *(features.pairs.columns if features.pairs else ()))
    read = {name.removeprefix(COPIED) for name in columns}
    return tuple(sorted({TOKENS, *read} - MADE_COLUMNS))


def feature_columns(batch: Batch, features: FeatureSet) -> dict[str, Column]:
    """All columns that the features of single labels read, in order of their names; derived ones are computed here.

    Raises `ColumnError` naming the columns there are.
    """
    made = mention_columns(batch, [name for name in features.columns if name in MENTION_COLUMNS])
    for reading in dict.fromkeys(GAZETTEER_COLUMNS[name] for name in features.columns if name in GAZETTEER_COLUMNS):
        made |= features.lists[READINGS[reading][0]].columns(batch, reading)
    return {name: made[name] if name in made else _column(batch, name) for name in features.columns}


def _column(batch: Batch, name: str) -> Column:
    if name in DERIVED:
        return DERIVED[name](batch)
    if name.startswith(COPIED):
        return copied_labels(batch, _column(batch, name.removeprefix(COPIED)))
    if name not in batch.columns:
        raise ColumnError(
            f"the features read the column {name!r}, the corpus has {', '.join(sorted(batch.columns))}; "
            "use a model trained without it or add it to the corpus"
        )
    return batch.columns[name]
