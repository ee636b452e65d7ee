"""How often rules about runs bind and break in gold, and how often they would hold by chance: what mining counts.

A trial is a document, so that trials are independent. Rules about order are compared with the same runs in other orders
(`Runs.shuffled`), rules about places of change with the same number of changes at other places. Chances are summed in
whole billionths, so that sums do not depend on how a corpus is cut. Rules about which runs a document has are compared
with runs that are dealt out anew over all documents, which takes counts only: `workers.learning.mining.rules`.

Rules speak of *fields*: span types and, where types are paths, levels of them (`workers.learning.mining.fields`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints, Mask
from concord.schemas.document import TOKENS, Batch
from concord.schemas.labels import Labels, LabelSet
from concord.workers.constraints.templates.runs import ChangeSide
from concord.workers.constraints.templates.template import PUNCTUATION, Site, TokenTest, same_run
from concord.workers.learning.mining.fields import Fields, View, fields_of
from concord.workers.learning.mining.run_order import Runs

Key = TypeVar("Key")

BILLION = 10**9
SIDES = tuple(ChangeSide)
MARK_SIDES = (ChangeSide.BEFORE, ChangeSide.AFTER)
BLOCK = 8_000
"""Tokens of the documents that are counted together."""


class RuleKind(StrEnum):
    """What a rule says, of a field A, or of two, A and B."""

    STARTS = "starts"
    """The first run is A."""
    ENDS = "ends"
    """The last run is A."""
    FOLLOWED = "followed"
    """What follows a run of A is B."""
    CHOICE = "choice"
    """What follows a run of a type A is B or C."""
    APART = "apart"
    """B does not follow A."""
    ORDER = "order"
    """No B stands before an A."""
    TOGETHER = "together"
    """A level A is one run."""
    CHANGES = "changes"
    """Labels change beside punctuation only; A is a `ChangeSide`."""
    STOPS = "stops"
    """Runs of a type A (or any) end at a mark; B is the mark, C the `ChangeSide` of the change it stands on."""
    ONCE = "once"
    """A type A is one run."""
    ONE_OF = "one-of"
    """Types A and B are one run in all."""
    THERE = "there"
    """A is there."""
    EITHER = "either"
    """A or B is there."""
    NEEDS = "needs"
    """Where A is, B is."""
    MATCHED = "matched"
    """Where a type A is, there are as many runs of B, or more."""


def blocks(batch: Batch, labels: LabelSet) -> Iterator[tuple[Batch, Labels]]:
    """Documents that have tokens a few at a time, with their gold labels, where there are any. Raises `LabelError`."""
    gold = None if batch.labels is None else labels.encode(batch.labels.strings())
    for first, last in batch.runs(BLOCK):
        start, end = batch.doc_starts[first], batch.doc_starts[last]
        if gold is not None and end > start:
            yield batch.part(first, last), gold[start:end]


RuleMasks = tuple[Mask, Mask]
"""In which documents a rule binds, and in which of them it holds: (D, …) of all rules of a kind."""


@dataclass(frozen=True, eq=False)
class RuleCounts:
    """Counts that add up over shards. With T types, F fields and K = F + 1, the last of which is outside all spans:

    ``tables`` has for every kind (3, …) documents in which the rule binds, those that break it, and billionths of
    those in which it would hold by chance (0 for rules about which runs there are); after that come A and B, (K,) or
    (K, K); of `RuleKind.CHANGES` (3,) sides; of `RuleKind.CHOICE` (2, T + 1, T + 1, T + 1) documents, and billionths of
    those by chance, in which just B and C follow runs of A. ``marks`` has for each mark (3, 2, T + 1) the same of
    `RuleKind.STOPS`: sides, and types, last any. ``sizes`` has for so many labelled runs in a document (1 + F + T · T,)
    how many documents have them, and how many of these have each field, and either of two types. ``runs`` (T,) are
    the runs of each type.
    """

    documents: int
    rejected: int
    with_gold: int
    tables: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    marks: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    sizes: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    runs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, batch: Batch, labels: LabelSet, *, orders: int, seed: int, rejected: int = 0) -> RuleCounts:
        """Counts of the documents of a batch that has gold labels. Raises `LabelError` for labels of no such name."""
        parts = [cls(len(batch), rejected, 0 if batch.labels is None else len(batch))]
        parts += [_counted(part, gold, labels, orders, seed) for part, gold in blocks(batch, labels)]
        return cls.merge(parts)

    @classmethod
    def merge(cls, parts: Iterable[RuleCounts]) -> RuleCounts:
        """The counts of all parts together."""
        given = list(parts)
        runs = [part.runs for part in given if len(part.runs)]
        return cls(
            sum(part.documents for part in given),
            sum(part.rejected for part in given),
            sum(part.with_gold for part in given),
            _added([part.tables for part in given]),
            dict(sorted(_added([part.marks for part in given]).items())),
            dict(sorted(_added([part.sizes for part in given]).items())),
            np.sum(runs, axis=0) if runs else np.zeros(0, np.int64),
        )


def _added(tables: Iterable[dict[Key, NDArray[np.int64]]]) -> dict[Key, NDArray[np.int64]]:
    total: dict[Key, NDArray[np.int64]] = {}
    for table in tables:
        for key, counts in table.items():
            total[key] = total[key] + counts if key in total else counts
    return total


def _counted(batch: Batch, gold: Labels, labels: LabelSet, orders: int, seed: int) -> RuleCounts:
    runs, fields, site = Runs.of(batch, gold, labels), fields_of(labels), Site(batch, labels)
    tables = _order_tables(runs, fields, orders, seed)
    tables[RuleKind.CHANGES] = _change_table(site, gold)
    there = np.zeros((len(runs), runs.kinds), np.int64)
    np.add.at(there, (runs.documents, runs.types), 1)
    there = there[:, :-1]
    has = there @ fields.types.T > 0
    presence = _presence_tables(there, has)
    return RuleCounts(0, 0, 0, tables | presence, _mark_tables(site, gold), _sizes(there, has), there.sum(axis=0))


class _Orders:
    """Sums over gold, first, and other orders of the same runs, of what a view of them says."""

    def __init__(self, runs: Runs, view: View) -> None:
        self._runs, self._view = runs, view
        self._gold = order_verdicts(runs, view.of[runs.types], view.size)
        self._sums = {kind: [part.astype(np.int64) for part in verdict] for kind, verdict in self._gold.items()}

    def add(self, types: Ints) -> None:
        """One more order of the runs."""
        for kind, verdict in order_verdicts(self._runs, self._view.of[types], self._view.size).items():
            for total, amount in zip(self._sums[kind], verdict, strict=True):
                total += amount

    @property
    def bound(self) -> Mask:
        """(D, size, size) does something follow a run of A, in gold?"""
        return self._gold[RuleKind.FOLLOWED][0]

    @property
    def binding(self) -> NDArray[np.int64]:
        """(D, size, size) in so many orders."""
        return self._sums[RuleKind.FOLLOWED][0]

    def tables(self) -> dict[RuleKind, NDArray[np.int64]]:
        """(3, size, …) of every kind, see `RuleCounts`."""
        found: dict[RuleKind, NDArray[np.int64]] = {}
        for kind, (bind, holds) in self._gold.items():
            # Gold is one of the orders: where it binds the share is defined, and it is never 0 for what gold keeps.
            chance = billionths(self._sums[kind][1], self._sums[kind][0])
            found[kind] = np.stack([bind.sum(axis=0), (bind & ~holds).sum(axis=0), (bind * chance).sum(axis=0)])
        return found


def billionths(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.int64]:
    """Shares, 0 of nothing."""
    return np.rint(BILLION * part / np.maximum(whole, 1)).astype(np.int64)


def _order_tables(runs: Runs, fields: Fields, orders: int, seed: int) -> dict[str, NDArray[np.int64]]:
    seen = [_Orders(runs, view) for view in fields.views]
    pairs = [_followed_by_two(runs, runs.types)]
    for types in runs.shuffled(orders, seed):
        pairs.append(_followed_by_two(runs, types))
        for one in seen:
            one.add(types)
    tables: dict[str, NDArray[np.int64]] = {RuleKind.CHOICE: _choice_table(pairs, seen[0], runs.kinds)}
    size = len(fields.names) + 1
    for view, one in zip(fields.views, seen, strict=True):
        for kind, table in one.tables().items():
            named = table.ndim - 1
            whole = tables.setdefault(kind, np.zeros((3, *[size] * named), np.int64))
            # What two views say of the same fields is the same.
            whole[np.ix_(np.arange(3), *[view.field] * named)] = table
    return tables


def _followed_by_two(runs: Runs, types: Ints) -> Ints:
    """Codes of (document, A, B, C), B < C: the types after runs of A there are B and C, and no other."""
    after = _after(runs, types, runs.kinds) > 0
    document, first = np.nonzero(after.sum(axis=2) == 2)
    third = np.nonzero(after[document, first])[1].reshape(-1, 2)
    return np.ravel_multi_index((document, first, *third.T), after.shape + after.shape[-1:])


def _choice_table(pairs: Sequence[Ints], types: _Orders, kinds: int) -> NDArray[np.int64]:
    """(2, T + 1, T + 1, T + 1) from gold's codes and those of other orders, see `RuleCounts`."""
    table = np.zeros((2, kinds, kinds, kinds), np.int64)
    codes, times = np.unique(np.concatenate(pairs), return_counts=True)
    document, *own = np.unravel_index(codes, (len(types.bound), kinds, kinds, kinds))
    at = document, own[0], own[1]
    np.add.at(table[1], tuple(own), types.bound[at] * billionths(times, types.binding[at]))
    np.add.at(table[0], np.unravel_index(pairs[0], (len(types.bound), kinds, kinds, kinds))[1:], 1)
    return table


def _after(runs: Runs, types: Ints, kinds: int) -> NDArray[np.int64]:
    """(D, kinds, kinds) how often a run of B comes right after one of A."""
    at = np.flatnonzero(runs.joined)
    pairs = np.zeros((len(runs), kinds, kinds), np.int64)
    np.add.at(pairs, (runs.documents[at], types[at - 1], types[at]), 1)
    pairs[:, np.arange(kinds), np.arange(kinds)] = 0
    return pairs


def order_verdicts(runs: Runs, types: Ints, kinds: int) -> dict[RuleKind, RuleMasks]:
    """Which rules about order hold in each document where its runs have these types (R,), each below ``kinds``."""
    count, document = len(runs), runs.documents
    every = np.arange(kinds)
    first, last = np.full((count, kinds), len(types)), np.full((count, kinds), -1)
    np.minimum.at(first, (document, types), np.arange(len(types)))
    np.maximum.at(last, (document, types), np.arange(len(types)))
    there = last >= 0
    pairs = _after(runs, types, kinds)
    followed = pairs.sum(axis=2, keepdims=True)
    differ = every[:, None] != every
    always = np.ones((count, kinds), np.bool_)
    ends = (("starts", runs.starts[:-1]), ("ends", runs.starts[1:] - 1))
    found: dict[RuleKind, RuleMasks] = {
        RuleKind(name): (always, types[place][:, None] == every) for name, place in ends
    }
    binds = np.broadcast_to((followed > 0) & differ, pairs.shape)
    found[RuleKind.FOLLOWED] = binds, binds & (pairs == followed)
    binds = binds & there[:, None, :]
    found[RuleKind.APART] = binds, binds & (pairs == 0)
    binds = there[:, :, None] & there[:, None, :] & differ
    found[RuleKind.ORDER] = binds, binds & (last[:, :, None] < first[:, None, :])
    found[RuleKind.TOGETHER] = there, _stretches(runs, types, kinds) == 1
    return found


def _stretches(runs: Runs, types: Ints, kinds: int) -> NDArray[np.int64]:
    """(D, kinds) how often a stretch of runs of one kind begins."""
    begins = np.ones(len(types), np.bool_)
    begins[1:] = ~runs.joined[1:] | (types[1:] != types[:-1])
    found = np.zeros((len(runs), kinds), np.int64)
    np.add.at(found, (runs.documents[begins], types[begins]), 1)
    return found


def _change_table(site: Site, gold: Labels) -> NDArray[np.int64]:
    inner, passes = site.inner, site.mask(TokenTest(pattern=PUNCTUATION))
    changes = _changes(site, gold)
    before, after = passes[inner - 1], passes[inner]
    free = {ChangeSide.BEFORE: before, ChangeSide.AFTER: after, ChangeSide.EITHER: before | after}
    size = len(site.batch)
    document, table = site.document_of[inner], np.zeros((3, len(SIDES)), np.int64)
    edges, changed = (np.bincount(document, m, size).astype(int) for m in (np.ones(len(inner)), changes))
    for i, side in enumerate(SIDES):
        there, kept = (np.bincount(document, m, size).astype(int) for m in (free[side], free[side] & changes))
        chances = [_all_free(*d) for d in zip(there.tolist(), edges.tolist(), changed.tolist(), strict=True) if d[2]]
        table[:, i] = len(chances), int((kept < changed).sum()), sum(chances)
    return table


def _changes(site: Site, gold: Labels) -> Mask:
    """(inner edges,) does a run end there?"""
    changes: Mask = ~same_run(site.labels)[gold[site.inner - 1], gold[site.inner]]
    return changes


def _all_free(free: int, edges: int, changes: int) -> int:
    """Billionths of the chance that so many changes, at any of the edges, are all at free ones."""
    return round(BILLION * prod(max(0, free - i) / (edges - i) for i in range(changes)))


def _mark_tables(site: Site, gold: Labels) -> dict[str, NDArray[np.int64]]:
    """By mark, (3, 2, T + 1), see `RuleCounts`."""
    types = len(site.labels.types)
    inner, kind, changes = site.inner, site.labels.type_of[gold], _changes(site, gold)
    tables: dict[str, NDArray[np.int64]] = {}
    for side, at in enumerate((inner - 1, inner)):
        for own in (np.full(len(at), types), kind[at]):
            inside = own >= 0
            for mark, of, counts in _marked(site, at[inside], own[inside], changes[inside]):
                table = tables.setdefault(mark, np.zeros((3, len(MARK_SIDES), types + 1), np.int64))
                table[:, side, of] += counts
    return tables


def _marked(site: Site, at: Ints, of: Ints, changes: Mask) -> Iterator[tuple[str, int, tuple[int, int, int]]]:
    """Marks, what they stand in, and whether a document there binds, breaks, and holds by chance (billionths).

    ``at``, ``of`` and ``changes`` are a token, what it belongs to, and whether the run ends there, edge by edge.
    """
    words = site.batch.columns[TOKENS]
    place = site.document_of[at] * (len(site.labels.types) + 1) + of
    edges, changed = np.bincount(place), np.bincount(place, changes).astype(int)
    here = site.mask(TokenTest(pattern=PUNCTUATION))[at]
    cell = np.stack([words.codes[at[here]], place[here]])
    cells, cell_of, count = np.unique(cell, axis=1, return_inverse=True, return_counts=True)
    kept = np.bincount(cell_of.ravel(), changes[here], cells.shape[1]).astype(int)
    for (word, there), marks, held in zip(cells.T.tolist(), count.tolist(), kept.tolist(), strict=True):
        chance = _all_free(int(changed[there]), int(edges[there]), marks)
        yield words.values[word], there % (len(site.labels.types) + 1), (1, int(held < marks), chance)


def _presence_tables(there: NDArray[np.int64], has: Mask) -> dict[str, NDArray[np.int64]]:
    """From the runs (D, T) of each type in each document, and whether it has each field (D, F)."""
    one, documents = has.astype(np.int64), has.sum(axis=0)
    both = one.T @ one
    needs = np.stack([np.broadcast_to(documents[:, None], both.shape), documents[:, None] - both, 0 * both])
    either = documents[:, None] + documents - both
    every, types = np.full_like(documents, len(has)), there.shape[1]
    pairs = np.zeros((2, types, types), np.int64)
    for a in range(types):
        own = there[:, a, None]
        pairs[:, a] = ((own + there > 1).sum(axis=0), ((own > 0) & (there < own)).sum(axis=0))
    own = either[:types, :types]
    tables = {
        RuleKind.ONCE: np.stack([documents[:types], (there > 1).sum(axis=0), 0 * documents[:types]]),
        RuleKind.ONE_OF: np.stack([own, pairs[0], 0 * own]),
        RuleKind.THERE: np.stack([every, every - documents, 0 * every]),
        RuleKind.EITHER: np.stack([np.full_like(either, len(has)), len(has) - either, 0 * either]),
        RuleKind.NEEDS: needs,
        RuleKind.MATCHED: np.stack([needs[0, :types, :types], pairs[1], 0 * own]),
    }
    return {str(kind): table for kind, table in tables.items()}


def _sizes(there: NDArray[np.int64], has: Mask) -> dict[int, NDArray[np.int64]]:
    totals, types = there.sum(axis=1), there.shape[1]
    found = {}
    for size in np.unique(totals).tolist():
        one = has[totals == size].astype(np.int64)
        own = one[:, :types]
        either = own.sum(axis=0)[:, None] + own.sum(axis=0) - own.T @ own
        found[size] = np.concatenate([[len(one)], one.sum(axis=0), either.ravel()])
    return found
