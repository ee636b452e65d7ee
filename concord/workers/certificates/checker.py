"""Checker of the proof that no labelling of a document scores more than its bound: small, slow, plain and exact.

All numbers are integers, in units of 2⁻⁴⁰ nats: potentials are rounded up, penalties down. A row of one token or one
edge is part of the local scores, unless the proof gives it a multiplier. A labelling is made of *items*: spans of a
type, whichever label opens them, and outside labels at a token. For any prices of items in *groups* (a key of a key
table), and any multipliers 0 ≤ λ ≤ weight of the other linear rows, a labelling y scores no more than

    Σ_sentences max_y [local(y) − prices of y's items − λ · row entries of y]
    + Σ_groups max_u [prices of the items u that it is given − penalty of u] + Σ_r λ_r · bound_r:

with y and its items in place of both maxima the prices cancel, and a row costs at least λ · (entries − bound). If the
bound with an item forced is at most the limit, the item is struck out before the next prices.

In a group every slot (a token that all its items share, so at most one of them is used) takes a role (a type of a span
of these words, a type of a span around them, or left outside). With n and m slots of two roles, their pairs cost n·m
times the price of a pair. With charges c of the roles, counts n in a box gain no more than Σ_slots max(0, price − c) +
max_n [c·n − penalty(n)]. The last part is linear in every count, so its maximum is at a corner. Penalties that are left
out, as for pairs of one role, only raise this bound.

Where it says so, rows are counted exactly instead: items follow one another from the first token to the last. Two
beginnings with the same last label, and the same sums of all rows with entries before and after, are one *state*, of
which the better one stays. With the sum A of a row so far, and lo ≤ F ≤ hi of its later entries, the penalty is 0
whatever follows if A + hi ≤ bound, and linear if A + lo > bound: all such sums are one. What a row adds to the charged
scores, λ · T − penalty(T), is concave in its sum T, so it is greatest at the bound, or at the end of A + lo to A + hi
that is nearer to it. States that cannot exceed the limit even so are left out.

A proof is one list of integers, read strictly and from left to right. Prices hold until they are set anew, and in both
branches; ``type`` is −1 for an outside label; a box has a charge for each role that its group's items have.

    node   = stages stage* branch
    stage  = rows (row multiplier)* groups group*
    group  = table key items (start end type price)* box
    box    = −1 charge*  |  role count box box          (at most ``count`` slots have the role; more)
    branch = −1  |  −2                                  (the prices suffice; rows counted exactly do)
             |  token label node node                   (the token has another label; it has this one)
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.errors import InputError
from concord.schemas.problem import ANY, Problem, Relation

BITS, LEAF, COUNTED, TOLERANCE, ROUNDING = 40, -1, -2, 1e-6, 1e-14
"""Constants of a proof and its check.

- ``BITS``: binary digits of a nat's fraction.
- ``LEAF``: number that ends a node or a box.
- ``COUNTED``: number that ends a node of which the rows are counted exactly.
- ``TOLERANCE``: nats by which a bound may be exceeded.
- ``ROUNDING``: fraction of the scores by which it may be exceeded in addition.
"""
MOST, MOST_ROLES, MOST_STATES, HARD = 1 << 60, 12, 2_000, 256.0
"""Limits of the numbers.

- ``MOST``: largest number of a proof.
- ``MOST_ROLES``: most roles of a group, with up to 2¹² corners of a box.
- ``MOST_STATES``: most states of a token.
- ``HARD``: nats that stand for an infinite cost.
"""
RELATIONS = (Relation.EXACT, Relation.CONTAINED, Relation.UNLABELLED)
"""Relations of an item to its group's words: it is a span of them, is a span around them, or leaves them outside."""

Units = NDArray[np.object_]
"""Array of integers without limit, or −inf for what is impossible."""
Alive = list[NDArray[np.bool_]]
"""Masks (n, K) of the items that are left: for each last token i, by first token, i − n + 1 to i, and kind.

Kinds are the types, once for each way to open a span, and then the outside labels.
"""
Item = tuple[int, int, int]
"""An item: start, exclusive end, and type of a span; or type −1 for any outside label at a token."""
RolePrices = tuple[dict[int, int], dict[tuple[int, int], "RoleGroup"]]
"""Multipliers by row, and groups by key table and key."""


class CertificateError(InputError):
    """A certificate that proves nothing; the message says where it is malformed, or by how much it fails."""


class Member(NamedTuple):
    """An item of a group.

    - ``item``: the item.
    - ``price``: units.
    - ``slot``: a token.
    - ``role``: index among the group's roles.
    """

    item: Item
    price: int
    slot: int
    role: int


class RoleGroup(NamedTuple):
    """A group of items with R roles.

    - ``members``: its items.
    - ``pairs`` (R, R): cost of a pair of roles, in units.
    - ``boxes``: the least counts, the largest counts and the charges of each box.
    """

    members: list[Member]
    pairs: Units
    boxes: list[tuple[list[int], list[int], list[int]]]


class ProofReader:
    """A proof whose integers are taken one by one."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers, self.at = numbers, 0

    def take(self, low: int = 0, high: int = MOST) -> int:
        """The next integer. Raises `CertificateError` if there is none, or if it is not from ``low`` to ``high``."""
        require(self.at < len(self.numbers), f"the proof ends after {self.at} numbers")
        value, self.at = int(self.numbers[self.at]), self.at + 1
        require(low <= value <= high, f"number {self.at} of the proof is {value}, not one of {low} to {high}")
        return value


def require(holds: object, fault: str) -> None:
    """Raises `CertificateError` with the message ``fault`` unless it ``holds``."""
    if not holds:
        raise CertificateError(fault)


def check(problem: Problem, bound: float, proof: Sequence[int]) -> None:
    """Checks the proof that no labelling scores above `IntegerProblem.limit` of ``bound`` nats.

    Raises `CertificateError` if it does not prove that.
    """
    ground, reader = IntegerProblem(problem), ProofReader(proof)
    limit = ground.limit(bound)
    waiting: list[tuple[Alive, RolePrices]] = [(ground.everything, ({}, {}))]
    while waiting:
        alive, prices = waiting.pop()
        for stage in range(1 + reader.take()):
            prices = ground.repriced(reader, prices) if stage else prices
            total, alive = ground.narrowed(alive, prices, limit)
        token = reader.take(COUNTED, len(problem) - 1)
        if token < 0:
            most = total if token == LEAF else ground.counted(alive, prices, limit)
            require(most <= limit, f"its bound is {math.ldexp(most - limit, -BITS):.3g} nats too high")
        else:
            label = reader.take(0, len(problem.labels) - 1)
            waiting += [(ground.branched(alive, token, label, has=has), prices) for has in (True, False)]
    require(reader.at == len(proof), f"it has {len(proof) - reader.at} numbers too many")


class IntegerProblem:
    """A problem in integers. Raises `CertificateError` if it does not fit, or if the bound cannot cover it."""

    def __init__(self, problem: Problem) -> None:
        self.problem, p, labels, rows = problem, problem.potentials, problem.labels, problem.rows
        self.unary, self.edges = _units(p.unary, math.ceil), _units(p.edges, math.ceil)
        (self.types, self.ways), outside = labels.first_labels.shape, np.flatnonzero(labels.type_of < 0)
        self.spans = self.types * self.ways  # kinds that are spans: loose labels open each type in two ways
        # By kind of item: the label of its first token, and that of its other tokens.
        self.first = np.append(labels.first_labels.T.ravel(), outside)
        self.later = np.append(np.tile(labels.inside, self.ways), outside)
        self.begin = np.repeat(p.sentence_starts, np.diff(p.sentence_starts, append=len(problem)))
        self.length = (np.arange(len(problem)) - self.begin + 1).tolist()  # tokens of the sentence up to each one
        # The last n rows hold the label at the last of n tokens, by first token and kind of the item.
        self.given = np.vstack([*[self.later] * max(self.length, default=0), self.first])
        self.everything: Alive = [np.ones((n, len(self.first)), np.bool_) for n in self.length]
        self.tables = problem.key_tables.tables
        first, last = rows.ends
        near = np.flatnonzero((last >= 0) & (last - first <= 1))
        self.local = frozenset(near[self.begin[first[near]] == self.begin[last[near]]].tolist())  # rows of one edge
        self._without: dict[frozenset[int], tuple[Units, Units]] = {}
        require(all((x >= 0).all() for x in (rows.weight, *(a.cost for a in problem.agreements))), "a penalty below 0")
        require((np.abs([*rows.bound, *rows.coefficient]) <= 1e9).all(), "a row with what is no number, or too large")
        require((rows.previous[np.isin(rows.position, p.sentence_starts)] == ANY).all(), "a label before a sentence")
        illegal = p.unary[p.sentence_starts][:, ~labels.legal_start], p.transition[..., ~labels.legal_transition]
        require(all((scores == -np.inf).all() for scores in illegal), "it allows what the label set forbids")

    def limit(self, bound: float) -> int:
        """Units that no labelling may exceed: ``bound`` nats and a tolerance.

        The tolerance is `TOLERANCE`, and for the rounding errors of bound and score as sums of floats `ROUNDING` of
        their magnitude, which is 1e-8 nats of a million. Raises `CertificateError` if the bound is no number of nats.
        """
        require(abs(bound) <= MOST, f"a bound of {bound} nats")
        scores = [np.where(scores == -math.inf, 0, np.abs(scores)) for scores in (self.unary, self.edges)]
        largest: int = scores[0].max(axis=1, initial=0).sum() + len(self.unary) * scores[1].max(initial=0)
        stated = Fraction(bound) * (1 << BITS)
        return math.floor(stated + Fraction(TOLERANCE) * (1 << BITS) + Fraction(ROUNDING) * (abs(stated) + largest))

    def branched(self, alive: Alive, token: int, label: int, *, has: bool) -> Alive:
        """The items that are left if the token has the label or, without ``has``, if it has another one."""
        rest, n = [own.copy() for own in alive], self.length[token]
        for last in np.flatnonzero(self.begin == self.begin[token])[n - 1 :]:
            rest[last][:n] &= (self.given[-n:] == label) == has
        return rest

    def narrowed(self, alive: Alive, prices: RolePrices, limit: int) -> tuple[int, Alive]:
        """Upper bound of labellings of the items ``alive``, and the items that one above ``limit`` can have."""
        unary, edges, total = self._charged(prices[0])
        priced, cost = self._priced(alive, prices)
        best, losses = self._solved(edges, self._scored(unary, edges, cost, alive))
        for group, members in priced:
            gain, less = _gain(group, members)
            total += gain
            for member, loss in zip(members, less, strict=True):
                self.cells(losses, member.item)[:] += loss
        excess = total + best - limit
        return total + best, [own & (loss < excess) for own, loss in zip(alive, losses, strict=True)]

    def counted(self, alive: Alive, prices: RolePrices, limit: int) -> float:
        """Upper bound of labellings of the items ``alive``, each row counted exactly; ``limit`` if none exceeds it.

        Raises `CertificateError` if a token has too many states.
        """
        unary, edges, _ = self._charged(prices[0])
        priced, cost = self._priced(alive, prices)
        scores = self._scored(unary, edges, cost, alive)
        gain = sum(_gain(group, members)[0] for group, members in priced)
        local = self.local - prices[0].keys()
        rows = [r for r in range(len(self.problem.rows)) if r not in local]
        return _StateWalk(self, rows, prices[0], edges, scores).bound(limit - gain) + gain

    def _priced(self, alive: Alive, prices: RolePrices) -> tuple[list[tuple[RoleGroup, list[Member]]], list[Units]]:
        """The groups with their members that are left, and what the groups charge each item, in units."""
        groups = prices[1].values()
        priced = [(group, [m for m in group.members if self.cells(alive, m.item).any()]) for group in groups]
        cost = [np.zeros(own.shape, object) for own in alive]
        for member in itertools.chain(*(members for _, members in priced)):
            self.cells(cost, member.item)[:] += member.price
        return priced, cost

    def cells(self, arrays: Sequence[NDArray[Any]], item: Item) -> NDArray[Any]:
        """View of an item's cells in arrays like `Alive`: one for each label that opens it, or each outside label."""
        start, end, kind = item
        own: NDArray[Any] = arrays[end - 1][start - self.begin[start]]
        return own[kind : self.spans : self.types] if kind >= 0 else own[self.spans :]

    def _charged(self, multipliers: dict[int, int]) -> tuple[Units, Units, int]:
        """Scores less the charges of rows, in units: of labels (N, L) and edges (N, L, L); and Σ_r λ_r · bound_r."""
        rows, total = self.problem.rows, 0
        unary, edges = (scores.copy() for scores in self._folded(frozenset(multipliers) & self.local))
        for r, multiplier in multipliers.items():
            entries, limit = range(rows.pointer[r], rows.pointer[r + 1]), Fraction(float(rows.bound[r]))
            coefficients = [Fraction(float(rows.coefficient[e])) for e in entries]
            # A row exceeded by its slack holds, and the score's sum of floats is off by less than one more slack.
            # Multiples of 2⁻²⁰ that are not too large are summed exactly: no excess is that small.
            total += math.ceil(multiplier * (limit if rows.summed_exactly[r] else limit + 2 * Fraction(rows.slack[r])))
            for e, coefficient in zip(entries, coefficients, strict=True):
                t, before = rows.position[e], rows.previous[e]
                scores = unary[t] if before == ANY else edges[t, before]
                scores[rows.label[e]] -= math.floor(multiplier * coefficient)
        return unary, edges, total

    def _folded(self, apart: frozenset[int]) -> tuple[Units, Units]:
        """Scores (N, L) and (N, L, L) less the penalties of all rows of one edge but those ``apart``, in units."""
        if apart not in self._without:
            unary, edges = (
                self.unary.copy(),
                np.broadcast_to(self.edges, (len(self.unary), *self.edges.shape[1:])).copy(),
            )
            for r in sorted(self.local - apart):
                self._fold(r, unary, edges)
            self._without = {apart: (unary, edges)}
        return self._without[apart]

    def _fold(self, r: int, unary: Units, edges: Units) -> None:
        """Takes the least penalty of a row of one token or one edge off its scores."""
        rows, (first, last) = self.problem.rows, (int(ends[r]) for ends in self.problem.rows.ends)
        scores, exact = unary[last, None] if first == last else edges[last], bool(rows.summed_exactly[r])
        number = float if exact else Fraction  # floats that are summed exactly are exact numbers, too
        entries = slice(rows.pointer[r], rows.pointer[r + 1])
        position, before, label = (column[entries] for column in (rows.position, rows.previous, rows.label))
        coefficient = np.array([number(float(c)) for c in rows.coefficient[entries]], float if exact else object)
        of_pair, of_label = before != ANY, np.zeros((2, scores.shape[1]), coefficient.dtype)
        np.add.at(of_label, ((position == last)[~of_pair].astype(int), label[~of_pair]), coefficient[~of_pair])
        activity = of_label[0][: len(scores), None] + of_label[1] if first < last else of_label[1:]
        np.add.at(activity, (before[of_pair], label[of_pair]), coefficient[of_pair])
        # See `_charged`: sums of floats may be off by a slack, and a row exceeded by its slack holds.
        slack, bound = Fraction(float(rows.slack[r])), Fraction(float(rows.bound[r]))
        surely, weight = bound if exact else bound + slack, float(rows.weight[r])
        for value in set(activity.ravel().tolist()):
            if (excess := Fraction(value) - surely) > slack:
                least = math.inf if math.isinf(weight) else math.floor(excess * Fraction(weight) * (1 << BITS))
                scores[activity == value] -= least

    def _scored(self, unary: Units, edges: Units, cost: list[Units], alive: Alive) -> list[Units]:
        """Score of each item less its cost, in units; −inf for one that is not left."""
        scores, inner = list[Units](), np.zeros((0, len(self.first)), object)
        for i, n in enumerate(self.length):
            longer = inner[: n - 1] + edges[i, self.given[len(self.given) + 1 - n :], self.later] + unary[i, self.later]
            longer[:, self.spans :] = -math.inf
            inner = np.vstack([longer, unary[i, self.first]])
            scores.append(np.where(alive[i], inner - cost[i], -math.inf))
        return scores

    def joint(self, edges: Units) -> Units:
        """Scores of edges between items: an item can follow another one if it does not continue it."""
        return np.where(self.problem.labels.continues, -math.inf, edges)

    def _solved(self, edges: Units, scores: list[Units]) -> tuple[int, list[Units]]:
        """The best score of all sentences, and the loss with each item, by a forward and a backward pass; in units."""
        joint = self.joint(edges)
        enter, reach = np.zeros(edges.shape[:2], object), np.full(edges.shape[:2], -math.inf, object)
        for i, n in enumerate(self.length):
            if n > 1:
                enter[i] = (reach[i - 1][:, None] + joint[i]).max(axis=0)
            np.maximum.at(reach[i], self.given[-n:], enter[i + 1 - n : i + 1, self.first] + scores[i])
        begun, leave = self.passed(joint, scores)
        best = begun[self.begin].max(axis=1, initial=-(MOST**2))  # a number even if no item is left
        losses = [
            best[i] - (enter[i + 1 - n : i + 1, self.first] + scores[i] + leave[i, self.given[-n:]])
            for i, n in enumerate(self.length)
        ]
        return sum(best[self.problem.potentials.sentence_starts]), losses

    def passed(self, joint: Units, scores: list[Units]) -> tuple[Units, Units]:
        """The best score of a sentence from an item that begins at each token (N, K), and after each label (N, L)."""
        leave = np.zeros(joint.shape[:2], object)
        begun = np.full((len(leave), len(self.first)), -math.inf, object)
        for i, n in reversed([*enumerate(self.length)]):
            starting = begun[i + 1 - n : i + 1]
            starting[:] = np.maximum(starting, scores[i] + leave[i, self.given[-n:]])
            if n > 1:
                leave[i - 1] = (joint[i][:, self.first] + begun[i]).max(axis=1)
        return begun, leave

    def repriced(self, reader: ProofReader, old: RolePrices) -> RolePrices:
        """The old prices, updated by those that the next stage sets."""
        rows, groups, weight = dict(old[0]), dict(old[1]), self.problem.rows.weight
        for _ in range(reader.take()):
            r = reader.take(0, len(weight) - 1)
            rows[r] = reader.take()
            require(Fraction(rows[r], 1 << BITS) <= weight[r], f"row {r} has a multiplier above its weight")
        for _ in range(reader.take()):
            table, key = reader.take(0, len(self.tables) - 1), reader.take()
            groups[table, key] = self.group(reader, table, key)
        return rows, groups

    def group(self, reader: ProofReader, table: int, key: int) -> RoleGroup:
        """Reads the next group."""
        placed: dict[Item, tuple[int, int, int]] = {}
        for _ in range(reader.take()):
            item = reader.take(), reader.take(), reader.take(-1)
            require(item not in placed, f"number {reader.at}: {item} is there twice")
            placed[item] = reader.take(), *self.role(table, key, item)
        roles = sorted({role for *_, role in placed.values()})
        require(len(roles) <= MOST_ROLES, f"a group of {len(roles)} roles")
        members = [Member(item, price, slot, roles.index(role)) for item, (price, slot, role) in placed.items()]
        width = min((end - start for (start, end, _), (*_, role) in placed.items() if role < self.types), default=0)
        return RoleGroup(members, self._pairs(table, width)[np.ix_(roles, roles)], _boxes(reader, len(roles)))

    def role(self, table: int, key: int, item: Item) -> tuple[int, int]:
        """Slot of an item in a group, and its role: type + T · place in `RELATIONS`.

        Raises `CertificateError` if the item has no part in the group.
        """
        (start, end, kind), keys, fault = item, self.tables[table], f"{item} has no part in group {key}"
        require(start < end <= len(keys) and kind < self.types and self.begin[start] == self.begin[end - 1], fault)
        require(end - start <= (keys.shape[1] if kind >= 0 else 1), fault)
        named = [(t, t + w + 1) for t in range(start, end) for w in np.flatnonzero(keys[t] == key).tolist()]
        inside = [place for place in named if place[1] <= end or kind < 0]
        require(inside, fault)
        labelled = kind if (start, end) in inside else self.types + kind
        return inside[0][0], labelled if kind >= 0 else 2 * self.types

    def _pairs(self, table: int, width: int) -> Units:
        """Least cost of each pair of roles, the lower role first, in a group of ``width`` or more tokens; in units."""
        costs = np.zeros((2 * self.types + 1, 2 * self.types + 1), object)
        for a in self.problem.agreements:
            if a.key is self.tables[table] and a.relation in RELATIONS:
                cost = _units(np.minimum(a.cost, HARD), math.floor) * (width if a.per_token else 1)
                turned = {Relation.EXACT: np.triu(cost, 1), Relation.CONTAINED: cost.T}.get(a.relation, cost)
                first = RELATIONS.index(a.relation) * self.types
                costs[: self.types, first : first + cost.shape[1]] += turned
        return costs


class _Counter(NamedTuple):
    """A row as a walk counts it; all numbers are exact.

    - ``tokens``: those with entries, rising.
    - ``limit``: sum up to which it costs nothing: its bound and slack.
    - ``bound``: sum from which its excess is reckoned.
    - ``multiplier``, ``weight``: units for each unit of the sum, and of the excess.
    - ``rest``: least and most that the entries from each of these tokens on add up to, and 0 after the last.
    """

    tokens: list[int]
    limit: Fraction
    bound: Fraction
    multiplier: int
    weight: Fraction | float
    rest: list[tuple[Fraction, Fraction]]

    def gain(self, total: Fraction) -> float:
        """Units by which the charges of a row of which the entries add up to ``total`` are above its penalty."""
        charges = math.ceil(self.multiplier * total)
        if total <= self.limit:
            return charges
        if self.weight == math.inf:
            return -math.inf
        return charges - math.floor((total - self.bound) * Fraction(self.weight))

    def most(self, total: Fraction | str, t: int) -> float:
        """Largest gain to come, in units, of a row with the sum ``total`` up to token t."""
        low, high = self.rest[bisect_right(self.tokens, t)]
        if total == KEPT:
            return math.ceil(self.multiplier * high)
        if total == BROKEN:
            return math.ceil((self.multiplier - Fraction(self.weight)) * low)
        assert isinstance(total, Fraction)
        return self.gain(min(max(self.limit, total + low), total + high))

    def after(self, total: Fraction | str, grown: Fraction, t: int) -> tuple[Fraction | str, float]:
        """The sum with what it has ``grown`` by at token t, settled if it can be, and the units gained at once."""
        if total == KEPT:
            return KEPT, math.ceil(self.multiplier * grown)
        if total == BROKEN:
            return BROKEN, math.ceil((self.multiplier - Fraction(self.weight)) * grown)
        assert isinstance(total, Fraction)
        total, (low, high) = total + grown, self.rest[bisect_right(self.tokens, t)]
        if total + high <= self.limit:
            return KEPT, math.ceil(self.multiplier * total)
        if total + low > self.limit:
            return BROKEN, self.gain(total)
        return total, 0


KEPT, BROKEN = "kept", "broken"
"""Sums of rows that cost nothing whatever follows, and of those that pay for each entry from now on."""
Sums = tuple[tuple[int, Fraction | str], ...]
"""Rows with entries before and after, by number, each with its sum."""


class _StateWalk:
    """Items one after the other, from the first token to the last, with the sums of rows as states."""

    def __init__(
        self, ground: IntegerProblem, rows: list[int], multipliers: dict[int, int], edges: Units, scores: list[Units]
    ) -> None:
        self.ground, self.scores, self.joint = ground, scores, ground.joint(edges)
        begun, self.leave = ground.passed(self.joint, scores)
        tokens = len(ground.length)
        starts = ground.problem.potentials.sentence_starts.tolist()
        self.ends = {*(start - 1 for start in starts), tokens - 1}
        best = {start: begun[start].max(initial=-(MOST**2)) for start in starts}
        self.later = [sum(best[start] for start in starts if start > t) for t in range(tokens)]
        # By token and label: row, label before, and coefficient; by token, the rows with entries there.
        self.entries: dict[tuple[int, int], list[tuple[int, int, Fraction]]] = {}
        self.rows: dict[int, list[int]] = {}
        self.items: list[list[tuple[int, int, int, int]]] = [[] for _ in range(tokens)]
        for last, own in enumerate(scores):
            for place, kind in np.argwhere(own > -math.inf).tolist():
                labels = int(ground.first[kind]), int(ground.later[kind])
                self.items[last + 1 - len(own) + place].append((last, *labels, own[place, kind]))
        self.counters = {r: self._counter(r, multipliers.get(r, 0)) for r in rows}
        self.unbegun = [
            sum(c.most(Fraction(0), -1) for c in self.counters.values() if c.tokens and c.tokens[0] > t)
            for t in range(tokens)
        ]
        self._grown: dict[tuple[int, tuple[int, int]], dict[int, Fraction]] = {}

    def _counter(self, r: int, multiplier: int) -> _Counter:
        """Row r as the walk counts it; its entries are noted."""
        rows, own = self.ground.problem.rows, dict[int, dict[tuple[int, int], Fraction]]()
        for e in range(rows.pointer[r], rows.pointer[r + 1]):
            t, before, label = int(rows.position[e]), int(rows.previous[e]), int(rows.label[e])
            coefficient = Fraction(float(rows.coefficient[e]))
            self.entries.setdefault((t, label), []).append((r, before, coefficient))
            sums = own.setdefault(t, {})
            sums[label, before] = sums.get((label, before), Fraction(0)) + coefficient
        rest = [(Fraction(0), Fraction(0))]
        for t in sorted(own, reverse=True):
            self.rows.setdefault(t, []).append(r)
            # An entry of a pair of labels comes on top of those of the label alone.
            alone = [own[t].get((label, ANY), Fraction(0)) for label, _ in own[t]]
            pairs = [c + alone[i] for i, ((_, before), c) in enumerate(own[t].items()) if before != ANY]
            sums_there = [Fraction(0), *alone, *pairs]
            rest.append((rest[-1][0] + min(sums_there), rest[-1][1] + max(sums_there)))
        # See `IntegerProblem._charged`: the score's sum of floats is off by less than a slack.
        slack, weight = Fraction(float(rows.slack[r])), float(rows.weight[r])
        bound = Fraction(float(rows.bound[r])) + (0 if rows.summed_exactly[r] else slack)
        units = weight if math.isinf(weight) else Fraction(weight) * (1 << BITS)
        return _Counter(sorted(own), bound + slack, bound, multiplier, units, rest[::-1])

    def bound(self, limit: int) -> float:
        """Upper bound of all labellings in units; ``limit`` if none exceeds it."""
        start = sum(c.gain(Fraction(0)) for c in self.counters.values() if not c.tokens)
        waiting: list[dict[tuple[int, Sums], float]] = [{} for _ in range(len(self.scores) + 1)]
        if start > -math.inf:
            waiting[0][ANY, ()] = start
        for t in range(len(self.scores)):
            require(len(waiting[t]) <= MOST_STATES, f"token {t} has {len(waiting[t])} states")
            for (before, sums), score in waiting[t].items():
                self._extend(t, before, sums, score, limit, waiting)
            waiting[t].clear()
        return max([limit, *waiting[-1].values()])

    def _extend(
        self,
        t: int,
        before: int,
        sums: Sums,
        score: float,
        limit: int,
        waiting: list[dict[tuple[int, Sums], float]],
    ) -> None:
        """Puts each item that begins at token t behind a state, and keeps what may exceed the limit."""
        for last, first, later, own in self.items[t]:
            value = score + own + (0 if t - 1 in self.ends or t == 0 else self.joint[t][before, first])
            labels = [before, first, *[later] * (last - t)]
            counts, gain = self._counted(t, labels, sums)
            label, value = labels[-1], value + gain
            to_come = sum(self.counters[r].most(total, last) for r, total in counts.items())
            rest = self.leave[last, label] + self.later[last] + self.unbegun[last] + to_come
            if not value + rest > limit:
                continue
            name = ANY if last in self.ends else label, tuple(sorted(counts.items()))
            waiting[last + 1][name] = max(waiting[last + 1].get(name, value), value)

    def _counted(self, t: int, labels: list[int], sums: Sums) -> tuple[dict[int, Fraction | str], float]:
        """The sums of open rows after an item that begins at token t, and the units gained; −inf if a hard row breaks.

        ``labels``: that of the token before, and those of the item.
        """
        counts = dict(sums)
        gain: float = 0
        for u, pair in enumerate(itertools.pairwise(labels), t):
            for r, grown in self._growth(u, pair).items():
                counter = self.counters[r]
                counts[r], more = counter.after(counts.get(r, Fraction(0)), grown, u)
                gain += more
                if gain == -math.inf:
                    return {}, gain
                if u == counter.tokens[-1]:
                    del counts[r]
        return counts, gain

    def _growth(self, t: int, pair: tuple[int, int]) -> dict[int, Fraction]:
        """What token t adds to each row with entries there, by the labels of the token before and of its own."""
        if (t, pair) not in self._grown:
            grown = dict.fromkeys(self.rows.get(t, ()), Fraction(0))
            for r, before, coefficient in self.entries.get((t, pair[1]), ()):
                if before in {ANY, pair[0]}:
                    grown[r] += coefficient
            self._grown[t, pair] = grown
        return self._grown[t, pair]


def _boxes(reader: ProofReader, roles: int) -> list[tuple[list[int], list[int], list[int]]]:
    """Reads the boxes into which the counts of a group are split, role by role: together they hold all counts."""
    boxes, waiting = [], [([0] * roles, [MOST] * roles)]
    while waiting:
        low, high = waiting.pop()
        role = reader.take(LEAF, roles - 1)
        if role == LEAF:
            boxes.append((low, high, [reader.take(-MOST) for _ in range(roles)]))
            continue
        count, more, fewer = reader.take(), [*low], [*high]
        more[role], fewer[role] = max(low[role], count + 1), min(high[role], count)
        waiting += [(more, high), (low, fewer)]
    return boxes


def _gain(group: RoleGroup, members: list[Member]) -> tuple[int, list[float]]:
    """Upper bound of the gain of a group's members, and the loss of this bound with each member; in units.

    It is the largest bound of the group's boxes.
    """
    most, having = 0, [-math.inf] * len(members)
    held = Counter(role for _, role in {(m.slot, m.role) for m in members})
    for low, limit, charge in group.boxes:
        high = [min(count, held[role]) for role, count in enumerate(limit)]
        if any(a > b for a, b in zip(low, high, strict=True)):
            continue
        own, gains = [m.price - charge[m.role] for m in members], Counter[int]()
        for m, gain in zip(members, own, strict=True):
            gains[m.slot] = max(gains[m.slot], gain)
        corners = np.array([*itertools.product(*({a, b} for a, b in zip(low, high, strict=True)))], object)
        ends = corners @ np.array(charge, object) - (corners @ group.pairs * corners).sum(axis=1)
        bound = sum(gains.values()) + ends.max()
        most = max(most, bound)
        within = [bound - gains[m.slot] + gain for m, gain in zip(members, own, strict=True)]
        having = [max(a, b) if high[m.role] else a for a, b, m in zip(having, within, members, strict=True)]
    return most, [most - with_it for with_it in having]


def _units(nats: Floats, rounded: Callable[[float], int]) -> Units:
    """Units of an array of nats, each ``rounded``; −inf stays."""
    require((np.abs(nats[nats > -np.inf]) <= 1e9).all(), "potentials that are no numbers, or too large")
    units = [x if x == -math.inf else rounded(math.ldexp(x, BITS)) for x in nats.ravel().tolist()]
    return np.array(units, object).reshape(nats.shape)
