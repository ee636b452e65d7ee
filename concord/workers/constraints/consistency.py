"""Label consistency of a document: Finkel, Grenager & Manning (2005) §5.1, with learned costs.

There are two types of violation over pairs of labelled spans (eq. 5, in nats: cost = −log θ), and one of ours:

- *exact*: two spans of the same words with types a ≠ b cost ½ (−log P(b | a) − log P(a | b)) for each token of the
  span: the paper multiplies the square roots of both estimates, once for each token.
- *subsequence*: a span of type b whose words are a proper part of another span's, of type a ≠ b, costs −log P(a | b)
  for each token of the shorter span.
- *unlabelled*: a span of type a costs −log P(unlabelled | a) for each token and each other place of its words that
  begins outside all spans. The paper compares labelled spans alone, so a name that is found here and overlooked there
  costs nothing in it.

Estimates come from pair counts in training documents (tables 3 and 4); a count of 0 is taken as 1. The paper normalises
the exact table by the type's row of the symmetric table, diagonal included (5/3151 for PER and ORG is 5/(3141 + 4 + 5 +
1)). Unlabelled places are one more column of that table. The paper does not say how it normalises table 4, and the
printed example (2/842) fits no row or column as printed. The nearest is the shorter span's column (2 + 6 + 819 + 7 =
834), so this is used here: P(the longer one is an a | the shorter one is a b). A part that occurs twice inside one
longer span counts once. Pairs of equal types cost nothing.

The paper compares words as they are written. Here letter case may be folded (``fold_case``), so that a name in a
headline in capitals matches the same name in the text. The better choice for a corpus is tuned together with the
scales.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import NO_KEY, LinearRows, NamedSpans, Problem, Relation, SpanAgreement
from concord.schemas.run import RuleStrengths, Strength
from concord.workers.compiling.interpreted import runnable
from concord.workers.compiling.kernel import kernel
from concord.workers.constraints.constraint_set import GroundConstraints

LONGEST_NAME = 12
"""Longest span that is compared, in tokens: names are shorter (longest in testa: 10)."""

MIX = np.uint64(0x9E3779B97F4A7C15)
"""Factor of Fibonacci hashing: it spreads consecutive ids over the table."""

EXACT_TEMPLATE, SUBSEQUENCE_TEMPLATE, UNLABELLED_TEMPLATE = (
    "consistent",
    "consistent_subsequence",
    "consistent_unlabelled",
)
CONSISTENCY_FAMILIES = (EXACT_TEMPLATE, SUBSEQUENCE_TEMPLATE, UNLABELLED_TEMPLATE)
RELATIONS = (Relation.EXACT, Relation.CONTAINED, Relation.UNLABELLED)


def span_keys(tokens: NDArray[np.int32], sentence_starts: NDArray[np.int64], width: int) -> NDArray[np.int32]:
    """(N, width) keys: that of the span of w tokens at t in column w − 1, see `SpanAgreement.key`.

    ``tokens`` (N,) are interned words. Two spans of one document have the same key exactly if they have the same words.
    Time is linear in the number of spans that repeat.
    """
    count = len(tokens)
    bounds = np.append(sentence_starts, count)
    room = np.repeat(bounds[1:], np.diff(bounds)) - np.arange(count)
    return runnable(_span_keys)(tokens.astype(np.int64), room, width)


@kernel
def _span_keys(tokens: Ints, room: Ints, width: int) -> NDArray[np.int32]:
    # A span can repeat only if its first w − 1 tokens do: each round looks at the spans that are left.
    count = len(tokens)
    keys = np.full((count, width), NO_KEY, np.int32)
    size = 16
    while size < 2 * count:
        size *= 2
    slot_key = np.empty(size, np.int64)
    slot_first = np.empty(size, np.int64)
    left = np.arange(count)
    parent = np.zeros(count, np.int64)
    fresh = 0
    for w in range(width):
        slot_first[:] = -1
        kept = 0
        for t in left:
            if room[t] <= w:
                continue
            pair = (parent[t] << 32) | tokens[t + w]
            place = np.int64((np.uint64(pair) * MIX) >> np.uint64(20)) & (size - 1)
            while slot_first[place] >= 0 and slot_key[place] != pair:
                place = (place + 1) & (size - 1)
            first = slot_first[place]
            if first < 0:
                slot_key[place] = pair
                slot_first[place] = t
                continue
            if keys[first, w] == NO_KEY:
                keys[first, w] = fresh
                fresh += 1
            keys[t, w] = keys[first, w]
        for t in left:
            if keys[t, w] != NO_KEY:
                parent[t] = keys[t, w]
                left[kept] = t
                kept += 1
        left = left[:kept]
        if kept == 0:
            break
    return keys


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Pairs of labelled spans in documents, by type; the counts of parts of a corpus add up.

    - ``types``: the T span types.
    - ``exact`` (T, T): pairs of the same words (table 3), symmetric: each unordered pair of a ≠ b is in both halves.
    - ``subsequence`` (T, T): pairs of a span and a part of it, by the longer span's type, then the shorter's (table 4).
    - ``unlabelled`` (T,): pairs of a span and an unlabelled place of its words.
    - ``fold_case``: are words compared without letter case?
    """

    types: tuple[str, ...]
    exact: NDArray[np.int64]
    subsequence: NDArray[np.int64]
    unlabelled: NDArray[np.int64]
    fold_case: bool = False

    @classmethod
    def of(cls, documents: Iterable[Document], labels: LabelSet, *, fold_case: bool = False) -> PairCounts:
        """Counts over gold labels. Raises `ValueError` if a document has none."""
        size = len(labels.types)
        exact, subsequence, unlabelled = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, 1))
        for document in documents:
            if document.labels is None:
                raise ValueError(f"document {document.doc_id!r} has no gold labels to count pairs in")
            spans = labels.spans(labels.encode(document.labels.strings()), document.sentence_starts)
            keys = document_keys(document, fold_case=fold_case)
            named = NamedSpans.of(keys, spans)
            exact += SpanAgreement(0, Relation.EXACT, keys, exact, per_token=False).pair_counts(named)
            subsequence += SpanAgreement(0, Relation.CONTAINED, keys, exact, per_token=False).pair_counts(named)
            unlabelled += SpanAgreement(0, Relation.UNLABELLED, keys, unlabelled, per_token=False).pair_counts(named)
        whole = [np.rint(counts).astype(np.int64) for counts in (exact, subsequence, unlabelled[:, 0])]
        return cls(labels.types, whole[0], whole[1], whole[2], fold_case)

    def __add__(self, other: PairCounts) -> PairCounts:
        if (self.types, self.fold_case) != (other.types, other.fold_case):
            raise ValueError("pair counts of other types, or of words compared in another way, do not add up")
        return PairCounts(
            self.types,
            self.exact + other.exact,
            self.subsequence + other.subsequence,
            self.unlabelled + other.unlabelled,
            self.fold_case,
        )

    def of_types(self, types: Sequence[str]) -> PairCounts:
        """The counts of some of the types, in this order. Raises `ValueError` for a type that was not counted."""
        places = np.array([self.types.index(name) for name in types], np.int64)
        pairs = np.ix_(places, places)
        return PairCounts(
            tuple(types), self.exact[pairs], self.subsequence[pairs], self.unlabelled[places], self.fold_case
        )

    def exact_cost(self) -> Floats:
        """(T, T) nats for each token; symmetric, zero on the diagonal."""
        estimate = np.maximum(self.exact, 1)
        conditional = np.log(estimate / estimate.sum(axis=1, keepdims=True))
        cost: Floats = -(conditional + conditional.T) / 2.0
        np.fill_diagonal(cost, 0.0)
        return cost

    def subsequence_cost(self) -> Floats:
        """(T, T) nats for each token, by the longer span's type, then the shorter's; zero on the diagonal."""
        estimate = np.maximum(self.subsequence, 1)
        cost: Floats = -np.log(estimate / estimate.sum(axis=0, keepdims=True))
        np.fill_diagonal(cost, 0.0)
        return cost

    def unlabelled_cost(self) -> Floats:
        """(T, 1) nats for each token."""
        estimate = np.maximum(self.unlabelled, 1)
        cost: Floats = -np.log(estimate / (np.maximum(self.exact, 1).sum(axis=1) + estimate))
        return cost[:, None]


class Scales(NamedTuple):
    """Factors of the costs of each family: 1 leaves them as counted, 0 switches a family off."""

    exact: float = 1.0
    subsequence: float = 1.0
    unlabelled: float = 1.0

    def at(self, temperature: float) -> Scales:
        """The factors divided by a temperature, as a model's scores are."""
        return Scales(*(scale / temperature for scale in self))


AS_COUNTED = Scales()
AS_PUBLISHED = Scales(1.0, 1.0, 0.0)
"""Scales of Finkel, Grenager & Manning (2005), whose model has no costs of words that are left unlabelled."""


@dataclass(frozen=True, eq=False)
class LabelConsistency:
    """The families as a `ConstraintSet`: counts from training documents, with a tuned scale for each family.

    Scales `AS_PUBLISHED` are the paper's model. ``replaced`` names families in whose place declared constraints stand.
    """

    counts: PairCounts
    scales: Scales = AS_COUNTED
    replaced: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The families' names, in the order of `Scales`."""
        return tuple(name for name in CONSISTENCY_FAMILIES if name not in self.replaced)

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that are read: only the words."""
        return (TOKENS,)

    @property
    def titles(self) -> tuple[str, ...]:
        """The families that are switched on."""
        scales = zip(CONSISTENCY_FAMILIES, self.scales, strict=True)
        return tuple(name for name, scale in scales if scale > 0 and name not in self.replaced)

    def without(self, title: str) -> LabelConsistency:
        """The same set with one family switched off. Raises `KeyError` if that family is not on."""
        if title not in self.titles:
            raise KeyError(title)
        new = (0.0 if name == title else scale for name, scale in zip(CONSISTENCY_FAMILIES, self.scales, strict=True))
        return replace(self, scales=Scales(*new))

    @cached_property
    def digest(self) -> str:
        """Hex digest of counts, types and scales."""
        state = hashlib.sha256(
            repr((self.counts.types, self.counts.fold_case, tuple(self.scales), LONGEST_NAME)).encode()
        )
        state.update("".join(sorted(self.replaced)).encode())
        for counts in (self.counts.exact, self.counts.subsequence, self.counts.unlabelled):
            state.update(counts.tobytes())
        return state.hexdigest()

    @property
    def strengths(self) -> RuleStrengths:
        """The costs of each family."""
        form = hashlib.sha256(repr((self.counts.types, self.counts.fold_case, LONGEST_NAME)).encode()).hexdigest()
        families = zip(self.names, (cost for _, cost in self._families), strict=True)
        return RuleStrengths(
            strengths=tuple(
                Strength(name=name, form=form, weights=tuple(cost.ravel().tolist())) for name, cost in families
            )
        )

    @cached_property
    def _families(self) -> tuple[tuple[Relation, Floats], ...]:
        """Relation and costs of each of the `names`."""
        costs = self.counts.exact_cost(), self.counts.subsequence_cost(), self.counts.unlabelled_cost()
        every = zip(CONSISTENCY_FAMILIES, RELATIONS, self.scales, costs, strict=True)
        return tuple((relation, scale * cost) for name, relation, scale, cost in every if name not in self.replaced)

    def ground(self, batch: Batch, labels: LabelSet) -> list[GroundConstraints]:
        """The agreements of each document. Raises `ValueError` if the label set has other types than were counted."""
        if labels.types != self.counts.types:
            raise ValueError(f"consistency was counted for types {self.counts.types}, the model has {labels.types}")
        return [self._on(document) for document in batch]

    def _on(self, document: Document) -> GroundConstraints:
        keys = document_keys(document, fold_case=self.counts.fold_case)
        agreements = tuple(SpanAgreement(k, relation, keys, cost) for k, (relation, cost) in enumerate(self._families))
        return GroundConstraints(LinearRows.none(), agreements)

    def with_costs(self, problem: Problem) -> Problem:
        """A problem that a `LabelConsistency` grounded, with the costs of this one; the keys stay."""
        agreements = tuple(replace(a, cost=self._families[a.constraint][1]) for a in problem.agreements)
        return replace(problem, agreements=agreements)

    def adjust(self, batch: Batch, potentials: Potentials, labels: LabelSet) -> Potentials:
        """The potentials, unchanged."""
        del batch, labels
        return potentials


def document_keys(document: Document, *, fold_case: bool = False) -> NDArray[np.int32]:
    """(N, `LONGEST_NAME`) span keys of a document's words, as written or with letter case folded."""
    column = document.columns[TOKENS]
    codes = column.codes
    if fold_case and len(codes):
        used, place = np.unique(codes, return_inverse=True)
        folded: dict[str, int] = {}
        codes = np.array([folded.setdefault(column.values[i].lower(), len(folded)) for i in used.tolist()], np.int32)[
            place
        ]
    return span_keys(codes, document.sentence_starts, LONGEST_NAME)
