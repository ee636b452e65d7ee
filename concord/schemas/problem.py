"""The ground problem of one document, shared by models, constraints, engines and reports, and its one `score`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Floats1d, Ids1d, Ids2d, Ints1d, Mask1d
from concord.schemas.decoded import Decoded, Improvement, Score, Status
from concord.schemas.labels import OUTSIDE, Labels, LabelSet, Spans
from concord.schemas.potentials import Potentials

ANY = -1
"""In `LinearRows.previous`: any previous label (a token label is the sum over them)."""

NO_KEY = -1
"""In `SpanAgreement.key`: this span occurs once, so nothing can disagree with it."""


SLACK_TOLERANCE = 1e-9
"""Smallest tolerance of a row: it holds if its bound is exceeded by no more. 0.1 + 0.2 ≤ 0.3 fails in floats."""

SUM_ROUNDING = 1e-15
"""Ten times the rounding error that each term adds to a sum in floats, as a fraction of the terms' magnitude."""

EXACT_UNIT, EXACT_SUM = 2.0**-20, 2.0**32
"""Sums of multiples of ``EXACT_UNIT`` have no rounding error, in any order, up to the magnitude ``EXACT_SUM``."""


@dataclass(frozen=True, eq=False)
class LinearRows:
    """R rows Σ coefficient · 1[y_{t−1} = previous ∧ y_t = label] ≤ bound, in sparse form.

    - ``pointer`` (R + 1,): the entries of row r are pointer[r]:pointer[r + 1].
    - ``position`` (E,): token of each entry.
    - ``previous`` (E,): previous label; `ANY` for a token label, and always at the first token of a sentence.
    - ``label`` (E,): label at the token.
    - ``coefficient`` (E,): coefficient of the entry.
    - ``bound`` (R,): bound of each row.
    - ``weight`` (R,): nats per unit of degree; inf: hard.
    - ``constraint`` (R,): index in `Problem.constraint_names`; K for a row of the model's own, part of the local score.

    The degree of a row is max(0, Σ − bound), Stokman (2011) eq. 56, and 0 within its `slack`; its penalty is weight ·
    degree. Rows with ≥ are negated, equalities are two rows.
    """

    pointer: Ints1d
    position: Ids1d
    previous: Ids1d
    label: Ids1d
    coefficient: Floats1d
    bound: Floats1d
    weight: Floats1d
    constraint: Ids1d

    @classmethod
    def none(cls) -> LinearRows:
        """No rows at all."""
        ints, floats = np.zeros(0, np.int32), np.zeros(0, np.float64)
        return cls(np.zeros(1, np.int64), ints, ints, ints, floats, floats, floats, ints)

    @classmethod
    def join(cls, parts: Sequence[LinearRows]) -> LinearRows:
        """All rows of the parts, in their order."""
        if not parts:
            return cls.none()
        shifts = np.cumsum([0, *(len(p.position) for p in parts)])
        pointers = [p.pointer[1:] + s for p, s in zip(parts, shifts, strict=False)]
        return cls(
            np.concatenate([np.zeros(1, np.int64), *pointers]),
            np.concatenate([p.position for p in parts]),
            np.concatenate([p.previous for p in parts]),
            np.concatenate([p.label for p in parts]),
            np.concatenate([p.coefficient for p in parts]),
            np.concatenate([p.bound for p in parts]),
            np.concatenate([p.weight for p in parts]),
            np.concatenate([p.constraint for p in parts]),
        )

    def __len__(self) -> int:
        return len(self.bound)

    def part(self, rows: NDArray[np.int64]) -> LinearRows:
        """The ``rows`` (n,) alone, in that order."""
        lengths = np.diff(self.pointer)[rows]
        pointer = np.append(0, np.cumsum(lengths)).astype(np.int64)
        entries = np.arange(pointer[-1]) + np.repeat(self.pointer[rows] - pointer[:-1], lengths)
        return LinearRows(
            pointer,
            self.position[entries],
            self.previous[entries],
            self.label[entries],
            self.coefficient[entries],
            self.bound[rows],
            self.weight[rows],
            self.constraint[rows],
        )

    @cached_property
    def row_of_entry(self) -> NDArray[np.int64]:
        """(E,) row of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.pointer))

    @cached_property
    def by_position(self) -> NDArray[np.int64]:
        """(E,) indices of the entries, row by row, and in each row by position."""
        return np.lexsort((self.position, self.row_of_entry))

    @cached_property
    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(R,) the first and the last token that each row looks at; 0 and −1 for a row without entries."""
        first, last = np.zeros(len(self), np.int64), np.full(len(self), -1)
        filled = np.flatnonzero(np.diff(self.pointer))
        if len(filled):
            begins = self.pointer[filled]
            first[filled] = np.minimum.reduceat(self.position - (self.previous != ANY), begins)
            last[filled] = np.maximum.reduceat(self.position, begins)
        return first, last

    @cached_property
    def summed_exactly(self) -> NDArray[np.bool_]:
        """(R,) mask of the rows whose numbers have exact sums in floats, in any order of adding."""
        numbers, row = np.append(self.coefficient, self.bound), np.append(self.row_of_entry, np.arange(len(self)))
        broken = np.bincount(row, numbers % EXACT_UNIT != 0.0, len(self))
        exact: NDArray[np.bool_] = (broken == 0) & (self._magnitude <= EXACT_SUM)
        return exact

    @cached_property
    def slack(self) -> Floats:
        """(R,) tolerance of each row: the excess over its bound up to which it still holds.

        It is `SLACK_TOLERANCE`, or, if that is more, ten times the largest rounding error of a sum of its n terms:
        (n − 1) · 2⁻⁵³ of their magnitude (Higham 2002, ch. 4). So a sum in another order than in `degree`, or an exact
        one, differs by less than a tenth of the tolerance.
        """
        terms = np.diff(self.pointer) + 1
        rounded = np.where(self.summed_exactly, 0.0, SUM_ROUNDING * terms * self._magnitude)
        return np.maximum(SLACK_TOLERANCE, rounded)

    @cached_property
    def _magnitude(self) -> Floats:
        """(R,) Σ |coefficient| + |bound|."""
        entries = np.bincount(self.row_of_entry, np.abs(self.coefficient), len(self)).astype(np.float64)
        return entries + np.abs(self.bound)

    def degree(self, labels: Labels) -> Floats:
        """(R,) max(0, Σ − bound) of each row under a labelling (N,); 0 within its `slack`."""
        if not len(self):
            return np.zeros(0)
        before = np.concatenate([[ANY], labels[:-1]])
        fits = (self.previous == ANY) | (self.previous == before[self.position])
        held = fits & (labels[self.position] == self.label)
        activity = np.bincount(self.row_of_entry, self.coefficient * held, len(self))
        excess = np.maximum(activity - self.bound, 0.0)
        # Few rows are broken, and only for these is it worth to compute the slack.
        broken = np.flatnonzero(excess > SLACK_TOLERANCE)
        excess[excess <= SLACK_TOLERANCE] = 0.0
        if len(broken):
            excess[broken[excess[broken] <= self.part(broken).slack]] = 0.0
        return excess


class Relation(StrEnum):
    """Relation between two labelled spans of a document; an agreement charges pairs that stand in it."""

    EXACT = "exact"
    """Both spans have the same key; cost[a, b] for their types, symmetric (zero on the diagonal for Finkel et al.)."""
    CONTAINED = "contained"
    """The key of the second is the key of a proper part of the first; cost[type of the longer,
    type of the shorter]. A key that occurs twice in the longer span counts once."""
    DIFFERENT = "different"
    """The spans have different keys; cost[a, b] for their types, symmetric (values that differ)."""
    UNLABELLED = "unlabelled"
    """A span, and another place with the same key whose first token has an outside label, and so is in no span
    of any length: cost[a, 0] for the span's type (a name that is labelled here and left out there)."""


@dataclass(frozen=True, eq=False)
class SpanAgreement:
    """A cost in nats for every pair of labelled spans of one document that stand in ``relation``.

    - ``constraint``: index in `Problem.constraint_names`.
    - ``key`` (N, W): ``key[t, w − 1]`` names the content of the span of w tokens that starts at t. It is `NO_KEY` if
      nothing can stand in the relation with the span: its content occurs once in the document, or it leaves its
      sentence.
    - ``cost`` (T, T), or (T, 1) for `Relation.UNLABELLED`: nats, never negative.
    - ``per_token``: is the cost multiplied by the length, in tokens, of the second (shorter) span? Finkel et al. (2005)
      §5.1. Spans that differ have no common length, so `Relation.DIFFERENT` goes without.

    An agreement compares spans by its own table alone, and only spans of at most W tokens:

    - A span of more than W tokens is in no pair, neither as the longer span of `Relation.CONTAINED` nor as
      one that differs, even if another agreement has a wider table with it.
    - A span whose key is `NO_KEY` is in no pair either. Exception: the longer span of `Relation.CONTAINED`, of
      which only the parts are looked up.

    Equal tables mean the same whether or not they are one object; a shared one costs less time. All agreements of a
    problem that compare by words share one. A key names spans of one length; only tables of `Relation.DIFFERENT` may
    give one key to several lengths.
    """

    constraint: int
    relation: Relation
    key: Ids2d
    cost: Floats
    per_token: bool = True

    def __post_init__(self) -> None:
        if self.relation is Relation.DIFFERENT and self.per_token:
            raise ValueError("spans that differ have no common length: use per_token=False")
        if self.relation is Relation.UNLABELLED and self.cost.shape[1] != 1:
            raise ValueError("unlabelled places have no type: cost is (T, 1)")

    @property
    def can_charge(self) -> bool:
        """Is there a labelling that it may charge: has some pair of types a cost, and some span a key?"""
        return bool((self.cost > 0).any() and (self.key != NO_KEY).any())

    def degree_and_penalty(self, spans: NamedSpans) -> tuple[float, float]:
        """Number of pairs that cost something (times length if ``per_token``), and their cost in nats."""
        pairs = self.pair_counts(spans)
        if self.relation in (Relation.EXACT, Relation.DIFFERENT):
            pairs = np.triu(pairs)
        held = pairs > 0  # 0 · inf is no penalty: a hard cost that nothing meets
        return float(pairs[self.cost > 0].sum()), float((pairs[held] * self.cost[held]).sum())

    def pair_counts(self, spans: NamedSpans) -> Floats:
        """(T, T) number of pairs that stand in the relation, by type, times length if ``per_token``.

        ``spans`` are named by this agreement's ``key``. For `Relation.CONTAINED` the row is the longer span's type;
        `Relation.UNLABELLED` gives (T, 1). Otherwise the counts are symmetric: unordered pairs of types a ≠ b
        stand in both halves, pairs of one type on the diagonal.
        """
        types = len(self.cost)
        weighted = spans.by_type(types, per_token=self.per_token)
        if self.relation is Relation.UNLABELLED:
            return weighted.T @ spans.left_out()[:, None]
        if self.relation is Relation.CONTAINED:
            outer, inner = spans.parts()
            by_inner = [np.bincount(outer, weighted[inner, kind], types) for kind in range(types)]
            return np.array(by_inner, np.float64).reshape(types, types).T
        counts = spans.by_type(types, per_token=False)
        same = weighted.T @ counts
        same_one = same - np.diag(weighted.sum(axis=0))
        if self.relation is Relation.EXACT:
            return _halve_diagonal(same_one)
        total = counts.sum(axis=0)
        return _halve_diagonal(np.outer(total, total) - counts.T @ counts)


@dataclass(frozen=True, eq=False)
class NamedSpans:
    """Spans of one labelling with their names in a key table; only spans of at most W tokens.

    - ``key`` (N, W): the key table.
    - ``start``, ``length``, ``type`` (S,): the spans.
    - ``known``: indices of the spans that have a key.
    - ``names`` (K,): keys that occur, sorted.
    - ``name``: for each of the ``known`` spans, index of its key in ``names``.
    - ``outside`` (N,): mask of the tokens that are in no span of any length.
    """

    key: Ids2d
    start: Ints1d
    length: Ints1d
    type: Ids1d
    known: Ints1d
    names: Ids1d
    name: Ints1d
    outside: Mask1d

    @classmethod
    def of(cls, key: NDArray[np.int32], spans: Spans) -> NamedSpans:
        """Looks up the keys of the spans."""
        length = spans.end - spans.start
        short = length <= key.shape[1]
        start, length = spans.start[short], length[short]
        keys = key[start, length - 1]
        known = np.flatnonzero(keys != NO_KEY)
        names, name = np.unique(keys[known], return_inverse=True)
        depth = np.zeros(len(key) + 1, np.int64)
        depth[spans.start] += 1
        depth[spans.end] -= 1
        return cls(key, start, length, spans.type[short], known, names, name, np.cumsum(depth)[:-1] == 0)

    def by_type(self, types: int, *, per_token: bool) -> Floats:
        """(K, T) number of spans by name and type; each counts as often as it has tokens if ``per_token``."""
        weight = self.length[self.known] if per_token else None
        cells = self.name * types + self.type[self.known]
        counts = np.bincount(cells, weight, len(self.names) * types)
        return counts.astype(np.float64).reshape(len(self.names), types)

    def left_out(self) -> Floats:
        """(K,) number of places with each name that begin outside all spans."""
        keys = self.key[self.outside]
        size = int(self.names.max(initial=0)) + 1
        return np.bincount(keys[keys != NO_KEY], minlength=size)[self.names].astype(np.float64)

    def parts(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Pairs (type of a span, name of a proper part of it), for parts whose name is labelled elsewhere; each name of
        a span once."""
        outer, inner = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for length in np.unique(self.length[self.length > 1]).tolist():
            these = np.flatnonzero(self.length == length)
            offset, width = _proper_parts(length)
            keys = self.key[self.start[these, None] + offset, width - 1]
            outer.append(np.repeat(these, len(offset)))
            inner.append(keys.ravel())
        keys = np.concatenate(inner)
        place = np.minimum(np.searchsorted(self.names, keys), max(len(self.names) - 1, 0))
        hit = self.names[place] == keys if len(self.names) else np.zeros(len(keys), np.bool_)
        step = max(len(self.names), 1)
        span, name = np.divmod(np.unique(np.concatenate(outer)[hit] * step + place[hit]), step)
        return self.type[span], name


@cache
def _proper_parts(length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offset and width, in tokens, of every proper part of a span of ``length`` tokens."""
    pairs = [(offset, width) for width in range(1, length) for offset in range(length - width + 1)]
    return tuple(np.array(pairs, np.int64).T)


def _halve_diagonal(ordered: Floats) -> Floats:
    """Counts of unordered pairs from those of ordered pairs, which have pairs of one type twice."""
    ordered[np.diag_indices_from(ordered)] /= 2.0
    return ordered


class KeyTables(NamedTuple):
    """The distinct key tables of A agreements; ``used`` (A,) is the index of each agreement's table."""

    tables: tuple[NDArray[np.int32], ...]
    used: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Problem:
    """One document to be labelled: argmax_y local(y) − Σ_k ρ_k · degree_k(y), Chang et al. (2008) eq. 2.

    ``potentials`` already hold the label set's legality as −inf. Engines read arrays and never
    learn which template made a row.

    - ``outside_cost``: nats by which ``potentials`` hold a token outside of entities to be less likely than it is.
    """

    potentials: Potentials
    labels: LabelSet
    constraint_names: tuple[str, ...] = ()
    rows: LinearRows = field(default_factory=LinearRows.none)
    agreements: tuple[SpanAgreement, ...] = ()
    outside_cost: float = 0.0

    def __len__(self) -> int:
        return len(self.potentials)

    @property
    def likelihoods(self) -> Potentials:
        """The potentials without the outside cost: those of what is likely, by which probabilities are told."""
        if self.outside_cost == 0.0:
            return self.potentials
        return self.potentials.costing(self.labels.index[OUTSIDE], -self.outside_cost)

    @cached_property
    def key_tables(self) -> KeyTables:
        """The distinct key tables; agreements may share one."""
        tables: list[NDArray[np.int32]] = []
        used: list[int] = []
        for agreement in self.agreements:
            shared = [i for i, table in enumerate(tables) if table is agreement.key]
            used += shared or [len(tables)]
            tables += [] if shared else [agreement.key]
        return KeyTables(tuple(tables), np.array(used, np.int64))

    def binding(self) -> Problem:
        """The problem without agreements that charge no labelling; scores and names of constraints are the same.

        Engines take another way where there are agreements, and a longer one.
        """
        kept = tuple(agreement for agreement in self.agreements if agreement.can_charge)
        return self if len(kept) == len(self.agreements) else replace(self, agreements=kept)

    def relaxed(self, weight: float) -> Problem:
        """The problem with every hard constraint at ``weight`` nats a unit of degree."""
        rows = replace(self.rows, weight=np.where(np.isinf(self.rows.weight), weight, self.rows.weight))
        agreements = [replace(a, cost=np.where(np.isinf(a.cost), weight, a.cost)) for a in self.agreements]
        return replace(self, rows=rows, agreements=tuple(agreements))

    def score(self, labels: Labels) -> Score:
        """The single definition of the objective, for a labelling (N,)."""
        degree = np.zeros(len(self.constraint_names) + 1)
        penalties = np.zeros(len(self.constraint_names) + 1)
        by_row = self.rows.degree(labels)
        broken = by_row > 0
        np.add.at(degree, self.rows.constraint[broken], by_row[broken])
        np.add.at(penalties, self.rows.constraint[broken], by_row[broken] * self.rows.weight[broken])
        if self.agreements:
            spans = self.labels.spans(labels, self.potentials.sentence_starts)
            tables, used = self.key_tables
            named = [NamedSpans.of(table, spans) for table in tables]
            for agreement, table in zip(self.agreements, used.tolist(), strict=True):
                pairs, cost = agreement.degree_and_penalty(named[table])
                degree[agreement.constraint] += pairs
                penalties[agreement.constraint] += cost
        return Score(self.potentials.score(labels) - float(penalties[-1]), degree[:-1], penalties[:-1])

    def with_own_rows(self, rows: LinearRows) -> Problem:
        """The problem with the model's own rows added; their cost is part of the local score, not of the penalty."""
        own = replace(rows, constraint=np.full(len(rows), len(self.constraint_names), np.int32))
        return replace(self, rows=LinearRows.join([self.rows, own]))

    def decoded(
        self,
        labels: Labels,
        *,
        bound: float,
        status: Status,
        work: int = 0,
        seconds: float = 0.0,
        improvements: Sequence[Improvement] = (),
        score: Score | None = None,
    ) -> Decoded:
        """Answer of an engine: its labelling, scored by this problem, with its bound and status.

        ``score`` is the labelling's `Problem.score`, if the caller has it already.
        """
        score = self.score(labels) if score is None else score
        return Decoded(labels, score, max(bound, score.objective), status, work, seconds, tuple(improvements))
