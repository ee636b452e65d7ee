"""How often rules about runs bind and break in gold, and how often they would hold by chance: what mining counts.

A trial is a document, so that trials are independent. Rules about order are compared with the same runs in other orders
(`Runs.shuffled`), rules about places of change with the same number of changes at other places. Chances are summed in
whole billionths, so that sums do not depend on how a corpus is cut. Rules about which runs a document has are compared
with runs that are dealt out anew over all documents, which takes counts only: `workers.learning.mining`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.document import Batch
from schemas.labels import Labels, LabelSet
from schemas.potentials import Ints
from workers.constraints.rows import Mask
from workers.constraints.templates.runs import Side
from workers.constraints.templates.template import PUNCTUATION, Site, TokenTest, same_run
from workers.learning.run_order import Runs

Key = TypeVar("Key")

BILLION = 10**9
SIDES = tuple(Side)
BLOCK = 8_000
"""Tokens of the documents that are counted together."""


class Kind(StrEnum):
    """What a rule says, of a type A, or of two, A and B."""

    STARTS = "starts"
    """The first run is A."""
    ENDS = "ends"
    """The last run is A."""
    FOLLOWED = "followed"
    """What follows a run of A is B."""
    APART = "apart"
    """B does not follow A."""
    ORDER = "order"
    """No B stands before an A."""
    CHANGES = "changes"
    """Labels change beside punctuation only; A is a `Side`."""
    ONCE = "once"
    """A is one run."""
    THERE = "there"
    """A is there."""
    NEEDS = "needs"
    """Where A is, B is."""


Verdict = tuple[Mask, Mask]
"""In which documents a rule binds, and in which of them it holds: (D, …) of all rules of a kind."""


@dataclass(frozen=True, eq=False)
class RuleCounts:
    """Counts that add up over shards. With T types and K = T + 1, the last of which is outside all spans:

    ``tables`` has for every kind (3, …) documents in which the rule binds, those that break it, and billionths of
    those in which it would hold by chance (0 for rules about which runs there are); after that come A and B, (K,) or
    (K, K), of `Kind.CHANGES` (3,) sides. ``sizes`` has for so many labelled runs in a document (1 + T,) how many
    documents have them, and how many of these have each type. ``runs`` (T,) are the runs of each type.
    """

    documents: int
    rejected: int
    with_gold: int
    tables: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    sizes: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    runs: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, batch: Batch, labels: LabelSet, *, orders: int, seed: int, rejected: int = 0) -> RuleCounts:
        """Counts of the documents of a batch that has gold labels. Raises `LabelError` for labels of no such name."""
        if batch.labels is None:
            return cls(len(batch), rejected, 0)
        gold = labels.encode(batch.labels.strings())
        parts = [cls(len(batch), rejected, len(batch))]
        for first, last in batch.runs(BLOCK):
            own = gold[batch.doc_starts[first] : batch.doc_starts[last]]
            parts.append(_counted(batch.part(first, last), own, labels, orders, seed))
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
    if not len(gold):
        return RuleCounts(0, 0, 0)
    runs = Runs.of(batch, gold, labels)
    tables = _order_tables(runs, orders, seed)
    tables[Kind.CHANGES] = _change_table(batch, gold, labels)
    there = np.zeros((len(runs), runs.kinds), np.int64)
    np.add.at(there, (runs.documents, runs.types), 1)
    there = there[:, :-1]
    return RuleCounts(0, 0, 0, tables | _presence_tables(there), _sizes(there), there.sum(axis=0))


def _order_tables(runs: Runs, orders: int, seed: int) -> dict[str, NDArray[np.int64]]:
    gold = order_verdicts(runs, runs.types)
    sums = {kind: [bind.astype(np.int64), holds.astype(np.int64)] for kind, (bind, holds) in gold.items()}
    for types in runs.shuffled(orders, seed):
        for kind, verdict in order_verdicts(runs, types).items():
            for total, amount in zip(sums[kind], verdict, strict=True):
                total += amount
    tables: dict[str, NDArray[np.int64]] = {}
    for kind, (bind, holds) in gold.items():
        # Gold is one of the orders: where it binds the share is defined, and it is never 0 for what gold keeps.
        chance = np.rint(BILLION * sums[kind][1] / np.maximum(sums[kind][0], 1)).astype(np.int64)
        tables[kind] = np.stack([bind.sum(axis=0), (bind & ~holds).sum(axis=0), (bind * chance).sum(axis=0)])
    return tables


def order_verdicts(runs: Runs, types: Ints) -> dict[Kind, Verdict]:
    """Which rules about order hold in each document where its runs have these types (R,)."""
    count, kinds, document = len(runs), runs.kinds, runs.documents
    every = np.arange(kinds)
    first, last = np.full((count, kinds), len(types)), np.full((count, kinds), -1)
    np.minimum.at(first, (document, types), np.arange(len(types)))
    np.maximum.at(last, (document, types), np.arange(len(types)))
    there = last >= 0
    at = np.flatnonzero(runs.joined)
    pairs = np.zeros((count, kinds, kinds), np.int64)
    np.add.at(pairs, (document[at], types[at - 1], types[at]), 1)
    pairs[:, every, every] = 0
    followed = pairs.sum(axis=2, keepdims=True)
    differ = every[:, None] != every
    always = np.ones((count, kinds), np.bool_)
    ends = (("starts", runs.starts[:-1]), ("ends", runs.starts[1:] - 1))
    found: dict[Kind, Verdict] = {Kind(name): (always, types[place][:, None] == every) for name, place in ends}
    binds = np.broadcast_to((followed > 0) & differ, pairs.shape)
    found[Kind.FOLLOWED] = binds, binds & (pairs == followed)
    binds = binds & there[:, None, :]
    found[Kind.APART] = binds, binds & (pairs == 0)
    binds = there[:, :, None] & there[:, None, :] & differ
    found[Kind.ORDER] = binds, binds & (last[:, :, None] < first[:, None, :])
    return found


def _change_table(batch: Batch, gold: Labels, labels: LabelSet) -> NDArray[np.int64]:
    site = Site(batch, labels)
    inner, passes = site.inner, site.mask(TokenTest(pattern=PUNCTUATION))
    changes = ~same_run(labels)[gold[inner - 1], gold[inner]]
    before, after = passes[inner - 1], passes[inner]
    free = {Side.BEFORE: before, Side.AFTER: after, Side.EITHER: before | after}
    document, table = site.document_of[inner], np.zeros((3, len(SIDES)), np.int64)
    edges, changed = (np.bincount(document, m, len(batch)).astype(int) for m in (np.ones(len(inner)), changes))
    for i, side in enumerate(SIDES):
        there, kept = (np.bincount(document, m, len(batch)).astype(int) for m in (free[side], free[side] & changes))
        chances = [_all_free(*d) for d in zip(there.tolist(), edges.tolist(), changed.tolist(), strict=True) if d[2]]
        table[:, i] = len(chances), int((kept < changed).sum()), sum(chances)
    return table


def _all_free(free: int, edges: int, changes: int) -> int:
    """Billionths of the chance that so many changes, at any of the edges, are all at free ones."""
    return round(BILLION * prod(max(0, free - i) / (edges - i) for i in range(changes)))


def _presence_tables(there: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """From the runs (D, T) of each type in each document."""
    has = there > 0
    documents, several = has.sum(axis=0), (there > 1).sum(axis=0)
    every, none = np.full_like(documents, len(there)), np.zeros_like(documents)
    without = documents[:, None] - has.T.astype(np.int64) @ has.astype(np.int64)
    pairs = np.broadcast_to(documents[:, None], without.shape)
    return {
        Kind.ONCE: np.stack([documents, several, none]),
        Kind.THERE: np.stack([every, every - documents, none]),
        Kind.NEEDS: np.stack([pairs, without, np.zeros_like(without)]),
    }


def _sizes(there: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    totals = there.sum(axis=1)
    counts = np.column_stack([np.ones(len(there), np.int64), there > 0])
    return {size: counts[totals == size].sum(axis=0) for size in np.unique(totals).tolist()}
