"""Writes certificates: multipliers and prices that the relaxations learn, in integers, and branching for the rest.

Rows come first (`inference.relaxation.row_dual`): agreement is priced on the chain that carries their multipliers.

Nothing here has to be believed: what is written is looked at with the checker's own eyes until it closes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from schemas.labels import Labels
from schemas.potentials import Floats, Ints, Potentials
from schemas.problem import ANY, LinearRows, Problem
from workers.certificates.boxes import Boxes
from workers.certificates.checker import BITS, TOLERANCE, Alive, Ground, Mask, Prices, narrowed
from workers.certificates.proof import LEAF, MOST, MOST_ROLES, CertificateError, Item, Reader, ReadGroup
from workers.inference.core.chain import viterbi_score
from workers.inference.core.effort import Effort
from workers.inference.core.engine import UNLIMITED
from workers.inference.core.prepared import Prepared
from workers.inference.relaxation.relaxation import Prices as Learned
from workers.inference.relaxation.relaxation import relax
from workers.inference.relaxation.row_dual import STEPS, dual_bound

NOTHING_NEW = [0, 0]
"""A stage that sets no price: one more look at what the last one left."""
MOST_TRIES = 4
"""Times that prices are learned anew on what the last ones left."""


class _Step(NamedTuple):
    """Units of the rows' multipliers, and prices; None: those in force."""

    rows: dict[int, int]
    prices: Learned | None


def prove(problem: Problem, labels: Labels, bound: float, *, nodes: int) -> list[int] | None:
    """A proof, as `workers.certificates.proof` describes it, that no labelling scores more than ``bound`` nats.

    ``labels`` (N,) is the best labelling known. None where ``nodes`` do not do, the numbers do not fit, or there is
    no labelling.
    """
    if not np.isfinite([bound, problem.score(labels).objective]).all():
        return None
    try:
        proof = _Proof(Ground(problem), labels, bound, nodes)
        return proof.numbers if proof.closes() else None
    except CertificateError:
        return None


@dataclass(eq=False)
class _Proof:
    """A proof in the making: ``numbers`` holds the nodes that are done, ``nodes`` how many more there may be."""

    ground: Ground
    labels: Labels
    bound: float
    nodes: int

    def __post_init__(self) -> None:
        self.problem = self.ground.problem
        self.numbers: list[int] = []
        self.limit = math.floor(math.ldexp(self.bound + TOLERANCE, BITS))

    def closes(self) -> bool:
        """Writes the nodes, depth first; False where there would be too many."""
        waiting = [(self.ground.everything(), Prices({}, {}))]
        while waiting:
            alive, prices = waiting.pop()
            self.nodes -= 1
            stages, alive, prices, closed = self._priced(alive, prices)
            self.numbers += [len(stages), *(n for stage in stages for n in stage)]
            if closed:
                self.numbers.append(LEAF)
                continue
            choice = self._branch(alive, prices)
            if choice is None or self.nodes <= len(waiting) + 1:
                return False
            self.numbers += choice
            waiting += [(self.ground.branched(alive, *choice, has=has), prices) for has in (True, False)]
        return True

    def _priced(self, alive: list[Alive], prices: Prices) -> tuple[list[list[int]], list[Alive], Prices, bool]:
        """The stages of a node, what they leave alive, the prices last set, and whether they close it."""
        total, alive = self._looked(alive, prices)
        if total <= self.limit:
            return [], alive, prices, True
        first, start = alive, prices
        stages: list[list[int]] = []
        for _ in range(MOST_TRIES):
            before = _size(alive)
            for step in self._learned(alive):
                stage = self._stage(step, prices, alive)
                new = self.ground.repriced(Reader(stage), prices)
                reached, left = self._looked(alive, new)
                if reached <= self.limit:
                    return self._shortest(first, start, step, [*stages, stage]), alive, new, True
                if reached < total or _size(left) < _size(alive):
                    stages, total, alive, prices = [*stages, stage], reached, left, new
            total, alive = self._looked(alive, prices)
            stages.append(NOTHING_NEW)
            if total <= self.limit:
                return stages, alive, prices, True
            if _size(alive) == before:
                break
        return stages, alive, prices, False

    def _shortest(self, alive: list[Alive], prices: Prices, step: _Step, stages: list[list[int]]) -> list[list[int]]:
        """The last step alone where it does, else all ``stages``."""
        stage = self._stage(step, prices, alive)
        total, _ = self.ground.bound(alive, self.ground.repriced(Reader(stage), prices))
        return [stage] if total <= self.limit else stages

    def _looked(self, alive: list[Alive], prices: Prices) -> tuple[int, list[Alive]]:
        """The bound, and what it leaves alive."""
        total, sentences = self.ground.bound(alive, prices)
        return total, narrowed(alive, sentences, self.limit - total)

    def _learned(self, alive: list[Alive]) -> Iterator[_Step]:
        """Multipliers for what is alive, and then prices, round by round."""
        p = self.problem.potentials
        allowed = _possible(self.ground, alive) & np.isfinite(p.unary)
        left = Potentials(np.where(allowed, p.unary, -np.inf), p.transition, p.sentence_starts)
        if viterbi_score(left) == -np.inf:
            return  # nothing is left: one more look closes the node
        dual = dual_bound(self.problem, allowed, self.labels, steps=STEPS, tolerance=0.0)
        units = np.minimum(np.ldexp(dual.multipliers, BITS), MOST).astype(np.int64)
        rows = {int(r): int(units[r]) for r in np.flatnonzero(units)}
        if rows:
            yield _Step(rows, None)
        unary = left.unary - self._charges(dual.multipliers)
        chain = replace(left, unary=unary)
        charged = Prepared.of(replace(self.problem, potentials=chain, rows=LinearRows.none()))
        score = charged.score(self.labels)
        for prices in relax(charged, self.labels, score, Effort(UNLIMITED), least_pruned=0.0).rounds:
            yield _Step(rows, prices)

    def _charges(self, multipliers: Floats) -> Floats:
        """(N, L) what rows charge for labels; prices are learned as if they charged nothing for pairs of labels."""
        rows = self.problem.rows
        charges = np.zeros(self.problem.potentials.unary.shape)
        of_label = rows.previous == ANY
        amount = (rows.coefficient * multipliers[rows.row_of_entry])[of_label]
        np.add.at(charges, (rows.position[of_label], rows.label[of_label]), amount)
        return charges

    def _stage(self, step: _Step, old: Prices, alive: list[Alive]) -> list[int]:
        """The stage that sets what a step has; what is no longer there ends."""
        rows = dict.fromkeys(old.rows, 0) | step.rows
        new = [n for r, units in rows.items() if units != old.rows.get(r, 0) for n in (r, units)]
        return [len(new) // 2, *new, *(self._groups(step.prices, old, alive) if step.prices else [0])]

    def _groups(self, learned: Learned, old: Prices, alive: list[Alive]) -> list[int]:
        """The groups of a stage with the prices learned; those that are no longer there end."""
        sure = self.ground.sure(alive)
        order = np.lexsort((*learned.items.T[::-1], learned.names[:, 1], learned.names[:, 0]))
        names, items = learned.names[order], learned.items[order]
        units = np.minimum(np.ldexp(learned.prices[order], BITS), MOST).astype(np.int64)
        first = np.flatnonzero(np.diff(names, axis=0, prepend=-1).any(axis=1))
        groups: dict[tuple[int, int], list[int]] = {}
        for a, b in pairwise([*first.tolist(), len(names)]):
            table, key = names[a].tolist()
            prices = self._prices(table, key, items[a:b], units[a:b])
            roles = {self.ground.role(table, key, item)[1] for item in prices}
            if 0 < len(roles) <= MOST_ROLES:
                boxes = self._boxes(ReadGroup(table, key, prices, len(roles), ()), alive, sure)
                members = [n for item, price in prices.items() for n in (*item, price)]
                groups[table, key] = [table, key, len(prices), *members, len(roles), *boxes]
        gone = [[*name, 0, 0, LEAF] for name in old.groups if name not in groups]
        return [len(groups) + len(gone), *(n for group in [*groups.values(), *gone] for n in group)]

    def _prices(self, table: int, key: int, items: Ints, units: Ints) -> dict[Item, int]:
        """The prices above 0 of items that are in the group."""
        prices = {Item(*item): price for item, price in zip(items.tolist(), units.tolist(), strict=True) if price > 0}
        return {item: price for item, price in prices.items() if self._belongs(table, key, item)}

    def _belongs(self, table: int, key: int, item: Item) -> bool:
        try:
            self.ground.role(table, key, item)
        except CertificateError:
            return False
        return True

    def _boxes(self, read: ReadGroup, alive: list[Alive], sure: Mask) -> list[int]:
        group = self.ground.group(read)
        members = self.ground.listed(group, alive, sure)
        place = {slot: i for i, slot in enumerate(sorted({member.slot for member in members}))}
        prices = np.full((len(place), read.roles), -np.inf)
        for _, price, slot, role in members:
            prices[place[slot], role] = max(prices[place[slot], role], price)
        return Boxes(prices, np.array(group.pairs, np.float64)).split()

    def _branch(self, alive: list[Alive], prices: Prices) -> tuple[int, int] | None:
        """A token and a label to branch on: where most is paid, on the label of the best labelling known.

        None where every token has one label left.
        """
        possible = _possible(self.ground, alive)
        paid = np.zeros(len(possible))
        for group in prices.groups.values():
            for item, price, _, _ in group.members:
                paid[item.start] += price
        rows = self.problem.rows
        multipliers = np.array([prices.rows.get(r, 0) for r in range(len(rows))], np.float64)
        np.add.at(paid, rows.position, multipliers[rows.row_of_entry] * np.abs(rows.coefficient))
        paid[np.count_nonzero(possible, axis=1) < 2] = -1.0
        token = int(paid.argmax())
        if paid[token] < 0:
            return None
        label = int(self.labels[token])
        return token, label if possible[token, label] else int(np.argmax(possible[token]))


def _size(alive: list[Alive]) -> int:
    return sum(int(items.spans.sum() + items.outside.sum()) for items in alive)


def _possible(ground: Ground, alive: list[Alive]) -> Mask:
    """(N, L) labels that some item gives that is alive."""
    possible: Mask = np.zeros(ground.unary.shape, np.bool_)
    for (first, last), (spans, outside) in zip(ground.sentences, alive, strict=True):
        own: Mask = possible[first:last]
        own |= outside
        opened: Mask = np.any(spans, axis=1)
        # Spans that start before t and end at t or later.
        reaching: Ints = np.flip(np.cumsum(np.flip(spans, 1), axis=1), 1).cumsum(axis=0)
        t = np.arange(1, last - first)
        for kind, (opening, inside) in enumerate(zip(ground.opening, ground.inside, strict=True)):
            own[:, opening] |= opened[:, kind]
            own[t, inside] |= reaching[t - 1, t, kind] > 0
    return possible
