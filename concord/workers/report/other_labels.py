"""Another labelling of the same documents, read once and in its own order beside the run that asks for them."""

from __future__ import annotations

from collections.abc import Iterable

from concord.workers.report.places import TypedPlaces


class OtherLabels:
    """Places of documents by their ids, from another run or from gold.

    Both are read from start to end, and what was read before it is asked for waits in memory: nothing where the order
    is the same, and the spans of all documents, without their texts, where it is another one.
    """

    def __init__(self, documents: Iterable[tuple[str, TypedPlaces]]) -> None:
        self._documents = iter(documents)
        self._waiting: dict[str, TypedPlaces] = {}

    def of(self, doc_id: str) -> TypedPlaces | None:
        """The places of a document, which is asked for once; None where it is not there."""
        if doc_id in self._waiting:
            return self._waiting.pop(doc_id)
        for other, places in self._documents:
            if other == doc_id:
                return places
            self._waiting[other] = places
        return None
