"""Gold labels of a batch in one scheme: IOB1, BIOES and BILOU as BIO, document by document."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Column
from concord.schemas.label_names import has_prefix
from concord.schemas.labels import OUTSIDE, bio_label

FOREIGN, OUT, BEGIN, INSIDE, END, SINGLE = -1, 0, 1, 2, 3, 4
KINDS = {"B": BEGIN, "I": INSIDE, "E": END, "L": END, "S": SINGLE, "U": SINGLE}


WAYS: tuple[Callable[[str], str], ...] = (str, bio_label, lambda name: f"B-{name[2:]}")
"""Names that a label can become: its own, BIO's, and that of a span's first token."""


class GoldColumn(NamedTuple):
    """Gold labels of a batch.

    - ``column`` (N,): the labels, in BIO wherever a document has labels of spans alone.
    - ``faults``: reason by document, for labels that contradict their neighbours.
    """

    column: Column
    faults: dict[int, str]


def in_bio(column: Column, doc_starts: NDArray[np.int64], sentence_starts: NDArray[np.int64]) -> GoldColumn:
    """The gold labels (N,) of a batch as BIO, see `workers.corpus.readers.lines` for files of columns.

    Each document is judged by itself, so that the answer does not depend on what else is in the batch. One that has a
    label without a prefix keeps its labels as they are: it is plain, or refused where its labels are used
    (`schemas.label_names`). ``I-T`` that continues nothing becomes ``B-T``, as IOB1 means it.
    """
    if column.plain or not len(column):
        return GoldColumn(column, {})
    used = np.unique(column.codes).tolist()
    kind_of, type_of = np.full(len(column.values), FOREIGN, np.int8), np.full(len(column.values), -1, np.int32)
    types: dict[str, int] = {}
    for code in used:
        name = column.values[code]
        if name == OUTSIDE:
            kind_of[code] = OUT
        elif has_prefix(name):
            kind_of[code], type_of[code] = KINDS[name[0]], types.setdefault(name[2:], len(types))
    kind, type_ = kind_of[column.codes], type_of[column.codes]
    owner = np.repeat(np.arange(len(doc_starts) - 1), np.diff(doc_starts))
    readable = np.ones(len(doc_starts) - 1, np.bool_)
    readable[owner[kind == FOREIGN]] = False
    first = np.zeros(len(column), np.bool_)
    first[sentence_starts] = True
    before_kind, before_type = np.roll(kind, 1), np.roll(type_, 1)
    before_kind[first], before_type[first] = OUT, -1
    faults = _faults(column, (kind, type_), (before_kind, before_type), (owner, readable), first, doc_starts)
    opens = (kind == INSIDE) & (before_type != type_)
    changed = (opens | (kind == END) | (kind == SINGLE)) & readable[owner]
    if not changed.any() and len(used) == len(column.values):
        return GoldColumn(column, faults)
    return GoldColumn(_rewritten(column, opens, changed), faults)


def _faults(
    column: Column,
    here: tuple[NDArray[np.int8], NDArray[np.int32]],
    before: tuple[NDArray[np.int8], NDArray[np.int32]],
    documents: tuple[NDArray[np.int64], NDArray[np.bool_]],
    first: NDArray[np.bool_],
    doc_starts: NDArray[np.int64],
) -> dict[int, str]:
    """Reason by document that marks ends of spans, where a label contradicts its neighbours: see `broken_span`."""
    (kind, type_), (before_kind, before_type), (owner, readable) = here, before, documents
    marks = np.zeros(len(readable), np.bool_)
    marks[owner[(kind == END) | (kind == SINGLE)]] = True
    is_open, goes_on = np.isin(before_kind, (BEGIN, INSIDE)), np.isin(kind, (INSIDE, END))
    broken = (is_open != goes_on) | (is_open & goes_on & (before_type != type_))
    broken |= np.roll(first, -1) & np.isin(kind, (BEGIN, INSIDE))
    broken &= (marks & readable)[owner]
    faults: dict[int, str] = {}
    for token in np.flatnonzero(broken).tolist():
        place = int(owner[token])
        faults.setdefault(
            place,
            f"gold label {column.values[column.codes[token]]!r} of token {token - doc_starts[place]} does not go with "
            "the labels beside it in BIOES or BILOU; mend it, or write BIO",
        )
    return faults


def _rewritten(column: Column, opens: NDArray[np.bool_], changed: NDArray[np.bool_]) -> Column:
    """The column with BIO's names at the ``changed`` tokens, of which some open a span; unused names are dropped."""
    width = len(column.values)
    way = np.where(changed, np.where(opens, 2, 1), 0)
    pairs, codes = np.unique(way * width + column.codes, return_inverse=True)
    values: dict[str, int] = {}
    table = [
        values.setdefault(WAYS[pair // width](column.values[pair % width]), len(values)) for pair in pairs.tolist()
    ]
    return Column(np.array(table, np.int32)[codes], tuple(values))
