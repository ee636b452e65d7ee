"""Statistics of a corpus, counted shard by shard: documents, words, labels, spans and lengths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import TOKENS, Batch
from concord.schemas.label_names import gold_label_set
from concord.schemas.labels import LabelSet, Scheme
from concord.workers.evaluation.label_ids import shared_label_ids
from concord.workers.evaluation.named_counts import Counts, NamedCounts


@dataclass(frozen=True, eq=False)
class Lengths:
    """Exact histogram of lengths in tokens.

    - ``length`` (K,): different lengths, ascending.
    - ``count`` (K,): number of things of each length, above 0.

    No length is rounded: T tokens have at most √(2 T) different lengths.
    """

    length: Counts
    count: Counts

    @classmethod
    def of(cls, lengths: NDArray[np.int64]) -> Lengths:
        """Counts of given lengths."""
        return cls(*np.unique(np.asarray(lengths, np.int64), return_counts=True))

    @classmethod
    def merge(cls, parts: Iterable[Lengths]) -> Lengths:
        """The counts of all parts together."""
        every = list(parts)
        nothing = np.zeros(0, np.int64)
        length, place = np.unique(np.concatenate([nothing, *(p.length for p in every)]), return_inverse=True)
        count = np.zeros(len(length), np.int64)
        np.add.at(count, place, np.concatenate([nothing, *(p.count for p in every)]))
        return cls(length, count)

    @property
    def total(self) -> int:
        """Number of things."""
        return int(self.count.sum())

    def percentile(self, percent: int) -> int:
        """The shortest length that is not exceeded by that percentage of the things; 0 if there are none."""
        if not self.total:
            return 0
        rank = max(1, -(-percent * self.total // 100))
        return int(self.length[np.searchsorted(np.cumsum(self.count), rank)])

    def mean(self) -> float:
        """The mean length; 0 if there is nothing."""
        return int(self.length @ self.count) / self.total if self.total else 0.0


@dataclass(frozen=True, eq=False)
class SpanTotals(NamedCounts):
    """Spans of each type, and the tokens in them."""

    kinds: ClassVar[tuple[str, ...]] = ("spans", "tokens")

    @classmethod
    def of(cls, batch: Batch, labels: LabelSet, ids: NDArray[np.int32]) -> SpanTotals:
        """The spans that labels (N,) of a batch encode."""
        spans, size = labels.spans(ids, batch.sentence_starts), len(labels.types)
        tokens = np.bincount(spans.type, spans.end - spans.start, size).astype(np.int64)
        return cls.of_columns(labels.types, [np.bincount(spans.type, minlength=size), tokens])


@dataclass(frozen=True, eq=False)
class LabelTotals(NamedCounts):
    """Tokens of each gold label."""

    kinds: ClassVar[tuple[str, ...]] = ("tokens",)


@dataclass(frozen=True, eq=False)
class CorpusCounts:
    """Counts of documents that could be read; exact, so any shards merged in any order give the same.

    - ``documents``, ``with_gold``: number of readable documents, and of those with gold labels.
    - ``rejected``: number of rows that could not be read.
    - ``repeated``: number of these with the document id of an earlier row.
    - ``unknown``: number of tokens whose word is not in the vocabulary.
    - ``plain``: are gold labels plain because their corpus says so?
    - ``labels``: number of tokens by gold label.
    - ``runs``: spans as runs of one label.
    - ``entities``: spans as BIO entities, if all labels seen here fit BIO.
    - ``document_tokens``, ``sentence_tokens``: lengths in tokens.

    Spans are counted both ways, because a part of a corpus does not show the label scheme of the whole.
    """

    documents: int
    with_gold: int
    rejected: int
    repeated: int
    unknown: int
    plain: bool
    labels: LabelTotals
    runs: SpanTotals
    entities: SpanTotals
    document_tokens: Lengths
    sentence_tokens: Lengths

    @classmethod
    def of(cls, batch: Batch, *, rejected: int, repeated: int, in_vocabulary: NDArray[np.bool_] | None) -> CorpusCounts:
        """Counts of a batch; ``in_vocabulary`` (V,): the words that a vocabulary has, if there is one."""
        words = batch.columns[TOKENS]
        used = np.bincount(words.codes, minlength=len(words.values))
        sentences = np.diff(batch.sentence_bounds)
        return cls(
            len(batch),
            0 if batch.labels is None else len(batch),
            rejected,
            repeated,
            0 if in_vocabulary is None else int(used[~in_vocabulary].sum()),
            batch.labels is not None and batch.labels.plain,
            *_gold_of(batch),
            Lengths.of(np.diff(batch.doc_starts)),
            Lengths.of(sentences),
        )

    @classmethod
    def merge(cls, parts: Iterable[CorpusCounts]) -> CorpusCounts:
        """The counts of all parts together."""
        every = list(parts)
        return cls(
            sum(part.documents for part in every),
            sum(part.with_gold for part in every),
            sum(part.rejected for part in every),
            sum(part.repeated for part in every),
            sum(part.unknown for part in every),
            any(part.plain for part in every),
            sum((part.labels for part in every), LabelTotals.empty()),
            sum((part.runs for part in every), SpanTotals.empty()),
            sum((part.entities for part in every), SpanTotals.empty()),
            Lengths.merge(part.document_tokens for part in every),
            Lengths.merge(part.sentence_tokens for part in every),
        )

    @property
    def tokens(self) -> int:
        """All tokens."""
        return int(self.document_tokens.length @ self.document_tokens.count)

    @property
    def scheme(self) -> Scheme | None:
        """Label scheme of all labels together; None without gold. Raises `LabelError` if they are of none."""
        return self.label_set.scheme if self.labels.names else None

    @property
    def label_set(self) -> LabelSet:
        """Label set of all gold labels. Raises `LabelError` if they are of no scheme."""
        return gold_label_set(self.labels.names, plain=self.plain)

    @property
    def spans(self) -> SpanTotals:
        """The spans of the scheme."""
        return self.entities if self.scheme is Scheme.BIO else self.runs


def _gold_of(batch: Batch) -> tuple[LabelTotals, SpanTotals, SpanTotals]:
    """Tokens by label, runs of a label, and BIO entities."""
    if batch.labels is None:
        return LabelTotals.empty(), SpanTotals.empty(), SpanTotals.empty()
    labels, (ids,) = shared_label_ids(batch.labels)
    tokens = np.bincount(ids, minlength=len(labels))
    present = [i for i, count in enumerate(tokens.tolist()) if count]
    totals = LabelTotals.of_columns([labels.names[i] for i in present], [tokens[present]])
    runs = _spans_seen(SpanTotals.of(batch, LabelSet(labels.names, Scheme.PLAIN), ids))
    bio = labels.scheme is Scheme.BIO
    return totals, runs, _spans_seen(SpanTotals.of(batch, labels, ids)) if bio else SpanTotals.empty()


def _spans_seen(totals: SpanTotals) -> SpanTotals:
    """Drops types without spans: they only complete the label set, which may differ from shard to shard."""
    present = np.flatnonzero(totals.table[:, 0]).tolist()
    return SpanTotals(tuple(totals.names[i] for i in present), totals.table[present])
