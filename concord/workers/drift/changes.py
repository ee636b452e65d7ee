"""Documents that differ between two runs, and what may have made the difference.

Each document is known by its id, which stands once in a run. Of its rows only digests, labels and entities are looked
at, so that a table may be put aside and read again for little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from concord.schemas.arrays import Ints
from concord.schemas.changes import ChangeCause, ChangeKind, Why
from concord.schemas.columns import (
    DOC_ID,
    DOCUMENT_DIGEST,
    ENTITY,
    LABELS,
    SENTENCE_STARTS,
    STRINGS,
    VITERBI_CONSTRAINTS,
)
from concord.schemas.document import TOKENS
from concord.schemas.feed import (
    CHANGE_KIND,
    CHANGES_SCHEMA,
    ENTITY_SPANS,
    ENTITY_SPANS_BEFORE,
    LABELS_BEFORE,
    MODEL_DIGEST,
    RUN_NUMBER,
    SINCE,
    TEXT_DIGEST,
    TEXT_DIGEST_BEFORE,
    WHY,
)
from concord.schemas.run import ADOPTED, RuleStrengths, RunKey
from concord.schemas.run_changes import RuleChangeKind, rule_changes
from concord.workers.drift.items import Coded, ItemColumn
from concord.workers.drift.pairs import Pairs

READ_COLUMNS = (DOC_ID, TOKENS, SENTENCE_STARTS, LABELS, ENTITY_SPANS, DOCUMENT_DIGEST, VITERBI_CONSTRAINTS)
"""Columns of predictions that are looked at, those of them that are there."""

LABELS_DIGEST, PLACES_DIGEST, GROUNDED = "labels_digest", "places_digest", "grounded"
COMPARED_COLUMNS = pa.schema(
    [
        (DOC_ID, pa.string()),
        (TEXT_DIGEST, pa.string()),
        (LABELS_DIGEST, pa.binary()),
        (PLACES_DIGEST, pa.binary()),
        (DOCUMENT_DIGEST, pa.binary()),
        (LABELS, STRINGS),
        (ENTITY_SPANS, pa.list_(ENTITY)),
        (GROUNDED, STRINGS),
    ]
)
"""A row a document: digests of its text, of labels, of places and types of entities, and of its row in the corpus;
labels and entities; and the constraints that have rows or pairs in it, null where that is not known."""


class RunCause(NamedTuple):
    """A difference of two runs; ``constraint`` is the one that differs, None where it is something else."""

    cause: ChangeCause
    constraint: str | None = None

    def touches(self, grounded: set[str] | None) -> bool:
        """Can it have changed a document in which these constraints have rows or pairs? None: it is not known which."""
        return self.constraint is None or grounded is None or self.constraint in grounded


class TwoRuns(NamedTuple):
    """A run and the one that it is compared with.

    - ``run``, ``since``: their numbers, see `schemas.changes.CHANGES_LAYOUT`
    - ``model``: digest of the run's model
    - ``causes``: in what they differ beside documents
    """

    run: int
    since: int
    model: str
    causes: tuple[RunCause, ...] = ()

    @classmethod
    def of(
        cls, run: int, since: int, before: tuple[RunKey, RuleStrengths], after: tuple[RunKey, RuleStrengths]
    ) -> Self:
        """By keys and constraints of both runs."""
        causes = (*_of_keys(before[0], after[0]), *_of_constraints(before[1], after[1]))
        return cls(run, since, after[0].model, causes)


def _of_keys(before: RunKey, after: RunKey) -> Iterator[RunCause]:
    if before.model != after.model:
        yield RunCause(ChangeCause(Why.MODEL))
    elif after.settings.engine == ADOPTED:
        yield RunCause(ChangeCause(Why.ANSWER))
    old, new = before.settings.model_dump(mode="json"), after.settings.model_dump(mode="json")
    if old["engine"] != new["engine"]:
        yield RunCause(ChangeCause(Why.ENGINE, f"{old['engine']} → {new['engine']}"))
    others = sorted(name for name in old if name != "engine" and old[name] != new[name])
    if others:
        yield RunCause(ChangeCause(Why.SETTINGS, ", ".join(others)))
    if before.code != after.code:
        yield RunCause(ChangeCause(Why.CODE))


KINDS: dict[RuleChangeKind, Why] = {
    "added": Why.ADDED,
    "removed": Why.REMOVED,
    "other weight": Why.REWEIGHED,
    "other form": Why.REWRITTEN,
}
"""Reasons of changes, by what happened to a constraint."""


def _of_constraints(before: RuleStrengths, after: RuleStrengths) -> Iterator[RunCause]:
    for rule in rule_changes(before, after):
        if rule.kind == "local":
            yield RunCause(ChangeCause(Why.REWRITTEN))
            continue
        weights = f" ({_weights(rule.before)} → {_weights(rule.after)})" if rule.kind == "other weight" else ""
        yield RunCause(ChangeCause(KINDS[rule.kind], f"{rule.name}{weights}"), rule.name)


def _weights(weights: Sequence[float]) -> str:
    return "/".join(f"{weight:g}" for weight in weights)


def answers(table: pa.Table) -> pa.Table:
    """The documents of a table of predictions, as `COMPARED_COLUMNS` has them."""
    tokens, sentences = ItemColumn.of(table[TOKENS]), ItemColumn.of(table[SENTENCE_STARTS])
    texts = zip(
        tokens.digests(Coded.of(tokens.values).digests),
        sentences.digests(sentences.values.to_numpy(zero_copy_only=False)),
        strict=True,
    )
    there = table.column_names
    columns = {
        DOC_ID: table[DOC_ID],
        TEXT_DIGEST: pa.array([(words + starts).hex() for words, starts in texts], pa.string()),
        LABELS_DIGEST: label_digests(table[LABELS]),
        PLACES_DIGEST: place_digests(table[ENTITY_SPANS]),
        DOCUMENT_DIGEST: table[DOCUMENT_DIGEST] if DOCUMENT_DIGEST in there else pa.nulls(len(table), pa.binary()),
        LABELS: table[LABELS],
        ENTITY_SPANS: table[ENTITY_SPANS],
        GROUNDED: _grounded(table[VITERBI_CONSTRAINTS])
        if VITERBI_CONSTRAINTS in there
        else pa.nulls(len(table), STRINGS),
    }
    return pa.table(columns).cast(COMPARED_COLUMNS)


def label_digests(column: pa.ChunkedArray) -> pa.Array:
    """A digest of each document's labels."""
    labels = ItemColumn.of(column)
    return pa.array(labels.digests(Coded.of(labels.values).digests), pa.binary())


def place_digests(column: pa.ChunkedArray) -> pa.Array:
    """A digest of the types and places of each document's entities."""
    entities = ItemColumn.of(column)
    ends = ("start", "end", "char_start", "char_end")
    numbers = [entities.values.field(name).fill_null(-1).to_numpy(zero_copy_only=False) for name in ends]
    types = Coded.of(entities.values.field("type")).digests
    return pa.array(entities.digests(np.column_stack([types, *numbers])), pa.binary())


def _grounded(column: pa.ChunkedArray) -> pa.Array:
    """Names of the constraints that have rows or pairs in each document."""
    charges = ItemColumn.of(column)
    grounded = charges.values.field("grounded")
    counts = charges.sums(np.where(grounded.to_numpy(zero_copy_only=False), 0, -1), 1)[:, 0].astype(np.int32)
    starts = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
    return pa.ListArray.from_arrays(starts, charges.values.field("name").filter(grounded))


def changes(
    before: pa.Table,
    after: pa.Table,
    runs: TwoRuns,
    *,
    rejects: Mapping[str, str],
    corrected: frozenset[str],
) -> pa.Table:
    """The documents that differ between two tables of `answers`, by id, as rows of the feed.

    - ``rejects``: reasons of rejects of the run, by id
    - ``corrected``: ids of documents that the run has corrections of
    """
    pairs = Pairs.of(before[DOC_ID].to_pylist(), after[DOC_ID].to_pylist())
    happened = kinds(before.take(pairs.rows[:, 0]), after.take(pairs.rows[:, 1]))
    differ = np.flatnonzero(happened != "")
    old = np.concatenate([pairs.rows[differ, 0], pairs.gone, np.full(len(pairs.new), -1)])
    new = np.concatenate([pairs.rows[differ, 1], np.full(len(pairs.gone), -1), pairs.new])
    what = [*happened[differ].tolist(), *[ChangeKind.GONE] * len(pairs.gone), *[ChangeKind.NEW] * len(pairs.new)]
    past, now = _taken(before, old), _taken(after, new)
    ids = pc.coalesce(now[DOC_ID], past[DOC_ID])
    causes = _Causes(runs.causes, rejects, corrected)
    reasons = map(
        causes.of,
        ids.to_pylist(),
        what,
        *(table[name].to_pylist() for name in (DOCUMENT_DIGEST, GROUNDED) for table in (past, now)),
    )
    columns = {
        RUN_NUMBER: pa.array([runs.run] * len(what), pa.int64()),
        SINCE: pa.array([runs.since] * len(what), pa.int64()),
        DOC_ID: ids,
        CHANGE_KIND: pa.array(map(str, what), pa.string()),
        LABELS_BEFORE: past[LABELS],
        LABELS: now[LABELS],
        ENTITY_SPANS_BEFORE: past[ENTITY_SPANS],
        ENTITY_SPANS: now[ENTITY_SPANS],
        TEXT_DIGEST_BEFORE: past[TEXT_DIGEST],
        TEXT_DIGEST: now[TEXT_DIGEST],
        WHY: pa.array(map(_cells, reasons), CHANGES_SCHEMA.field(WHY).type),
        MODEL_DIGEST: pa.array([runs.model] * len(what), pa.string()),
    }
    return pa.table(columns).cast(CHANGES_SCHEMA).sort_by(DOC_ID)


def kinds(before: pa.Table, after: pa.Table) -> np.ndarray[Any, np.dtype[np.object_]]:
    """What happened to each document of both, "" for nothing."""
    texts, labels, places = (
        pc.not_equal(before[name], after[name]).to_numpy() for name in (TEXT_DIGEST, LABELS_DIGEST, PLACES_DIGEST)
    )
    moved = np.where(labels, ChangeKind.ANSWER, np.where(places, ChangeKind.TEXT, "")).astype(object)
    return np.where(texts, ChangeKind.TEXT, moved).astype(object)


def _taken(table: pa.Table, rows: Ints) -> pa.Table:
    """Rows of a table; nulls for −1."""
    return table.take(pa.array(rows, pa.int64(), mask=rows < 0))


def _cells(causes: Sequence[ChangeCause]) -> list[dict[str, str | None]]:
    return [{"cause": str(cause.why), "detail": cause.detail} for cause in causes]


class _Causes(NamedTuple):
    """Causes of a run's changes; see `changes` for ``rejects`` and ``corrected``."""

    of_run: tuple[RunCause, ...]
    rejects: Mapping[str, str]
    corrected: frozenset[str]

    def of(
        self,
        doc_id: str,
        what: str,
        row_before: bytes | None,
        row: bytes | None,
        grounded_before: list[str] | None,
        grounded: list[str] | None,
    ) -> list[ChangeCause]:
        """What may have changed a document, whose rows and constraints those are before and now."""
        if what == ChangeKind.GONE and doc_id in self.rejects:
            return [ChangeCause(Why.REJECT, self.rejects[doc_id])]
        if what != ChangeKind.ANSWER:
            return [ChangeCause(Why.ROW)]
        there = None if grounded_before is None or grounded is None else {*grounded_before, *grounded}
        causes = [] if row_before == row else [ChangeCause(Why.CORRECTION if doc_id in self.corrected else Why.ROW)]
        return causes + [own.cause for own in self.of_run if own.touches(there)]
