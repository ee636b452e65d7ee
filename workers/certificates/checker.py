"""Checks the proof that no labelling of a document scores more than its bound: small, slow, plain, and exact.

All numbers are integers of 2⁻⁴⁰ nats: potentials are rounded up and penalties down. For any prices of *items* (a span
of a type, or an outside label at a token) in *groups* (a key of a key table), and any multipliers 0 ≤ λ ≤ weight of
linear rows, a labelling y scores no more than

    Σ_sentences max_y [local(y) − prices of y's items − λ · row entries of y]
    + Σ_groups max_u [prices of the items u that it is given − penalty of u] + Σ_r λ_r · bound_r.

A sentence's maximum runs over all its spans. An item whose labellings all stay within the limit is struck out before
the next prices. In a group every slot (a token that all its items share, so that one of them is used at most) takes a
role (a type of a span of these words, or around them, or left outside), and n and m of two roles cost n·m times the
price of their pair. With charges c of the roles, counts n in a box gain no more than
Σ_slots max(0, price − c) + max_n [c·n − penalty(n)], whose last part is linear in every count, so a corner has it.
What leaves out a role, a pair, or a penalty (of values that differ) only raises the bound.

`workers.certificates.proof` says how a proof is written. Prices hold until they are set anew; a node begins with
those that it finds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.potentials import Floats, Ints
from schemas.problem import ANY, SLACK_TOLERANCE, Problem, Relation
from workers.certificates.proof import LEAF, MOST, CertificateError, Item, Reader, ReadGroup

BITS = 40
TOLERANCE = 1e-6
"""Nats that a bound is confirmed to within."""
LARGEST = 1 << 58
"""No sentence may have scores beyond this, so that 64 bits hold all sums, also with `IMPOSSIBLE`."""
IMPOSSIBLE, POSSIBLE = -(1 << 61), -(1 << 60)
"""The score of what cannot be, and what every other score is above."""

Mask = NDArray[np.bool_]


class Alive(NamedTuple):
    """What a sentence of n tokens can still have: spans (n, n, T) by first and last token, outside labels (n, L)."""

    spans: Mask
    outside: Mask


class Member(NamedTuple):
    """An item of a group, its price, its slot (a token), and its role's place among the group's."""

    item: Item
    price: int
    slot: int
    role: int


class Group(NamedTuple):
    """Priced items of equal words, what pairs of their roles pay, and boxes of counts."""

    members: list[Member]
    pairs: list[list[int]]
    boxes: Sequence[int]


class Prices(NamedTuple):
    """Multipliers of rows, and groups by key table and key."""

    rows: dict[int, int]
    groups: dict[tuple[int, int], Group]


class Sentence(NamedTuple):
    """A sentence under prices: its best score, and that of labellings with each span, and each outside label."""

    best: int
    spans: Ints
    outside: Ints


def check(problem: Problem, bound: float, proof: Sequence[int]) -> None:
    """Returns if ``proof`` proves that no labelling scores more than ``bound`` + `TOLERANCE` nats.

    Raises `CertificateError` otherwise.
    """
    if not abs(bound) <= 1e6:
        raise CertificateError(f"a bound of {bound} nats")
    limit = math.floor(math.ldexp(bound + TOLERANCE, BITS))
    ground, reader = Ground(problem), Reader(proof)
    waiting = [(ground.everything(), Prices({}, {}))]
    while waiting:
        alive, prices = waiting.pop()
        for number in range(1 + reader.count()):
            prices = ground.repriced(reader, prices) if number else prices
            total, sentences = ground.bound(alive, prices)
            alive = narrowed(alive, sentences, limit - total)
        token = reader.take(LEAF, len(problem) - 1)
        if token != LEAF:
            label = reader.take(0, len(problem.labels) - 1)
            waiting += [(ground.branched(alive, token, label, has=has), prices) for has in (True, False)]
        elif total > limit:
            raise CertificateError(f"its bound is {math.ldexp(total - limit, -BITS):.3g} nats too high")
    if reader.at < len(proof):
        raise CertificateError(f"it has {len(proof) - reader.at} numbers too many")


def narrowed(alive: list[Alive], sentences: list[Sentence], room: int) -> list[Alive]:
    """Without the items whose labellings all stay within the limit, which is ``room`` above the bound."""
    least = [max(-4 * LARGEST, min(s.best + room, 4 * LARGEST)) for s in sentences]
    found = zip(alive, sentences, least, strict=True)
    return [Alive(a.spans & (s.spans > low), a.outside & (s.outside > low)) for a, s, low in found]


class Ground:
    """A problem in integers. Raises `CertificateError` for one that does not fit."""

    def __init__(self, problem: Problem) -> None:
        p, labels, rows = problem.potentials, problem.labels, problem.rows
        self.problem, self.rows = problem, rows
        self.unary, self.transition = _up(p.unary), _up(p.transition)
        self.opening, self.inside, self.outside = labels.opening, labels.inside, np.flatnonzero(labels.type_of < 0)
        starts = [*p.sentence_starts.tolist(), len(problem)]
        self.sentences = list(itertools.pairwise(starts))
        self.sentence = np.repeat(np.arange(len(self.sentences)), np.diff(starts))
        self.tables, self.table_of = problem.key_tables
        opens = np.isin(rows.position, p.sentence_starts)
        if not all((a.cost >= 0).all() for a in problem.agreements) or not (rows.weight >= 0).all():
            raise CertificateError("a penalty below 0")
        if (opens & (rows.previous != ANY)).any() or not np.isfinite([*rows.bound, *rows.coefficient]).all():
            raise CertificateError("a row with a label before a sentence, or with what is no number")
        first = self.unary[np.ix_(p.sentence_starts, ~labels.legal_start)]
        if (
            max(first.max(initial=IMPOSSIBLE), self.transition[~labels.legal_transition].max(initial=IMPOSSIBLE))
            > POSSIBLE
        ):
            raise CertificateError("potentials that allow what the label set forbids")

    def everything(self) -> list[Alive]:
        """All items that are possible."""
        alive = []
        for number in range(len(self.sentences)):
            unary, edges = self._chain(number)
            _check_size(unary, edges, np.zeros((1, 1, 1), np.int64), 0)
            outside = np.isin(np.arange(unary.shape[1]), self.outside) & (unary > POSSIBLE)
            alive.append(Alive(self._scores(unary, edges) > POSSIBLE, outside))
        return alive

    def branched(self, alive: list[Alive], token: int, label: int, *, has: bool) -> list[Alive]:
        """Without the items that give the token that label, or without all others there."""
        number, t = self._place(token)
        spans, outside = alive[number].spans.copy(), alive[number].outside.copy()
        giving = np.zeros_like(spans)
        giving[t, t:, self.opening == label] = True
        giving[:t, t:, self.inside == label] = True
        spans[: t + 1, t:] &= giving[: t + 1, t:] == has
        outside[t] &= (np.arange(outside.shape[1]) == label) == has
        return [*alive[:number], Alive(spans, outside), *alive[number + 1 :]]

    def bound(self, alive: list[Alive], prices: Prices) -> tuple[int, list[Sentence]]:
        """What no labelling of what is alive exceeds, and its sentences."""
        sure = self.sure(alive)
        listed = [self.listed(group, alive, sure) for group in prices.groups.values()]
        charges, total = self._row_charges(prices.rows)
        priced: dict[int, list[Member]] = {}
        for member in itertools.chain(*listed):
            priced.setdefault(int(self.sentence[member.item.start]), []).append(member)
        owed, sentences = self._owed(sure), []
        for number, (first, last) in enumerate(self.sentences):
            unary, edges = self._chain(number)
            cost = np.zeros(alive[number].spans.shape, np.int64)
            for (t, before, label), charge in charges.get(number, {}).items():
                scores = unary[t, label : label + 1] if before == ANY else edges[t, before, label : label + 1]
                scores -= np.where(scores > POSSIBLE, charge, 0)
            for width, by_start in owed:
                starts = np.arange(last - first - width + 1)
                cost[starts, starts + width - 1] += by_start[first + starts]
            _check_size(unary, edges, cost, sum(member.price for member in priced.get(number, [])))
            for (start, end, kind), price, _, _ in priced.get(number, []):
                if kind >= 0:
                    cost[start - first, end - 1 - first, kind] += price
                else:
                    unary[start - first, self.outside] -= price
            sentences.append(self._solved(np.maximum(unary, IMPOSSIBLE), edges, cost, alive[number]))
            total += sentences[-1].best
        for group, members in zip(prices.groups.values(), listed, strict=True):
            gain, losses = _gain(group, members)
            total += gain
            for item, loss in losses.items():
                number, t = self._place(item.start)
                spans, outside = sentences[number].spans, sentences[number].outside
                through = outside[t] if item.type < 0 else spans[t, t + item.end - item.start - 1, item.type :][:1]
                through -= min(loss, LARGEST)
        return total, sentences

    def sure(self, alive: list[Alive]) -> Mask:
        """(N,) tokens that no span can hold: their labels are outside."""
        covered = [np.zeros(0, np.bool_)]
        for spans, _ in alive:
            start, end = (spans.any(axis=2).sum(axis=axis) for axis in (1, 0))
            covered.append(np.cumsum(start) - np.cumsum(end) + end > 0)
        return ~np.concatenate(covered)

    def listed(self, group: Group, alive: list[Alive], sure: Mask) -> list[Member]:
        """The members that are alive and undecided."""

        def undecided(item: Item) -> bool:
            number, t = self._place(item.start)
            if item.type < 0:
                return not sure[item.start] and bool(alive[number].outside[t].any())
            return bool(alive[number].spans[t, t + item.end - item.start - 1, item.type])

        return [member for member in group.members if undecided(member.item)]

    def _place(self, token: int) -> tuple[int, int]:
        """A token's sentence, and its place there."""
        number = int(self.sentence[token])
        return number, token - self.sentences[number][0]

    def _owed(self, sure: Mask) -> list[tuple[int, Ints]]:
        """By width, (N, T) what a span from each token owes to places of its words that are left out for sure."""
        owed = []
        longest = max((last - first for first, last in self.sentences), default=0)
        for a in self.problem.agreements:
            if a.relation is not Relation.UNLABELLED:
                continue
            cost = np.array([_down(float(c)) for c in a.cost[:, 0]], np.int64)
            keys = a.key[sure]
            places = np.bincount(keys[keys >= 0], minlength=int(a.key.max(initial=0)) + 1)
            for width in range(1, min(a.key.shape[1], longest) + 1):
                key = a.key[:, width - 1]
                times = np.where(key >= 0, places[key], 0) * (width if a.per_token else 1)
                owed.append((width, np.minimum(np.minimum(times, 1 << 12)[:, None] * cost, MOST)))
        return owed

    def _row_charges(self, multipliers: dict[int, int]) -> tuple[dict[int, dict[tuple[int, int, int], int]], int]:
        """What rows charge by sentence, token there, label before (or `ANY`) and label, and Σ_r λ_r · bound_r."""
        rows, total = self.rows, 0
        charges: dict[int, dict[tuple[int, int, int], int]] = {}
        for r, multiplier in multipliers.items():
            entries, limit = range(int(rows.pointer[r]), int(rows.pointer[r + 1])), Fraction(float(rows.bound[r]))
            coefficients = [Fraction(float(rows.coefficient[e])) for e in entries]
            # A row exceeded by `SLACK_TOLERANCE` holds; multiples of 2⁻²⁰ are not exceeded by so little.
            whole = all((x * (1 << 20)).denominator == 1 for x in (limit, *coefficients))
            total += math.ceil(multiplier * (limit if whole else limit + Fraction(2 * SLACK_TOLERANCE)))
            for e, coefficient in zip(entries, coefficients, strict=True):
                number, t = self._place(int(rows.position[e]))
                own, entry = charges.setdefault(number, {}), (t, int(rows.previous[e]), int(rows.label[e]))
                own[entry] = own.get(entry, 0) + math.floor(multiplier * coefficient)
        if any(abs(charge) > LARGEST for own in charges.values() for charge in own.values()):
            raise CertificateError("multipliers too large to be summed in 64 bits")
        return charges, total

    def _chain(self, number: int) -> tuple[Ints, Ints]:
        """Scores of a sentence's labels (n, L), and of labels before and at its tokens (n, L, L), 0 at the first."""
        first, last = self.sentences[number]
        edges = np.repeat(self.transition[None], last - first, axis=0)
        edges[:1] = 0
        return self.unary[first:last].copy(), edges

    def _scores(self, unary: Ints, edges: Ints) -> Ints:
        """(n, n, T) scores of all spans by first and last token, from first label to last."""
        opening, inside = self.opening, self.inside
        scores = np.full((len(unary), len(unary), len(opening)), IMPOSSIBLE)
        for i in range(len(unary)):
            scores[:i, i] = scores[:i, i - 1] + edges[i, inside, inside] + unary[i, inside]
            if i:
                scores[i - 1, i] = unary[i - 1, opening] + edges[i, opening, inside] + unary[i, inside]
            scores[:i, i] = np.where(scores[:i, i] > POSSIBLE, scores[:i, i], IMPOSSIBLE)
            scores[i, i] = unary[i, opening]
        return scores

    def _solved(self, unary: Ints, edges: Ints, cost: Ints, alive: Alive) -> Sentence:
        """Best scores by dynamic programming over items, forward and backward."""
        opening, inside, t = self.opening, self.inside, np.arange(len(unary))
        scores = np.where(alive.spans, self._scores(unary, edges) - cost, IMPOSSIBLE)
        outside = np.where(alive.outside, unary, IMPOSSIBLE)
        # Items follow each other where the second does not continue the first.
        joint = np.where(self.problem.labels.continues, IMPOSSIBLE, edges)
        enter, reach, leave = np.zeros_like(unary), np.full_like(unary, IMPOSSIBLE), np.zeros_like(unary)
        for i in range(len(t)):
            if i:
                enter[i] = np.maximum((reach[i - 1][:, None] + joint[i]).max(axis=0), IMPOSSIBLE)
            ended = enter[: i + 1, opening] + scores[: i + 1, i]
            reach[i] = np.maximum(enter[i] + outside[i], IMPOSSIBLE)
            reach[i, opening] = np.maximum(reach[i, opening], ended[i])
            reach[i, inside] = np.maximum(reach[i, inside], ended[:i].max(axis=0, initial=IMPOSSIBLE))
        for i in range(len(t) - 1, 0, -1):
            begun = scores[i, i:] + leave[i:, inside]
            begun[0] = scores[i, i] + leave[i, opening]
            start = np.maximum(outside[i] + leave[i], IMPOSSIBLE)
            start[opening] = np.maximum(start[opening], begun.max(axis=0))
            leave[i - 1] = np.maximum((joint[i] + start).max(axis=1), IMPOSSIBLE)
        after = np.repeat(leave[None][:, :, inside], len(t), axis=0)
        after[t, t] = leave[:, opening]
        return Sentence(int(reach[-1].max()), enter[:, None, opening] + scores + after, enter + outside + leave)

    def repriced(self, reader: Reader, old: Prices) -> Prices:
        """The old prices with those that the next stage sets."""
        rows, groups = dict(old.rows), dict(old.groups)
        for _ in range(reader.count()):
            r = reader.take(0, len(self.rows) - 1)
            rows[r] = reader.take(0, MOST)
            if Fraction(rows[r], 1 << BITS) > self.rows.weight[r]:
                raise CertificateError(f"row {r} has a multiplier above its weight")
        for _ in range(reader.count()):
            read = reader.group()
            groups[read.table, read.key] = self.group(read)
        return Prices(rows, groups)

    def group(self, read: ReadGroup) -> Group:
        """A group with the roles of its items."""
        if read.table >= len(self.tables):
            raise CertificateError(f"table {read.table}, of {len(self.tables)}")
        placed = [(item, price, *self.role(read.table, read.key, item)) for item, price in read.prices.items()]
        roles, types = sorted({role for *_, role in placed}), len(self.opening)
        if len(roles) != read.roles:
            raise CertificateError(f"a group of {len(roles)} roles says {read.roles}")
        width = min((item.end - item.start for item, _, _, role in placed if role < types), default=0)
        cost = self._pair_costs(read.table, width)
        members = [Member(item, price, slot, roles.index(role)) for item, price, slot, role in placed]
        return Group(members, [[cost.get((a, b), 0) for b in roles] for a in roles], read.boxes)

    def role(self, table: int, key: int, item: Item) -> tuple[int, int]:
        """The token of the group that an item holds, and its role. Raises `CertificateError` where it has none."""
        (start, end, kind), types = item, len(self.opening)
        there = end <= len(self.problem) and start < end and kind < types
        if there and self.sentence[start] == self.sentence[end - 1]:
            keys = self.tables[table]
            if kind < 0 and end == start + 1 and (keys[start] == key).any():
                return start, 2 * types
            if kind >= 0 and end - start <= keys.shape[1]:
                if keys[start, end - start - 1] == key:
                    return start, kind
                for at in range(start, end):
                    if (keys[at, : min(end - at, end - start - 1)] == key).any():
                        return at, types + kind
        raise CertificateError(f"{tuple(item)} has no part in group {key} of table {table}")

    def _pair_costs(self, table: int, width: int) -> dict[tuple[int, int], int]:
        """What pairs of roles cost at least, where spans of the group have ``width`` tokens or more."""
        types, cost = len(self.opening), dict[tuple[int, int], int]()
        first = {Relation.EXACT: (0, 0), Relation.CONTAINED: (types, 0), Relation.UNLABELLED: (0, 2 * types)}
        for a, own in zip(self.problem.agreements, self.table_of.tolist(), strict=True):
            if own != table or a.relation is Relation.DIFFERENT:
                continue
            for (one, other), price in np.ndenumerate(a.cost):
                pair = first[a.relation][0] + one, first[a.relation][1] + other
                if a.relation is not Relation.EXACT or one <= other:
                    cost[pair] = cost.get(pair, 0) + _down(float(price)) * (width if a.per_token else 1)
        return cost | {(b, a): price for (a, b), price in cost.items()}


def _gain(group: Group, members: list[Member]) -> tuple[int, dict[Item, int]]:
    """What a group gains at most, by the largest bound of its boxes, and how much less with each member."""
    pairs, roles = group.pairs, range(len(group.pairs))
    slots: dict[int, dict[int, int]] = {}
    for _, price, slot, role in members:
        slots.setdefault(slot, {})[role] = max(price, slots.get(slot, {}).get(role, price))
    most, having = 0, dict.fromkeys((member.item for member in members), -LARGEST)
    reader, held = Reader(group.boxes), [sum(r in best for best in slots.values()) for r in roles]
    boxes = [([0] * len(pairs), held)]
    while boxes:
        low, high = boxes.pop()
        split = reader.take(LEAF, len(pairs) - 1)
        if split != LEAF:
            count, more, fewer = reader.take(0, 1 << 31), [*low], [*high]
            more[split], fewer[split] = max(low[split], count + 1), min(high[split], count)
            boxes += [(more, high), (low, fewer)]
            continue
        charge = reader.charges(len(pairs))
        if any(low[r] > high[r] for r in roles):
            continue
        gains = {slot: max(0, *(price - charge[r] for r, price in best.items())) for slot, best in slots.items()}
        # Pairs of one role, n (n − 1) / 2 ≥ low · n − low (low + 1) / 2, are linear as well.
        slope = [charge[r] - pairs[r][r] * low[r] for r in roles]
        fixed = sum(pairs[r][r] * low[r] * (low[r] + 1) // 2 for r in roles)
        corners = itertools.product(*({low[r], high[r]} for r in roles))
        bound = sum(gains.values()) + fixed + max(_corner(n, slope, pairs) for n in corners)
        most = max(most, bound)
        for item, price, slot, role in members:
            if high[role]:
                having[item] = max(having[item], bound - gains[slot] + price - charge[role])
    return most, {item: most - bound for item, bound in having.items()}


def _corner(counts: Sequence[int], slope: Sequence[int], pairs: list[list[int]]) -> int:
    used = [(r, n) for r, n in enumerate(counts) if n]
    together = sum(pairs[r][q] * n * m for (r, n), (q, m) in itertools.combinations(used, 2))
    return sum(slope[r] * n for r, n in used) - together


def _up(nats: Floats) -> Ints:
    """Units, rounded up; −inf is `IMPOSSIBLE`. Raises `CertificateError` for what does not fit."""
    possible = nats != -np.inf
    if not (np.abs(nats[possible]) <= 2.0**16).all():
        raise CertificateError("potentials that are no numbers, or too large")
    return np.where(possible, np.ceil(np.ldexp(np.where(possible, nats, 0.0), BITS)), IMPOSSIBLE).astype(np.int64)


def _down(nats: float) -> int:
    """Units, rounded down, and `MOST` for more."""
    return math.floor(math.ldexp(min(nats, math.ldexp(MOST, -BITS)), BITS))


def _check_size(unary: Ints, edges: Ints, cost: Ints, prices: int) -> None:
    """Raises `CertificateError` where sums of a sentence could leave their range."""
    largest = [np.abs(np.where(x > POSSIBLE, x, 0)).astype(np.float64) for x in (unary, edges, cost)]
    if sum(x.max(axis=tuple(range(1, x.ndim)), initial=0).sum() for x in largest) + prices > LARGEST:
        raise CertificateError("scores too large to be summed in 64 bits")
