"""Counts of pairs of names in a document, by their types: tables 3 and 4 of Finkel, Grenager & Manning (2005).

The paper does not say how names are read off the labels. Read as maximal runs of one type over the whole document, also
over the end of a sentence, its counts come out to a few pairs. concord counts names as they are labelled, which end
where a sentence ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from concord.schemas.document import TOKENS, Document
from concord.schemas.labels import OUTSIDE, LabelSet, Scheme
from concord.schemas.published import PAIRS, MeasuredRow, PublishedPairs
from concord.workers.constraints.consistency import PairCounts
from concord.workers.published.made_corpora import documents_in, label_names
from concord.workers.published.rows import lies

RUNS, LABELLED = "runs of one type", "names as labelled"
"""How names are read off the labels."""


def counted(pairs: PublishedPairs, place: Path) -> list[MeasuredRow]:
    """A row for each pair of types and each way of reading names; runs stand beside the published counts.

    Raises `CorpusError`.
    """
    documents = documents_in(place)
    labels = LabelSet.infer(label_names(documents))
    runs = PairCounts.of(map(as_runs, documents), LabelSet((*labels.types, OUTSIDE), Scheme.PLAIN))
    return [*_rows(pairs, runs), *_rows(pairs, PairCounts.of(documents, labels), beside=False)]


def uncounted(pairs: PublishedPairs, why: str | None) -> list[MeasuredRow]:
    """The rows without figures, and why."""
    return list(_rows(pairs, None, why=why))


def _rows(
    pairs: PublishedPairs, counts: PairCounts | None, *, beside: bool = True, why: str | None = None
) -> Iterator[MeasuredRow]:
    for first, published in pairs.published.items():
        for second, published_count in zip(pairs.types[-len(published) :], published, strict=True):
            value = None if counts is None else _count(pairs, counts, first, second)
            yield MeasuredRow(
                name=f"{first}, {RUNS if beside else LABELLED}",
                column=second,
                figure=PAIRS,
                published=published_count if beside else None,
                measured=value,
                lies=None if value is None or not beside else lies(published_count, value, value),
                why=why,
            )


def _count(pairs: PublishedPairs, counts: PairCounts, first: str, second: str) -> int:
    if not {first, second} <= set(counts.types):
        return 0
    table = counts.exact if pairs.relation == "same" else counts.subsequence
    return int(table[counts.types.index(first), counts.types.index(second)])


def as_runs(document: Document) -> Document:
    """The document as one sentence, each token with its type alone."""
    gold = () if document.labels is None else document.labels.strings()
    types = [name.partition("-")[2] or OUTSIDE for name in gold]
    return Document.build(document.doc_id, [document.columns[TOKENS].strings()], labels=[types])
