"""Labelled places of documents, what differs between two labellings, and what gold says of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from concord.schemas.columns import ListColumn
from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet

TypedPlaces = Mapping[tuple[int, int], str]
"""The type of each labelled span of a document, by its first token and the one behind its last."""


class GoldVerdict(StrEnum):
    """What gold says of a change."""

    MENDED = "mended"
    """Gold has what is there now."""
    SPOILED = "spoiled"
    """Gold has what was there before."""
    STILL_WRONG = "still wrong"
    """Gold has neither."""
    UNKNOWN = "no gold"
    """There is no gold."""


class ErrorKind(StrEnum):
    """How an answer and gold differ at a span."""

    TYPE = "wrong type"
    EDGES = "wrong edges"
    EXTRA = "not in gold"
    MISSED = "missed"


class PlaceChange(NamedTuple):
    """A span that two labellings do not share: its place, and its type in either; None where it is no span."""

    start: int
    end: int
    before: str | None
    after: str | None

    @property
    def kind(self) -> tuple[str, str]:
        """The types before and after, for people."""
        return self.before or OUTSIDE_NAME, self.after or OUTSIDE_NAME


class PlaceError(NamedTuple):
    """A span of the answer that gold does not have, or one of gold that the answer does not have."""

    start: int
    end: int
    type: str
    kind: ErrorKind


OUTSIDE_NAME = "no name"
"""What people are told in place of a type where there is no span."""


def places_of(
    labels: pa.ChunkedArray, sentence_starts: pa.ChunkedArray, *, plain: bool = False
) -> Iterator[TypedPlaces]:
    """The places of each document of a table, from its columns of labels and of sentence starts.

    - ``plain``: is each label a type by itself, whatever its name looks like?
    """
    column, sentences = ListColumn.of(labels), ListColumn.of(sentence_starts)
    encoded = column.encoded()
    names = encoded.dictionary.to_pylist()
    label_set = LabelSet.infer(names, plain=plain)
    ids = label_set.encode(names)[encoded.indices.to_numpy(zero_copy_only=False)] if names else np.zeros(0, np.int32)
    owner = np.repeat(column.starts[:-1], sentences.lengths)
    yield from split_places(label_set, ids, sentences.integers() + owner, column.starts)


def split_places(
    labels: LabelSet, ids: np.ndarray, sentence_starts: np.ndarray, document_starts: np.ndarray
) -> Iterator[TypedPlaces]:
    """The places of each of D documents.

    - ``ids`` (N,): labels of the tokens of all documents
    - ``sentence_starts`` (S,): tokens that begin a sentence
    - ``document_starts`` (D + 1,): first token of each document, and the number of tokens
    """
    # Documents without tokens begin where the next one does, and have no sentence there.
    spans = labels.spans(ids, sentence_starts[sentence_starts < len(ids)])
    first = np.searchsorted(spans.start, document_starts)
    types = [labels.types[kind] for kind in spans.type.tolist()]
    for number, start in enumerate(document_starts[:-1].tolist()):
        part = slice(first[number], first[number + 1])
        edges = zip((spans.start[part] - start).tolist(), (spans.end[part] - start).tolist(), strict=True)
        yield dict(zip(edges, types[part], strict=True))


def gold_places(batch: Batch) -> Iterator[tuple[str, TypedPlaces]]:
    """The id and the gold places of each document of a batch; none of a batch without gold labels."""
    if batch.labels is None:
        return
    labels = LabelSet.infer(batch.labels.values, plain=batch.labels.plain)
    ids = labels.encode(batch.labels.values)[batch.labels.codes]
    yield from zip(batch.doc_ids, split_places(labels, ids, batch.sentence_starts, batch.doc_starts), strict=True)


def changes_between(before: TypedPlaces, after: TypedPlaces) -> list[PlaceChange]:
    """The spans that only one of two labellings has, or has with another type, in the order of the text."""
    if before == after:
        return []
    return [
        PlaceChange(*place, before.get(place), after.get(place))
        for place in sorted(before.keys() | after.keys())
        if before.get(place) != after.get(place)
    ]


def verdict_on(change: PlaceChange, gold: TypedPlaces | None) -> GoldVerdict:
    """What gold says of a change."""
    if gold is None:
        return GoldVerdict.UNKNOWN
    gold_type = gold.get((change.start, change.end))
    if gold_type == change.after:
        return GoldVerdict.MENDED
    return GoldVerdict.SPOILED if gold_type == change.before else GoldVerdict.STILL_WRONG


def errors_of(answer: TypedPlaces, gold: TypedPlaces) -> list[PlaceError]:
    """Errors of an answer, in the order of the text; a span of gold under one of them is not counted as missed."""
    wrong = [(place, kind) for place, kind in answer.items() if gold.get(place) != kind]
    unanswered = [(place, kind) for place, kind in gold.items() if place not in answer]
    touched, gold_places = _overlaps([p for p, _ in unanswered], sorted(answer)), sorted(gold)
    met = _overlaps([p for p, _ in wrong], gold_places)
    errors = [
        PlaceError(*place, kind, _kind_of_wrong(place, gold, met=there))
        for (place, kind), there in zip(wrong, met, strict=True)
    ]
    errors += [
        PlaceError(*place, kind, ErrorKind.MISSED)
        for (place, kind), there in zip(unanswered, touched, strict=True)
        if not there
    ]
    return sorted(errors)


def _kind_of_wrong(place: tuple[int, int], gold: TypedPlaces, *, met: bool) -> ErrorKind:
    if place in gold:
        return ErrorKind.TYPE
    return ErrorKind.EDGES if met else ErrorKind.EXTRA


def _overlaps(places: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[bool]:
    """Whether each place shares a token with one of ``others``, which are in order and do not overlap."""
    ends = np.array([end for _, end in others], np.int64)
    at = np.searchsorted(ends, [start for start, _ in places], side="right").tolist()
    return [i < len(others) and others[i][0] < end for i, (_, end) in zip(at, places, strict=True)]
