"""Writer of certificates: multipliers and prices that the relaxations learn, as integers, with branching for the rest.

Rows come first (`inference.relaxation.row_dual`): agreement is priced on the chain that carries their multipliers.

Nothing here has to be trusted: the checker's own code evaluates every stage until the proof closes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.decoded import Budget
from concord.schemas.labels import Labels
from concord.schemas.problem import NO_KEY, Problem, Relation
from concord.workers.certificates.boxes import Boxes
from concord.workers.certificates.checker import (
    BITS,
    COUNTED,
    LEAF,
    MOST_ROLES,
    Alive,
    CertificateError,
    IntegerProblem,
    Item,
    ProofReader,
    RolePrices,
)
from concord.workers.inference.core.chain import viterbi_score
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.folding import Folded
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.strict_twin import StrictTwin
from concord.workers.inference.relaxation.relaxation import Prices as Learned
from concord.workers.inference.relaxation.relaxation import relax
from concord.workers.inference.relaxation.row_dual import ROUND_STEPS, charged, dual_bound

NOTHING_NEW = [0, 0]
"""A stage that sets no price: the checker looks once more at the items that are left."""
MOST_PRICE = 1 << 48
"""Largest price or multiplier in units, to which greater ones are cut: 256 nats."""
MOST_TRIES = 4
"""Most times that prices are learned anew, on the items that the last ones left."""
MOST_WORK = 20_000_000_000
"""Units of work, as `relax` counts them, after which a document gets no certificate."""
LOOK_WORK = 200
"""Units of work for each item in an evaluation by the checker's code."""


NameKey = tuple[int, int]
"""A group: index of its key table, and its key."""


class _Multipliers(NamedTuple):
    """Multipliers of rows in units, and prices; None stands for the prices in force."""

    rows: dict[int, int]
    prices: Learned | None


def prove(problem: Problem, labels: Labels, bound: float, *, nodes: int) -> list[int] | None:
    """A proof that no labelling scores more than ``bound`` nats, in the form of `workers.certificates.checker`.

    ``labels`` (N,) is the best labelling known. The result is None if ``nodes`` or `MOST_WORK` are not enough, the
    numbers do not fit, or there is no labelling.
    """
    if not np.isfinite([bound, problem.score(labels).objective]).all():
        return None
    try:
        proof = _ProofDraft(IntegerProblem(problem), labels, bound, nodes)
        return proof.numbers if proof.closes() else None
    except CertificateError:
        return None


@dataclass(eq=False)
class _ProofDraft:
    """A proof in the making.

    - ``ground``: the problem in integers.
    - ``labels`` (N,): the best labelling known.
    - ``bound``: nats.
    - ``nodes``: number of nodes that may still be written.
    - ``numbers``: the nodes that are done.
    - ``problem``: the problem folded, from which multipliers and prices are learned.
    - ``rows`` (R,): the row of the ground problem for each row of that.
    """

    ground: IntegerProblem
    labels: Labels
    bound: float
    nodes: int

    def __post_init__(self) -> None:
        folded = Folded.of(self.ground.problem)
        whole = Prepared.of(self.ground.problem)
        self.problem, self.rows = (
            (whole, np.arange(len(whole.rows))) if folded is None else (folded.problem, folded.rows)
        )
        self.numbers: list[int] = []
        self.limit = self.ground.limit(self.bound)
        self.effort = Effort(Budget(None, MOST_WORK))

    def closes(self) -> bool:
        """Writes the nodes, depth first; False if there would be too many, or if the effort is spent."""
        waiting: list[tuple[Alive, RolePrices]] = [(self.ground.everything, ({}, {}))]
        while waiting:
            alive, prices = waiting.pop()
            self.nodes -= 1
            stages, alive, prices, closed = self._priced(alive, prices)
            self.numbers += [len(stages), *(n for stage in stages for n in stage)]
            if closed or self._counted(alive, prices):
                self.numbers.append(LEAF if closed else COUNTED)
                continue
            choice = self._branch(alive, prices)
            if choice is None or self.nodes <= len(waiting) + 1 or self.effort.spent:
                return False
            self.numbers += choice
            waiting += [(self.ground.branched(alive, *choice, has=has), prices) for has in (True, False)]
        return True

    def _counted(self, alive: Alive, prices: RolePrices) -> bool:
        """Does a node close where its rows are counted exactly?"""
        if not len(self.rows):
            return False
        try:
            return self.ground.counted(alive, prices, self.limit) <= self.limit
        except CertificateError:
            return False

    def _priced(self, alive: Alive, prices: RolePrices) -> tuple[list[list[int]], Alive, RolePrices, bool]:
        """The stages of a node, the items that they leave, the prices last set, and whether they close the node."""
        total, alive = self._looked(alive, prices)
        if total <= self.limit:
            return [], alive, prices, True
        first, start = alive, prices
        stages: list[list[int]] = []
        for _ in range(MOST_TRIES):
            before = _size(alive)
            for step in self._steps(alive, prices):
                stage = self._stage(step, prices, alive)
                new = self.ground.repriced(ProofReader(stage), prices)
                reached, rest = self._looked(alive, new)
                if reached <= self.limit:
                    return self._shortest(first, start, step, [*stages, stage]), alive, new, True
                if reached < total or _size(rest) < _size(alive):
                    stages, total, alive, prices = [*stages, stage], reached, rest, new
            total, alive = self._looked(alive, prices)
            stages.append(NOTHING_NEW)
            if total <= self.limit:
                return stages, alive, prices, True
            if _size(alive) == before:
                break
        return stages, alive, prices, False

    def _looked(self, alive: Alive, prices: RolePrices) -> tuple[int, Alive]:
        """The checker's view of the prices: the bound, and the items that are left."""
        self.effort.work += LOOK_WORK * sum(own.size for own in alive)
        return self.ground.narrowed(alive, prices, self.limit)

    def _shortest(
        self, alive: Alive, prices: RolePrices, step: _Multipliers, stages: list[list[int]]
    ) -> list[list[int]]:
        """The last step alone, if it closes the node; otherwise all ``stages``."""
        stage = self._stage(step, prices, alive)
        total, _ = self._looked(alive, self.ground.repriced(ProofReader(stage), prices))
        return [stage] if total <= self.limit else stages

    def _steps(self, alive: Alive, old: RolePrices) -> Iterator[_Multipliers]:
        """Multipliers for the items that are left, unless old and new ones are all 0; then the prices of each round."""
        p = self.problem.potentials
        allowed = _possible(self.ground, alive) & np.isfinite(p.unary)
        restriction = p.restricted(allowed)
        if viterbi_score(restriction) == -np.inf:
            return  # no labelling is left: one more look closes the node
        dual = dual_bound(self.problem, allowed, self.labels, steps=ROUND_STEPS, tolerance=0.0)
        self.effort.work += dual.steps * p.unary.size
        units = _units(dual.multipliers)
        rows = {int(self.rows[r]): int(units[r]) for r in np.flatnonzero(units)}
        if rows or any(old[0].values()):
            yield _Multipliers(rows, None)
        chain = charged(replace(self.problem, potentials=restriction), dual.multipliers)
        last: Learned | None = None
        for prices in _rounds(chain.problem, self.labels, self.effort):
            if last is None or not all(map(np.array_equal, prices, last)):
                yield _Multipliers(rows, prices)
            last = prices

    def _stage(self, step: _Multipliers, old: RolePrices, alive: Alive) -> list[int]:
        """The stage that sets the multipliers and prices of a step, and ends those that it no longer has."""
        rows = dict.fromkeys(old[0], 0) | step.rows
        new = [n for r, units in rows.items() if units != old[0].get(r, 0) for n in (r, units)]
        return [len(new) // 2, *new, *(self._groups(step.prices, old, alive) if step.prices else [0])]

    def _groups(self, ascent: Learned, old: RolePrices, alive: Alive) -> list[int]:
        """The groups of a stage with the learned prices; groups that are no longer there end."""
        sure = self._left_out(alive)
        prices = self._prices(ascent, alive, sure)
        written = {name: self._group(name, items, sure[name]) for name, items in prices.items()}
        groups = {name: group for name, group in written.items() if group}
        gone = [[*name, 0, LEAF] for name in old[1] if name not in groups]
        return [len(groups) + len(gone), *(n for group in [*groups.values(), *gone] for n in group)]

    def _left_out(self, alive: Alive) -> defaultdict[NameKey, list[int]]:
        """Tokens that no span can hold, by the groups whose words are left out there at a cost."""
        spans = np.flatnonzero(self.problem.labels.type_of >= 0)
        sure = np.flatnonzero(~_possible(self.ground, alive)[:, spans].any(axis=1)).tolist()
        tokens: defaultdict[NameKey, list[int]] = defaultdict(list)
        owners = zip(self.problem.agreements, self.problem.key_tables.used.tolist(), strict=True)
        for table in sorted({t for a, t in owners if a.relation is Relation.UNLABELLED and a.cost.any()}):
            keys = self.ground.tables[table]
            for token in sure:
                for key in np.unique(keys[token][keys[token] != NO_KEY]).tolist():
                    tokens[table, key].append(token)
        return tokens

    def _prices(
        self, ascent: Learned, alive: Alive, sure: Mapping[NameKey, list[int]]
    ) -> dict[NameKey, dict[Item, int]]:
        """The prices of items by group: those above 0, and 0 for spans whose words are always left out somewhere."""
        prices: defaultdict[NameKey, dict[Item, int]] = defaultdict(dict)
        triples = zip(ascent.names.tolist(), ascent.items.tolist(), _units(ascent.prices).tolist(), strict=True)
        # Of the prices of one item, one for each label that opens it, the greatest comes last.
        for (table, key), (start, end, kind), price in sorted(triples):
            item, out = (start, end, kind), kind < 0 and start in sure.get((table, key), ())
            if price > 0 and not out and self.ground.cells(alive, item).any() and self._belongs(table, key, item):
                prices[table, key][item] = price
        spans = [*_spans(self.ground, alive)] if sure else []
        for table, keys in enumerate(self.ground.tables):
            for start, end, kind in spans:
                name = (table, int(keys[start, end - start - 1]) if end - start <= keys.shape[1] else NO_KEY)
                if name in sure:
                    prices[name].setdefault((start, end, kind), 0)
        return prices

    def _belongs(self, table: int, key: int, item: Item) -> bool:
        try:
            self.ground.role(table, key, item)
        except CertificateError:
            return False
        return True

    def _group(self, name: NameKey, prices: Mapping[Item, int], sure: Sequence[int]) -> list[int]:
        """A group as a proof has it; empty if it has too many roles.

        The S places that are always left out have a price P above the sum of all others, so they are left out in the
        group, too. The cost of an item with them is added to its price, because its sentence pays it whatever the group
        takes.
        """
        items = dict(prices) | {(token, token + 1, -1): 0 for token in sure}
        roles = len({self.ground.role(*name, item)[1] for item in items})
        if roles > MOST_ROLES:
            return []
        unsplit = [len(items), *(n for item, price in items.items() for n in (*item, price)), LEAF, *[0] * roles]
        group = self.ground.group(ProofReader(unsplit), *name)
        undecided = [member for member in group.members if member.item in prices]
        place = {slot: i for i, slot in enumerate(sorted({member.slot for member in undecided}))}
        table = np.full((len(place), roles), -np.inf)
        for _, price, slot, role in undecided:
            table[place[slot], role] = max(table[place[slot], role], price)
        pairs = (group.pairs + group.pairs.T).astype(np.float64)
        boxes = Boxes(table, pairs, self.effort).split()
        if sure:
            owed = (len(sure) * group.pairs[:, -1]).tolist()
            most = sum(prices.values()) + sum(int(group.pairs[role, -1]) for *_, role in undecided)
            for item, price, _, role in group.members:
                items[item] = price + owed[role] if item in prices else most
            charges = [*owed[:-1], most]
            boxes = [roles - 1, len(sure) - 1, LEAF, *charges, *_beside(boxes, owed, len(sure), most)]
        return [*name, len(items), *(n for item, price in items.items() for n in (*item, price)), *boxes]

    def _branch(self, alive: Alive, prices: RolePrices) -> tuple[int, int] | None:
        """A token and a label to branch on, or None if every token has one label left.

        It is the token with the greatest payments, and the label of the best labelling known if that is left.
        """
        possible = _possible(self.ground, alive)
        paid = np.zeros(len(possible))
        for group in prices[1].values():
            for (start, *_), price, _, _ in group.members:
                paid[start] += price
        rows = self.ground.problem.rows
        multipliers = np.array([prices[0].get(r, 0) for r in range(len(rows))], np.float64)
        np.add.at(paid, rows.position, multipliers[rows.row_of_entry] * np.abs(rows.coefficient))
        paid[np.count_nonzero(possible, axis=1) < 2] = -1.0
        token = int(paid.argmax())
        if paid[token] < 0:
            return None
        label = int(self.labels[token])
        return token, label if possible[token, label] else int(np.argmax(possible[token]))


def _rounds(problem: Prepared, labels: Labels, effort: Effort) -> tuple[Learned, ...]:
    """The prices of each round of the relaxation of ``problem`` from ``labels`` (N,).

    Those of a strict twin name its spans by their types in ``problem``: an item may be there for each of its kinds.
    """
    twin = StrictTwin.of(problem)
    if twin is not None:
        rounds = _rounds(twin.problem, twin.there(labels), effort)
        return tuple(one._replace(items=twin.items(one.items)) for one in rounds)
    return relax(problem, labels, problem.score(labels), effort, least_pruned=0.0).rounds


def _beside(boxes: Sequence[int], owed: Sequence[int], places: int, price: int) -> list[int]:
    """The boxes with ``places`` more slots of the last role, at ``price``; each role is charged ``owed`` for them."""
    numbers, longer = iter(boxes), list[int]()
    for split in numbers:
        if split == LEAF:
            charges = [next(numbers) + units for units in owed]
            longer += [LEAF, *charges[:-1], min(charges[-1], price)]
        else:
            longer += [split, next(numbers) + (places if split == len(owed) - 1 else 0)]
    return longer


def _units(nats: Floats) -> Ints:
    """Prices or multipliers in whole units; they need not be exact."""
    return np.minimum(np.ldexp(nats, BITS), MOST_PRICE).astype(np.int64)


def _size(alive: Alive) -> int:
    return sum(int(own.sum()) for own in alive)


def _spans(ground: IntegerProblem, alive: Alive) -> Iterator[Item]:
    """All spans that are left."""
    for last, own in enumerate(alive):
        by_type = own[:, : ground.spans].reshape(len(own), ground.ways, ground.types).any(axis=1)
        for row, kind in np.argwhere(by_type).tolist():
            yield last + 1 - len(own) + row, last + 1, kind


def _possible(ground: IntegerProblem, alive: Alive) -> NDArray[np.bool_]:
    """(N, L) mask of the labels that some item gives that is left."""
    possible = np.zeros(ground.unary.shape, np.bool_)
    reaching = np.zeros((0, len(ground.first)), np.bool_)
    for last, own in reversed([*enumerate(alive)]):
        # Items that end here, or later in the sentence.
        n = len(own)
        later = reaching[:n] if len(reaching) > n else np.zeros_like(own)
        reaching = own | later
        possible[last, ground.given[-n:][reaching]] = True
    return possible
