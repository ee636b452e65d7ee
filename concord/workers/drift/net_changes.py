"""What several runs changed together: of each document what it was before all of them, and what it is after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from concord.schemas.changes import ChangeKind
from concord.schemas.columns import DOC_ID, LABELS
from concord.schemas.feed import (
    CHANGE_KIND,
    CHANGES_SCHEMA,
    ENTITY_SPANS,
    ENTITY_SPANS_BEFORE,
    LABELS_BEFORE,
    SINCE,
    TEXT_DIGEST,
    TEXT_DIGEST_BEFORE,
    WHY,
)
from concord.workers.drift.changes import LABELS_DIGEST, PLACES_DIGEST, kinds, label_digests, place_digests

OF_BEFORE = (LABELS_BEFORE, ENTITY_SPANS_BEFORE, TEXT_DIGEST_BEFORE)
"""Columns that the first change of a document has the value of."""


def net_changes(table: pa.Table, since: int) -> pa.Table:
    """Net changes since a run: one row a document, sorted by id.

    ``table`` has the rows of the feed, those of earlier runs first.
    """
    rows = dict[str, list[int]]()
    for row, doc_id in enumerate(table[DOC_ID].to_pylist()):
        rows.setdefault(doc_id, []).append(row)
    own = [rows[doc_id] for doc_id in sorted(rows)]
    first, last = (table.take(pa.array([of[end] for of in own], pa.int64())) for end in (0, -1))
    what = _what(first, last)
    reasons = table[WHY].to_pylist()
    columns = {name: last[name] for name in CHANGES_SCHEMA.names}
    columns |= {name: first[name] for name in OF_BEFORE}
    columns |= {
        SINCE: pa.array([since] * len(own), pa.int64()),
        CHANGE_KIND: pa.array(what, pa.string()),
        WHY: pa.array((_united([reasons[row] for row in of]) for of in own), CHANGES_SCHEMA.field(WHY).type),
    }
    return pa.table(columns).cast(CHANGES_SCHEMA).filter(np.array(what, object) != "")


def _what(first: pa.Table, last: pa.Table) -> list[str]:
    """What happened to each document from before its first change to after its last one; "" for nothing."""
    existed = first[CHANGE_KIND].to_numpy() != ChangeKind.NEW
    exists = last[CHANGE_KIND].to_numpy() != ChangeKind.GONE
    moved = kinds(
        _digests(first, TEXT_DIGEST_BEFORE, LABELS_BEFORE, ENTITY_SPANS_BEFORE),
        _digests(last, TEXT_DIGEST, LABELS, ENTITY_SPANS),
    )
    ends = np.where(existed, ChangeKind.GONE, np.where(exists, ChangeKind.NEW, ""))
    return [str(one) for one in np.where(existed & exists, moved, ends).tolist()]


def _digests(table: pa.Table, text: str, labels: str, entities: str) -> pa.Table:
    return pa.table(
        {
            TEXT_DIGEST: table[text].fill_null(""),
            LABELS_DIGEST: label_digests(table[labels]),
            PLACES_DIGEST: place_digests(table[entities]),
        }
    )


def _united(causes: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Causes of all changes of a document, each once."""
    each = {(one["cause"], one["detail"]): one for own in causes for one in own}
    return list(each.values())
