"""What can be read of a run: its entities, its documents, or its sentences without an entity; and how sure each is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from concord.schemas.arrays import Floats, Mask
from concord.schemas.columns import DOC_ID, LABELS, MARGIN, N_BEST, PROBABILITY, SENTENCE_STARTS
from concord.schemas.document import TOKENS
from concord.schemas.errors import InputError
from concord.schemas.labels import LabelSet
from concord.schemas.review import ItemKind
from concord.workers.review.predicted import error_of_margin, error_of_marginal

MARGINAL_ORDER, MARGIN_ORDER, GAP_ORDER, NO_ORDER = "marginal", "margin", "gap", "none"
"""What errors are predicted by; a sentence without an entity has nothing that says how sure it is."""


class NoConfidenceError(InputError):
    """A run that does not say how sure its answers are."""


class ReviewItem(NamedTuple):
    """Something that is read: where it is (in tokens, end exclusive), and the entity's type, if it is one."""

    doc_id: str
    start: int
    end: int
    type: str | None


class ReviewItems(NamedTuple):
    """All that can be read of a run, in its order, with predicted errors (N,) by ``order``.

    - ``unscored`` (N,): marks those of which nothing says how sure the run is.
    """

    things: list[ReviewItem]
    predicted: Floats
    order: str
    unscored: Mask

    @property
    def digest(self) -> str:
        """Digest of the places and types, in their order, and of the predicted errors."""
        state = hashlib.sha256("\n".join(map(_spelled, self.things)).encode())
        state.update(self.predicted.astype("<f8").tobytes())
        return state.hexdigest()


def _spelled(item: ReviewItem) -> str:
    """An item as digests have it: reviews that have begun go on with the digest that they began with."""
    return f"Thing(doc_id={item.doc_id!r}, start={item.start!r}, end={item.end!r}, type={item.type!r})"


def items_of(tables: Iterable[pa.Table], by: ItemKind, *, run: str) -> ReviewItems:
    """What can be read of the predictions of ``run``. Raises `NoConfidenceError`.

    An entity without a score, as other programs give them, is as doubtful as can be, and so is its document. Where no
    other is doubtful, there is no order.
    """
    held, errors, order = list[ReviewItem](), list[float](), NO_ORDER
    columns = [DOC_ID, TOKENS, SENTENCE_STARTS, "entities", PROBABILITY, MARGIN, N_BEST]
    for table in tables:
        if by != "sentence":
            order = _order(table.schema, run)
        for row in table.select([name for name in columns if name in table.column_names]).to_pylist():
            some = _ITEMS_OF[by](row)
            held += some
            errors += [0.0] * len(some) if by == "sentence" else _errors(row, by, order)
    predicted = np.array(errors, np.float64)
    unknown = np.isnan(predicted)
    if unknown.any() and not predicted[~unknown].any():
        order, predicted = NO_ORDER, np.zeros(len(held))
    predicted[np.isnan(predicted)] = 1.0
    return ReviewItems(held, predicted, order, unknown | (order == NO_ORDER))


def _order(schema: pa.Schema, run: str) -> str:
    for name, order in ((PROBABILITY, MARGINAL_ORDER), (MARGIN, MARGIN_ORDER), (N_BEST, GAP_ORDER)):
        if name in schema.names:
            return order
    raise NoConfidenceError(
        f"{run}: does not say how sure its entities are; make the run with `--confidence marginal` (or margin)"
    )


def _entities(row: Mapping[str, Any]) -> list[ReviewItem]:
    return [ReviewItem(row[DOC_ID], one["start"], one["end"], one["type"]) for one in row["entities"]]


def _document(row: Mapping[str, Any]) -> list[ReviewItem]:
    return [ReviewItem(row[DOC_ID], 0, len(row[TOKENS]), None)]


def _empty_sentences(row: Mapping[str, Any]) -> list[ReviewItem]:
    starts, ends = row[SENTENCE_STARTS], [*row[SENTENCE_STARTS][1:], len(row[TOKENS])]
    held = np.zeros(len(row[TOKENS]) + 1, np.int64)
    for one in row["entities"]:
        held[one["start"]] += 1
        held[one["end"]] -= 1
    inside = np.cumsum(held)
    places = zip(starts, ends, strict=True)
    return [ReviewItem(row[DOC_ID], a, b, None) for a, b in places if a < b and not inside[a:b].any()]


_ITEMS_OF = {"entity": _entities, "document": _document, "sentence": _empty_sentences}


def _errors(row: Mapping[str, Any], by: ItemKind, order: str) -> list[float]:
    """Predicted errors of the entities of a row; of a document that of at least one, as if they were independent."""
    single = entity_errors(row, order)
    return single.tolist() if by == "entity" else [float(-np.expm1(np.log1p(-np.minimum(single, 1 - 1e-12)).sum()))]


def entity_errors(row: Mapping[str, Any], order: str) -> Floats:
    """Predicted errors of the entities of a row of predictions."""
    if order == MARGINAL_ORDER:
        return error_of_marginal(np.array(row[PROBABILITY], np.float64))
    if order == MARGIN_ORDER:
        return error_of_margin(np.array(row[MARGIN], np.float64))
    second: Sequence[Mapping[str, Any]] = row[N_BEST][1:2]
    nats = max(second[0]["gap"], 0.0) if second else np.inf
    return np.full(len(row["entities"]), float(error_of_margin(np.array(nats))))


class Context(NamedTuple):
    """The words around a thing: whole sentences, and the entities that are asked about.

    - ``first``, ``last``: its tokens in the document, end exclusive
    - ``tokens``: these
    - ``entities``: mappings with type, start and end; places are those in ``tokens``
    """

    first: int
    last: int
    tokens: list[str]
    entities: list[dict[str, Any]]

    @classmethod
    def of(cls, row: Mapping[str, Any], thing: ReviewItem) -> Context:
        """The sentence of an entity, a sentence, or a whole document with all its entities."""
        starts, ends = row[SENTENCE_STARTS], [*row[SENTENCE_STARTS][1:], len(row[TOKENS])]
        first = max((a for a in starts if a <= thing.start), default=0)
        last = min((b for b in ends if b >= thing.end), default=thing.end)
        spans = [one for one in row["entities"] if thing.type is None or one["start"] == thing.start]
        inside = [one for one in spans if first <= one["start"] and one["end"] <= last]
        entities = [{"type": e["type"], "start": e["start"] - first, "end": e["end"] - first} for e in inside]
        return cls(first, last, row[TOKENS][first:last], entities)


def rivals(row: Mapping[str, Any], thing: ReviewItem) -> list[tuple[str, float]]:
    """What the other ones of the best labellings make of an entity, each with the nats by which it is worse."""
    others: dict[str, float] = {}
    for one in row.get(N_BEST) or ():
        name = said_of(row, one[LABELS], thing)
        if name != thing.type:
            others.setdefault(name, one["gap"])
    return list(others.items())


def said_of(row: Mapping[str, Any], labels: Sequence[str], thing: ReviewItem) -> str:
    """What a labelling of a row makes of an entity: a type, other bounds, or no entity."""
    names = LabelSet.infer(labels)
    spans = names.spans(names.encode(labels), np.array(row[SENTENCE_STARTS], np.int64))
    held = [
        names.types[kind] if (start, end) == (thing.start, thing.end) else "other bounds"
        for start, end, kind in zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
        if start < thing.end and end > thing.start
    ]
    return held[0] if held else "no entity"
