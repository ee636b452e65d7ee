"""All measures by name: what `concord evaluate --measure NAME` and a run's figures count.

A measure is a function from a labelled batch to what gold and prediction have, and both: so many of each name in each
document. Counts add up over shards, figures are made of the sums, and a bootstrap draws documents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.columns import SOURCE_SPANS
from concord.schemas.document import TOKENS, Batch, SourceSpans
from concord.schemas.errors import InputError, UsageError
from concord.schemas.labels import Labels, LabelSet, Scheme, Spans
from concord.schemas.names import unknown
from concord.workers.evaluation.conlleval import are_in, check_lengths
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.named_counts import Counts, MatchCounts
from concord.workers.parts import Group, Registry, an_entry

LINE_END = re.compile(r"\n")


class MeasureError(InputError):
    """The documents lack the data of a measure; the message says which document, and what to do."""


class Pair(NamedTuple):
    """A batch of D documents with N tokens, and two labellings of it (N,) as ids of ``labels``."""

    batch: Batch
    labels: LabelSet
    gold: Labels
    predicted: Labels

    @property
    def owner(self) -> NDArray[np.int64]:
        """(N,) the document of each token."""
        return np.repeat(np.arange(len(self.batch)), np.diff(self.batch.doc_starts))


class Places(NamedTuple):
    """Counted items at M places.

    - ``document`` (M,): document of each.
    - ``name`` (M,): name (type or label) of each.
    - ``weight`` (M,): how many items it stands for; None: 1 each.
    """

    document: NDArray[np.int64]
    name: NDArray[np.int32]
    weight: NDArray[np.int64] | None = None


class Items(NamedTuple):
    """Items of gold, of the prediction, and of both, in ``documents`` documents; ``names`` are their R names."""

    names: tuple[str, ...]
    documents: int
    gold: Places
    predicted: Places
    correct: Places

    def total(self) -> MatchCounts:
        """The counts of all documents together."""
        size = len(self.names)
        columns = [np.bincount(kind.name, kind.weight, size) for kind in (self.gold, self.predicted, self.correct)]
        return MatchCounts.of_columns(self.names, columns)

    def by_document(self) -> Counts:
        """(D, R, 3) the counts of each document, for the R ``names``."""
        shape = (self.documents, len(self.names))
        kinds = (self.gold, self.predicted, self.correct)
        cells = [np.bincount(k.document * shape[1] + k.name, k.weight, shape[0] * shape[1]) for k in kinds]
        return np.stack([cell.reshape(shape) for cell in cells], axis=2).astype(np.int64)


def labels(pair: Pair) -> Items:
    """Tokens by label, the outside label included: token accuracy, and Fersini (2014) eq. 31 to 34."""
    right = pair.gold == pair.predicted
    owner, size = pair.owner, len(pair.batch)
    correct = Places(owner[right], pair.gold[right])
    return Items(pair.labels.names, size, Places(owner, pair.gold), Places(owner, pair.predicted), correct)


def tokens(pair: Pair) -> Items:
    """Tokens by field or type, without those outside: the mean over fields is that of Finkel (2005) §4.2."""
    return _inside(pair, np.ones(len(pair.gold), np.int64))


def characters(pair: Pair) -> Items:
    """Letters and digits of tokens by field or type, without tokens outside (Stokman 2011 §5.1)."""
    words = pair.batch.columns[TOKENS]
    lengths = np.array([sum(map(str.isalnum, word)) for word in words.values], np.int64)
    return _inside(pair, lengths[words.codes])


def spans(pair: Pair) -> Items:
    """Spans by type, right where start, end and type are: entities of conlleval, fields, exact sections (Stokman)."""
    starts, ends = pair.batch.sentence_starts, pair.batch.doc_starts
    gold, predicted = (pair.labels.spans(y, starts) for y in (pair.gold, pair.predicted))
    right = are_in(gold, predicted)
    both = Spans(gold.start[right], gold.end[right], gold.type[right])
    kinds = [Places(np.searchsorted(ends, s.start, side="right") - 1, s.type) for s in (gold, predicted, both)]
    return Items(pair.labels.types, len(pair.batch), *kinds)


def offsets(pair: Pair) -> Items:
    """Spans of characters by type, right where start, end and type are: shared tasks over abstracts count so.

    Gold are the different spans of the source; one that token labels cannot express counts as missed. Raises
    `MeasureError` for documents that were stored without them.
    """
    batch = pair.batch
    predicted = pair.labels.spans(pair.predicted, batch.sentence_starts)
    if not len(batch):
        nothing = Places(np.zeros(0, np.int64), np.zeros(0, np.int32))
        return Items(pair.labels.types, 0, nothing, nothing, nothing)
    if batch.source_spans is None:
        raise MeasureError(
            f"document {batch.doc_ids[0]!r} has no gold spans of characters (columns {', '.join(SOURCE_SPANS)}), which "
            "the measure offsets counts; ingest its source again by mail or pubtator, or give another --measure"
        )
    gold, found_there = batch.source_spans.distinct(), SourceSpans.said(batch, predicted, pair.labels.types).distinct()
    names = tuple(dict.fromkeys([*pair.labels.types, *sorted({span[-1] for span in gold})]))
    place = {name: i for i, name in enumerate(names)}
    kinds = [
        Places(np.array([s[0] for s in spans], np.int64), np.array([place[s[-1]] for s in spans], np.int32))
        for spans in (gold, found_there, gold & found_there)
    ]
    return Items(names, len(batch), *kinds)


def documents(pair: Pair) -> Items:
    """Documents whose tokens all have the right label, such as whole citations."""
    wrong = np.bincount(pair.owner[pair.gold != pair.predicted], minlength=len(pair.batch))
    every = np.arange(len(pair.batch))
    whole, right = (Places(d, np.zeros(len(d), np.int32)) for d in (every, np.flatnonzero(wrong == 0)))
    return Items(("documents",), len(pair.batch), whole, whole, right)


def lines(pair: Pair) -> Items:
    """Lines of the text by the types that they hold (Stokman §5.1); of documents without a text, sentences."""
    line, size = _lines(pair.batch), max(1, len(pair.labels.types))
    first = np.zeros(int(line.max(initial=-1)) + 1, np.int64)
    first[line] = pair.owner

    def held(labelling: Labels) -> NDArray[np.int64]:
        kind = pair.labels.type_of[labelling]
        return np.unique(line[kind >= 0] * size + kind[kind >= 0])

    gold, predicted = held(pair.gold), held(pair.predicted)
    cells = (gold, predicted, np.intersect1d(gold, predicted, assume_unique=True))
    kinds = [Places(first[cell // size], (cell % size).astype(np.int32)) for cell in cells]
    return Items(pair.labels.types, len(pair.batch), *kinds)


def _inside(pair: Pair, weight: NDArray[np.int64]) -> Items:
    """Tokens inside spans by type, each with its ``weight`` (N,); correct where gold and prediction have one type."""
    owner = pair.owner
    gold, answer = pair.labels.type_of[pair.gold], pair.labels.type_of[pair.predicted]

    def at(mask: NDArray[np.bool_], kind: NDArray[np.int32]) -> Places:
        return Places(owner[mask], kind[mask], weight[mask])

    right = (gold == answer) & (gold >= 0)
    return Items(pair.labels.types, len(pair.batch), at(gold >= 0, gold), at(answer >= 0, answer), at(right, gold))


def _lines(batch: Batch) -> NDArray[np.int64]:
    """(N,) the line of each token, counted through the batch."""
    if batch.raw is None:
        sentences = np.diff(batch.sentence_bounds)
        return np.repeat(np.arange(len(sentences)), sentences)
    parts = [np.zeros(0, np.int64)]
    before = 0
    for text, (start, end) in zip(batch.raw.contents, pairwise(batch.doc_starts.tolist()), strict=True):
        breaks = [match.start() for match in LINE_END.finditer(text)]
        parts.append(np.searchsorted(breaks, batch.raw.start[start:end]) + before)
        before += len(breaks) + 1
    return np.concatenate(parts)


class ByDocument(NamedTuple):
    """Counts (D, R, 3) of each document, for the R ``names`` that occur."""

    names: tuple[str, ...]
    table: Counts

    def table_of(self, names: Sequence[str]) -> Counts:
        """(D, K, 3) the counts for K names, which hold all of these."""
        table = np.zeros((len(self.table), len(names), 3), self.table.dtype)
        table[:, [names.index(name) for name in self.names]] = self.table
        return table


class Measure(NamedTuple):
    """A registry entry: the function that counts, the names of its figures in `FIGURES`, and one line of help."""

    items: Callable[[Pair], Items]
    figures: tuple[str, ...]
    summary: str


MICRO = ("precision", "recall", "f1")
MACRO = ("macro_precision", "macro_recall", "macro_f1")

OWN: dict[str, Measure] = {
    "labels": Measure(labels, ("accuracy", *MACRO), "tokens by label: accuracy, and P, R, F1 of each label"),
    "tokens": Measure(tokens, (*MICRO, *MACRO), "tokens by field, without those outside"),
    "spans": Measure(spans, (*MICRO, *MACRO), "entities or fields with the right ends and type"),
    "offsets": Measure(offsets, (*MICRO, *MACRO), "entities of the source by characters, also what tokens cannot say"),
    "documents": Measure(documents, ("accuracy",), "whole documents right, such as citations"),
    "lines": Measure(lines, ("overlap", *MICRO), "lines by the fields they hold: overlap"),
    "characters": Measure(characters, ("overlap", *MICRO), "letters and digits by field: overlap"),
}
"""Concord's own measures. A new one is one function, and one line here."""


def _wrong(part: Any) -> str | None:
    """Reason why a part is not a valid registry entry; None if it is."""
    problem = an_entry(Measure)(part)
    if problem is not None:
        return problem
    odd = [name for name in part.figures if name not in FIGURES]
    return unknown("figure", odd[0], FIGURES) if odd else None


MEASURES: Registry[Measure] = Registry(Group.MEASURES, OWN, _wrong)

DEFAULTS: dict[Scheme, tuple[str, ...]] = {
    Scheme.BIO: ("spans",),
    Scheme.LOOSE: ("spans",),
    Scheme.PLAIN: ("labels", "spans", "documents"),
}
"""Default measures by label scheme, see `suggested`."""


def suggested(labels: LabelSet, batch: Batch) -> tuple[str, ...]:
    """Default measures: those of the label scheme, and ``offsets`` where the batch has spans of the source."""
    return DEFAULTS[labels.scheme] + (() if batch.source_spans is None else ("offsets",))


def check_measures(names: Sequence[str]) -> None:
    """Raises `UsageError` for a name that is not in `MEASURES`."""
    for name in names:
        if name not in MEASURES:
            raise UsageError(unknown("measure", name, MEASURES))


def measured(pair: Pair, names: Iterable[str]) -> dict[str, MatchCounts]:
    """The counts of some measures. Raises `ValueError` for labellings that do not fit the batch."""
    check_lengths(pair.gold, pair.predicted, pair.batch.columns[TOKENS].codes)
    return {name: MEASURES[name].items(pair).total() for name in names}


def figures(measure: str, counts: MatchCounts) -> dict[str, float]:
    """The figures of a measure by name, as fractions."""
    return {name: float(FIGURES[name](counts.table)) for name in MEASURES[measure].figures}


def by_document(measure: str, pair: Pair) -> ByDocument:
    """The counts of a measure in each document."""
    items = MEASURES[measure].items(pair)
    table = items.by_document()
    present = np.flatnonzero(table.any(axis=(0, 2))).tolist()
    return ByDocument(tuple(items.names[i] for i in present), table[:, present])
