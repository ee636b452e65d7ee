"""Counts for mining: how often rules about runs bind and break in gold, and how often they would hold by chance.

A trial is a document, so that trials are independent. The probability that a rule holds by chance depends on its kind:

- Rules about order: the same runs in other orders (`Runs.shuffled`).
- Rules about places of change: the same number of changes at other places.
- Rules about which runs a document has: all runs dealt out anew over the documents. This takes only counts, see
  `workers.learning.mining.rules`.

Probabilities are summed in whole billionths, so that sums do not depend on how a corpus is cut into shards.

The terms of rules are *fields*: span types and, where types are paths, their levels (`workers.learning.mining.fields`).
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
CHANGE_SIDES = tuple(ChangeSide)
MARK_SIDES = (ChangeSide.BEFORE, ChangeSide.AFTER)
BLOCK = 8_000
"""Approximate number of tokens of the documents that are counted together."""


class RuleKind(StrEnum):
    """Kinds of rules, about a field A, or about two fields A and B."""

    STARTS = "starts"
    """The first run is A."""
    ENDS = "ends"
    """The last run is A."""
    FOLLOWED = "followed"
    """Each run right after a run of A is B."""
    CHOICE = "choice"
    """Each run right after a run of a type A is B or C."""
    APART = "apart"
    """No run of B comes right after a run of A."""
    ORDER = "order"
    """All runs of A come before all runs of B."""
    TOGETHER = "together"
    """The runs of a level A stand side by side, in one stretch."""
    CHANGES = "changes"
    """Labels change only beside punctuation; A is a `ChangeSide`."""
    STOPS = "stops"
    """Runs of a type A (or of any) end at a mark; B is the mark, C the `ChangeSide` on which it stands."""
    ONCE = "once"
    """A type A has one run."""
    ONE_OF = "one-of"
    """Types A and B have one run together."""
    THERE = "there"
    """The document has a run of A."""
    EITHER = "either"
    """The document has a run of A or of B."""
    NEEDS = "needs"
    """A document with a run of A has a run of B."""
    MATCHED = "matched"
    """A document with runs of a type A has at least as many runs of a type B."""


def blocks(batch: Batch, labels: LabelSet) -> Iterator[tuple[Batch, Labels]]:
    """Parts of a batch of about `BLOCK` tokens, with their gold labels; nothing if there are no gold labels.

    Raises `LabelError` for labels of no such name.
    """
    gold = None if batch.labels is None else labels.encode(batch.labels.strings())
    for first, last in batch.runs(BLOCK):
        start, end = batch.doc_starts[first], batch.doc_starts[last]
        if gold is not None and end > start:
            yield batch.part(first, last), gold[start:end]


RuleMasks = tuple[Mask, Mask]
"""Two masks (D, …) over all rules of a kind: documents in which each rule binds, and those of them where it holds."""


@dataclass(frozen=True, eq=False)
class RuleCounts:
    """Counts for all rules, which add up over shards, for T types and F fields.

    - ``documents``: documents read.
    - ``rejected``: documents that could not be read.
    - ``with_gold``: documents with gold labels.
    - ``tables``: counts of each kind of rule, by kind.
    - ``marks`` (3, 2, T + 1): counts of `RuleKind.STOPS` for each mark, by side and type, any type last.
    - ``sizes`` (1 + F + T · T,): by number of labelled runs, the documents with so many; see below.
    - ``runs`` (T,): number of runs of each type.

    The first axis of a table has documents in which the rule binds, documents that break it, and billionths of those in
    which it would hold by chance (0 for rules about which runs there are). The other axes are:

    - rules about order: A, or A and B, over K = F + 1 fields, the last of which is outside all spans;
    - rules about which runs there are: A, or A and B, over F fields or T types;
    - `RuleKind.CHANGES`: the three sides.

    The table of `RuleKind.CHOICE` is (2, T + 1, T + 1, T + 1): documents in which exactly the types B and C follow runs
    of A, and billionths of those by chance.

    ``sizes`` has, for documents with so many runs: their number, then how many have each field, then how many have at
    least one of each two types.
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
        counts = list(parts)
        runs = [part.runs for part in counts if len(part.runs)]
        return cls(
            sum(part.documents for part in counts),
            sum(part.rejected for part in counts),
            sum(part.with_gold for part in counts),
            _added([part.tables for part in counts]),
            dict(sorted(_added([part.marks for part in counts]).items())),
            dict(sorted(_added([part.sizes for part in counts]).items())),
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
    """Verdicts on rules about order in one view, summed over gold and other orders of the same runs."""

    def __init__(self, runs: Runs, view: View) -> None:
        self._runs, self._view = runs, view
        self._gold = order_verdicts(runs, view.of[runs.types], view.size)
        self._sums = {kind: [part.astype(np.int64) for part in verdict] for kind, verdict in self._gold.items()}

    def add(self, types: Ints) -> None:
        """Adds one more order of the runs, given their types (R,)."""
        for kind, verdict in order_verdicts(self._runs, self._view.of[types], self._view.size).items():
            for total, amount in zip(self._sums[kind], verdict, strict=True):
                total += amount

    @property
    def bound(self) -> Mask:
        """(D, size, size) does another run follow a run of A in gold? The same for all B."""
        return self._gold[RuleKind.FOLLOWED][0]

    @property
    def binding(self) -> NDArray[np.int64]:
        """(D, size, size) number of orders in which another run follows a run of A; the same for all B."""
        return self._sums[RuleKind.FOLLOWED][0]

    def tables(self) -> dict[RuleKind, NDArray[np.int64]]:
        """Tables (3, size, …) of each kind of rule about order, see `RuleCounts`."""
        tables: dict[RuleKind, NDArray[np.int64]] = {}
        for kind, (bind, holds) in self._gold.items():
            # Gold is one of the orders, so the share is defined where gold binds, and never 0 where gold holds.
            chance = billionths(self._sums[kind][1], self._sums[kind][0])
            tables[kind] = np.stack([bind.sum(axis=0), (bind & ~holds).sum(axis=0), (bind * chance).sum(axis=0)])
        return tables


def billionths(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.int64]:
    """``part`` / ``whole`` in billionths; 0 where the whole is 0."""
    return np.rint(BILLION * part / np.maximum(whole, 1)).astype(np.int64)


def _order_tables(runs: Runs, fields: Fields, orders: int, seed: int) -> dict[str, NDArray[np.int64]]:
    by_view = [_Orders(runs, view) for view in fields.views]
    pairs = [_followed_by_two(runs, runs.types)]
    for types in runs.shuffled(orders, seed):
        pairs.append(_followed_by_two(runs, types))
        for one in by_view:
            one.add(types)
    tables: dict[str, NDArray[np.int64]] = {RuleKind.CHOICE: _choice_table(pairs, by_view[0], runs.kinds)}
    size = len(fields.names) + 1
    for view, one in zip(fields.views, by_view, strict=True):
        for kind, table in one.tables().items():
            named = table.ndim - 1
            whole = tables.setdefault(kind, np.zeros((3, *[size] * named), np.int64))
            # Two views agree about the fields that they share.
            whole[np.ix_(np.arange(3), *[view.field] * named)] = table
    return tables


def _followed_by_two(runs: Runs, types: Ints) -> Ints:
    """Codes of (document, A, B, C) with B < C, where exactly the types B and C follow runs of A in the document."""
    after = _after(runs, types, runs.kinds) > 0
    document, first = np.nonzero(after.sum(axis=2) == 2)
    third = np.nonzero(after[document, first])[1].reshape(-1, 2)
    return np.ravel_multi_index((document, first, *third.T), after.shape + after.shape[-1:])


def _choice_table(pairs: Sequence[Ints], types: _Orders, kinds: int) -> NDArray[np.int64]:
    """Table (2, T + 1, T + 1, T + 1) from the codes of gold, first, and of other orders; see `RuleCounts`."""
    table = np.zeros((2, kinds, kinds, kinds), np.int64)
    codes, times = np.unique(np.concatenate(pairs), return_counts=True)
    document, *own = np.unravel_index(codes, (len(types.bound), kinds, kinds, kinds))
    at = document, own[0], own[1]
    np.add.at(table[1], tuple(own), types.bound[at] * billionths(times, types.binding[at]))
    np.add.at(table[0], np.unravel_index(pairs[0], (len(types.bound), kinds, kinds, kinds))[1:], 1)
    return table


def _after(runs: Runs, types: Ints, kinds: int) -> NDArray[np.int64]:
    """(D, kinds, kinds) number of runs of B right after a run of A, in each document."""
    at = np.flatnonzero(runs.joined)
    pairs = np.zeros((len(runs), kinds, kinds), np.int64)
    np.add.at(pairs, (runs.documents[at], types[at - 1], types[at]), 1)
    pairs[:, np.arange(kinds), np.arange(kinds)] = 0
    return pairs


def order_verdicts(runs: Runs, types: Ints, kinds: int) -> dict[RuleKind, RuleMasks]:
    """Verdicts on all rules about order, by kind, for runs with these types (R,), each below ``kinds``."""
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
    verdicts: dict[RuleKind, RuleMasks] = {
        RuleKind(name): (always, types[place][:, None] == every) for name, place in ends
    }
    binds = np.broadcast_to((followed > 0) & differ, pairs.shape)
    verdicts[RuleKind.FOLLOWED] = binds, binds & (pairs == followed)
    binds = binds & there[:, None, :]
    verdicts[RuleKind.APART] = binds, binds & (pairs == 0)
    binds = there[:, :, None] & there[:, None, :] & differ
    verdicts[RuleKind.ORDER] = binds, binds & (last[:, :, None] < first[:, None, :])
    verdicts[RuleKind.TOGETHER] = there, _stretches(runs, types, kinds) == 1
    return verdicts


def _stretches(runs: Runs, types: Ints, kinds: int) -> NDArray[np.int64]:
    """(D, kinds) number of stretches of neighbouring runs of one kind."""
    begins = np.ones(len(types), np.bool_)
    begins[1:] = ~runs.joined[1:] | (types[1:] != types[:-1])
    stretches = np.zeros((len(runs), kinds), np.int64)
    np.add.at(stretches, (runs.documents[begins], types[begins]), 1)
    return stretches


def _change_table(site: Site, gold: Labels) -> NDArray[np.int64]:
    inner, passes = site.inner, site.mask(TokenTest(pattern=PUNCTUATION))
    changes = _changes(site, gold)
    before, after = passes[inner - 1], passes[inner]
    free = {ChangeSide.BEFORE: before, ChangeSide.AFTER: after, ChangeSide.EITHER: before | after}
    size = len(site.batch)
    document, table = site.document_of[inner], np.zeros((3, len(CHANGE_SIDES)), np.int64)
    edges, changed = (np.bincount(document, m, size).astype(int) for m in (np.ones(len(inner)), changes))
    for i, side in enumerate(CHANGE_SIDES):
        there, changed_there = (np.bincount(document, m, size).astype(int) for m in (free[side], free[side] & changes))
        chances = [_all_free(*d) for d in zip(there.tolist(), edges.tolist(), changed.tolist(), strict=True) if d[2]]
        table[:, i] = len(chances), int((changed_there < changed).sum()), sum(chances)
    return table


def _changes(site: Site, gold: Labels) -> Mask:
    """(inner edges,) does a run end at the edge?"""
    changes: Mask = ~same_run(site.labels)[gold[site.inner - 1], gold[site.inner]]
    return changes


def _all_free(free: int, edges: int, changes: int) -> int:
    """Probability, in billionths, that so many changes at random edges are all at free ones."""
    return round(BILLION * prod(max(0, free - i) / (edges - i) for i in range(changes)))


def _mark_tables(site: Site, gold: Labels) -> dict[str, NDArray[np.int64]]:
    """Tables (3, 2, T + 1) by mark, see `RuleCounts`."""
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
    """For each document and mark: the mark, the type it stands in, and counts (binds, breaks, billionths by chance).

    - ``at`` (E,): token at each edge.
    - ``of`` (E,): its type.
    - ``changes`` (E,): does the run end at the edge?
    """
    words = site.batch.columns[TOKENS]
    place = site.document_of[at] * (len(site.labels.types) + 1) + of
    edges, changed = np.bincount(place), np.bincount(place, changes).astype(int)
    here = site.mask(TokenTest(pattern=PUNCTUATION))[at]
    cell = np.stack([words.codes[at[here]], place[here]])
    cells, cell_of, count = np.unique(cell, axis=1, return_inverse=True, return_counts=True)
    holding = np.bincount(cell_of.ravel(), changes[here], cells.shape[1]).astype(int)
    for (word, there), marks, held in zip(cells.T.tolist(), count.tolist(), holding.tolist(), strict=True):
        chance = _all_free(int(changed[there]), int(edges[there]), marks)
        yield words.values[word], there % (len(site.labels.types) + 1), (1, int(held < marks), chance)


def _presence_tables(there: NDArray[np.int64], has: Mask) -> dict[str, NDArray[np.int64]]:
    """Tables of rules about which runs there are, see `RuleCounts`.

    - ``there`` (D, T): number of runs of each type in each document.
    - ``has`` (D, F): does the document have the field?
    """
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
    sizes = {}
    for size in np.unique(totals).tolist():
        one = has[totals == size].astype(np.int64)
        own = one[:, :types]
        either = own.sum(axis=0)[:, None] + own.sum(axis=0) - own.T @ own
        sizes[size] = np.concatenate([[len(one)], one.sum(axis=0), either.ravel()])
    return sizes
