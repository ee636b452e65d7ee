"""Lower bound of the loss of all labellings, by Lagrangian relaxation of agreement between sentences and groups.

The loss of a labelling y is the local loss of its sentences, plus the cost of disagreement in each group of spans with
the same words. Written with two copies of the labelling, y for sentences and u for groups, its minimum is

    min_{y,u} Σ_sentences loss(y) + Σ_groups penalty(u)    where u_m ≥ y_m for each membership m:

a span that a sentence labels must be known to each group that it belongs to. A multiplier θ_m ≥ 0 nats, a price,
replaces each of these demands (dual decomposition; Rush & Collins 2012):

    L(θ) = Σ_sentences min_y [loss(y) + Σ_m θ_m · y_m] + Σ_groups min_u [penalty(u) − Σ_m θ_m · u_m].

Why L(θ) is a lower bound: for any labelling, y and u = y meet the demands, the prices cancel, and each minimum is no
more than its value there. So every labelling loses at least L(θ), for any θ ≥ 0. More generally, a labelling that takes
membership or span m loses at least L(θ) plus the growth of the minima when m is forced (`chain_losses`,
`member_losses`). If that exceeds D, the incumbent's loss, then no better labelling has m, and it is pruned. Rows, and
agreement on different words, only add costs, so they may be left out.

Sentences are exact, by dynamic programming over candidate spans (`sentences`). The minimum of a group is found by
branch and bound over the number of slots with each role: a type of span of these words, a type of longer span around
them, or left outside (`groups`). Subgradient steps raise L (`ascent`).

A chapter of a novel has half a million spans within the D of a sampler's answer, but only some thousand prices differ
from 0. So prices are learned on likely spans first and then on less likely ones, each time without the spans that the
present prices rule out. Block descent (`block_descent`) starts from the sentences' labels under the prices and changes
dozens of mentions at once, which a sampler does not; D falls with that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.decoded import Score
from concord.schemas.labels import Labels
from concord.schemas.problem import Relation
from concord.workers.inference.core.agreement import CONTAINED, EXACT, UNLABELLED, AgreementState
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.recursion import sentence_bounds
from concord.workers.inference.core.spans import CandidateSpans, candidate_spans
from concord.workers.inference.numerics import NEGLIGIBLE_GAP, RELATIVE_ROUNDING, ROUNDING
from concord.workers.inference.relaxation.ascent import (
    GROUP,
    ROLE,
    SLOT,
    SPAN,
    TABLE,
    WIDTH,
    Ascent,
    ascend,
    ascent_from,
    left_out_costs,
    memberships,
    outside_memberships,
    reach_of_spans,
)
from concord.workers.inference.relaxation.block_descent import descend, finish, start_at
from concord.workers.inference.relaxation.groups import PricedGroups, member_losses, workspace_for
from concord.workers.inference.relaxation.row_dual import ChargedRows
from concord.workers.inference.relaxation.sentences import Chains, chain_losses, charged_score, inner_scores

COVERED = (Relation.EXACT, Relation.CONTAINED, Relation.UNLABELLED)

PRICE_STEPS = 80
FEW_STEPS = 5
"""Subgradient steps at a time; `FEW_STEPS` over many spans that no prices have pruned yet."""
LIKELY = 6.0
WIDER = 2.0
MOST_LIKELY = 24.0
"""Prices are learned on spans that lose at most `LIKELY` nats, then `WIDER` times that, up to `MOST_LIKELY`."""
MANY_SPANS = 1000
"""Number of spans from which they count as many. With fewer likely spans, the proof over all spans comes next."""
TOO_MANY = 20_000
"""Number of spans above which only those that are likely under the prices are listed with their groups."""
WORTH_A_DESCENT = 300
"""Number of likely spans from which a block descent from the Viterbi labels comes before the first step: D, by which
the length of steps is set, is then that of a good labelling."""
MOST_LEARNING = 4
WORTHWHILE = 0.95
"""Learning over the same spans is repeated, `MOST_LEARNING` times in all, while it cuts the gap to at most this
fraction.
"""
MOST_ROUNDS = 8
LEAST_PRUNED = 0.02
"""Least fraction of the spans that a round has to prune for another one to begin, of at most `MOST_ROUNDS`."""
HARD_WEIGHT = 1000.0
"""Nats that stand for an infinite cost: L is lower than it could be, and still a bound."""
WORK_A_LOOK = 5_000_000
"""Units of work between looks at the clock: some tens of milliseconds."""
UNLIMITED_WORK = 1 << 62
"""Units of work of a block descent that nothing limits."""


class Prices(NamedTuple):
    """Prices of one round, by item and group.

    - ``items`` (K, 3): start, end and type of a span; type −1 for an outside label.
    - ``names`` (K, 2): a key table's index among those of the agreements, and a key.
    - ``prices`` (K,): prices in nats.
    """

    items: Ints
    names: Ints
    prices: Floats


class PricedSpans(NamedTuple):
    """Sentences under prices, with what groups give back: a relaxation of agreement alone.

    Any labelling that is better than the best one known is made of ``spans`` and outside labels. Its objective is at
    most its score, less its rows' penalties and the costs of its items, plus ``gain``.

    - ``spans``: M candidate spans.
    - ``span_cost`` (M,): nats charged for each span.
    - ``outside_cost`` (N,): nats charged for an outside label at each token.
    - ``gain``: nats that the groups give back at most.
    """

    spans: CandidateSpans
    span_cost: Floats
    outside_cost: Floats
    gain: float


class Relaxed(NamedTuple):
    """The proof of a relaxation: any labelling that is better than ``labels`` scores at most ``bound``.

    - ``problem``: the problem with −inf for each label that no better labelling has.
    - ``bound``: nats.
    - ``labels`` (N,): the best labelling known.
    - ``score``: its score.
    - ``rounds``: the prices that prove this, in order.
    - ``priced``: the sentences under the last of them; None if nothing was priced.
    """

    problem: Prepared
    bound: float
    labels: Labels
    score: Score
    rounds: tuple[Prices, ...] = ()
    priced: PricedSpans | None = None

    @property
    def objective(self) -> float:
        """Score of ``labels``, in nats."""
        return self.score.objective


def relax(
    problem: Prepared,
    labels: Labels,
    score: Score,
    effort: Effort,
    *,
    rows: ChargedRows | None = None,
    least_pruned: float = LEAST_PRUNED,
) -> Relaxed:
    """Upper bound of the objective of all labellings, and the problem pruned by it.

    ``labels`` (N,) is the incumbent, and ``score`` its score; a better labelling may be met on the way. Rounds end if
    one prunes less than the fraction ``least_pruned`` of the spans, or if ``effort`` is spent, which is checked after
    each step of ascent and pass of descent: everything proven before holds. Prices learned before are always tried once
    on all spans. The work of the effort grows by the labels, spans, memberships and slots of boxes visited.

    ``rows`` is the problem with its rows charged to the chain. Without it rows are left out, as agreement on different
    words always is: they only lower the objective, so the bound holds.
    """
    chain, constant = (problem, 0.0) if rows is None else rows
    best = chain.viterbi_score + constant
    if best <= score.objective or not any(a.relation in COVERED for a in problem.agreements):
        return Relaxed(problem, max(best, score.objective), labels, score)
    relaxation = _Relaxation(problem, chain, best, labels, score, effort)
    relaxation.learn_likely()
    return relaxation.prove(least_pruned)


class Narrowing:
    """Pruning of a problem for one score after the other; prices learned for one score serve the next.

    No better labelling is looked for, so labellings that are worse than the best stay.
    """

    def __init__(self, problem: Prepared, effort: Effort) -> None:
        self._relaxation = _Unmoved(problem, problem, problem.viterbi_score, problem.viterbi, problem.first, effort)
        self._covered = any(a.relation in COVERED for a in problem.agreements)

    def learn(self, labels: Labels) -> Labels:
        """Learns the first prices, as `relax` does from ``labels`` (N,); returns the best labels (N,) met."""
        own, score = self._relaxation, self._relaxation.problem.score(labels)
        if not self._covered or score.objective >= own.best or score.objective == -np.inf:
            return labels
        moving = _Relaxation(own.whole, own.problem, own.best, labels, score, own.effort)
        moving.learn_likely()
        own.members, own.prices, own.codes = moving.members, moving.prices, moving.codes
        return moving.labels

    def above(self, objective: float) -> Prepared:
        """The problem with −inf for labels that, by the prices, no labelling of at least ``objective`` nats has.

        Agreement on different words, and rows, are left out, as in `relax`.
        """
        relaxation = self._relaxation
        if not self._covered or objective >= relaxation.best:
            return relaxation.problem
        relaxation.score = Score(objective, np.zeros(0), np.zeros(0))
        if not len(relaxation.prices):
            relaxation.learn_likely()
        return relaxation.prove(LEAST_PRUNED).problem


class _Terms(NamedTuple):
    """The terms of L over some spans, which any number of ascents share.

    - ``chains``: the sentences, which pay for words that no span covers.
    - ``groups``: the groups.
    - ``members`` (K, 6): the memberships of the groups, with a code in column SPAN.
    - ``state``: the agreements; only keys that the spans have count as left out.
    """

    chains: Chains
    groups: PricedGroups
    members: Ints
    state: AgreementState


class _Bound(NamedTuple):
    """A lower bound of the loss in nats, with the sentences, groups and prices that give it."""

    value: float
    chains: Chains
    groups: PricedGroups
    prices: Floats


@dataclass(eq=False)
class _Relaxation:
    """The prices of one document as they are learned, and the best labelling met on the way.

    - ``whole``: the problem.
    - ``problem``: the problem whose chain is relaxed: the same, or with the rows charged to it.
    - ``best``: V, an upper bound of every objective: the optimum of the chain, in nats.
    - ``labels`` (N,): the best labelling.
    - ``score``: its score.
    - ``effort``: counts the work.
    - ``state``: the agreements.
    - ``members`` (K, 6): the memberships with a price above 0, as `memberships` lists them, with a code in column SPAN.
    - ``prices`` (K,): their prices in nats.
    - ``codes`` (K,): a number for each membership, rising.
    - ``rounds``: the prices of each round of the proof.
    - ``descended``: did a block descent end in ``labels``?

    The code of a span (`_item_codes`) stays the same when the list of spans changes.
    """

    whole: Prepared
    problem: Prepared
    best: float
    labels: Labels
    score: Score
    effort: Effort
    state: AgreementState = field(init=False)
    members: Ints = field(init=False)
    prices: Floats = field(init=False)
    codes: Ints = field(init=False)
    rounds: list[Prices] = field(default_factory=list)
    descended: bool = False

    def __post_init__(self) -> None:
        self.state = self.problem.empty_state(HARD_WEIGHT)
        self.members, self.prices, self.codes = np.zeros((0, 6), np.int64), np.zeros(0), np.zeros(0, np.int64)

    @property
    def upper(self) -> float:
        """D: the loss of the best labelling, in nats."""
        return self.best - self.score.objective

    def learn_likely(self) -> None:
        """Learns prices on likely spans, then on less likely ones, as long as the likely spans are many."""
        limit, spans = LIKELY, MANY_SPANS
        while limit <= MOST_LIKELY and limit < self.upper and spans >= MANY_SPANS and not self.effort.spent:
            spans = self.learn(limit)
            limit *= WIDER

    def learn(self, limit: float) -> int:
        """Learns prices on spans that lose at most ``limit`` nats; returns the number of these spans.

        That proves nothing, since other spans are left out, but it finds better labellings.
        """
        spans = candidate_spans(self.problem, limit + ROUNDING)
        count = len(spans)
        if len(self.prices):
            span_loss, _ = self._losses(spans, self._start(spans))
            spans = _part(spans, span_loss <= self.upper + ROUNDING)
        terms, gap = self._terms(spans, self._members(spans, np.ones(len(spans), np.bool_))), np.inf
        if not len(self.prices) and count >= WORTH_A_DESCENT:
            self._offer(terms, self.problem.viterbi.copy())
        for _ in range(MOST_LEARNING):
            before, gap = gap, self.upper - self._raised(terms, PRICE_STEPS).value
            if gap <= NEGLIGIBLE_GAP or gap > WORTHWHILE * before or self.effort.spent:
                break
        return count

    def prove(self, least_pruned: float) -> Relaxed:
        """The bound over all spans that a better labelling can have; each round prunes more spans by a higher bound."""
        if self.effort.spent and not len(self.prices):
            return Relaxed(self.whole, self.best, self.labels, self.score)
        spans = candidate_spans(self.problem, self.upper + ROUNDING)
        outside = np.isfinite(self.problem.potentials.unary)
        bound = self._start(spans)
        self.rounds.append(self._named())
        loss = max(0.0, bound.value)
        for number in range(MOST_ROUNDS):
            if self.effort.spent:
                break
            before = len(spans)
            span_loss, outside_loss = self._losses(spans, bound)
            outside &= outside_loss <= self.upper + ROUNDING
            is_alive = span_loss <= self.upper + ROUNDING
            near = self._near(bound, span_loss)[is_alive]
            spans = _part(spans, is_alive)
            if loss >= self.upper - NEGLIGIBLE_GAP or (number > 1 and before - len(spans) < least_pruned * before):
                break
            terms = self._terms(spans, self._members(spans, near))
            bound = self._raised(terms, PRICE_STEPS if number or len(spans) < MANY_SPANS else FEW_STEPS)
            self.rounds.append(self._named())
            loss = max(loss, bound.value)
            if loss == np.inf:
                break
        proven = self.best - min(loss, self.upper)
        pruned = _pruned(self.whole, spans, outside)
        priced = self._priced(spans) if len(self.whole.rows) and loss < self.upper - NEGLIGIBLE_GAP else None
        return Relaxed(pruned, proven, self.labels, self.score, tuple(self.rounds), priced)

    def _priced(self, spans: CandidateSpans) -> PricedSpans:
        """The sentences over ``spans`` under the present prices."""
        bound = self._start(spans)
        charge = _charges(bound, len(self.problem))
        plain = chains_of(self.problem, spans)
        score = charged_score(bound.chains, charge)
        cost = charge[: len(spans)] + plain.inner - bound.chains.inner
        return PricedSpans(spans, cost, charge[len(spans) :], self.problem.viterbi_score - score - bound.value)

    def _named(self) -> Prices:
        """The present prices, by span and key."""
        count, types = len(self.problem) + 1, len(self.problem.labels.types)
        code = self.members[:, SPAN]
        place, kind = np.divmod(code, types)
        start, end = np.divmod(place, count)
        token = code - count * count * types
        outside = token >= 0
        table = self.members[:, TABLE]
        names = np.stack([table, self.members[:, GROUP] - table * self.state.counts.shape[1]], axis=1)
        items = np.stack([start, end, kind], axis=1)
        items[outside] = np.stack([token, token + 1, np.full(len(token), -1)], axis=1)[outside]
        return Prices(items, names, self.prices)

    def _near(self, bound: _Bound, span_loss: Floats) -> NDArray[np.bool_]:
        """(M,) mask of the spans that have a price, or are likely under the prices and may need one.

        If there are few spans, all are marked.
        """
        if len(span_loss) < TOO_MANY:
            return np.ones(len(span_loss), np.bool_)
        near = np.append(span_loss <= bound.value + LIKELY, np.zeros(len(self.problem), np.bool_))
        near[bound.groups.span[bound.prices > 0.0]] = True
        return near[: len(span_loss)]

    def _members(self, spans: CandidateSpans, near: NDArray[np.bool_]) -> Ints:
        """Memberships of the spans that ``near`` (M,) marks; the others have price 0, with which L is a bound too."""
        part = _part(spans, near)
        of_spans = memberships(self.state, part.start, part.end, part.type)
        of_spans[:, SPAN] = np.flatnonzero(near)[of_spans[:, SPAN]]
        undecided = _covered(spans, len(self.problem))
        return np.concatenate([of_spans, outside_memberships(self.state, of_spans, undecided, len(spans))])

    def _start(self, spans: CandidateSpans) -> _Bound:
        """The bound under the present prices. Memberships without a price need not be listed: no term has them."""
        codes = self._item_codes(spans)
        place = np.minimum(np.searchsorted(codes, self.members[:, SPAN]), len(codes) - 1)
        undecided = np.append(np.ones(len(spans), np.bool_), _covered(spans, len(self.problem)))
        there = (codes[place] == self.members[:, SPAN]) & undecided[place]
        members = self.members[there]
        members[:, SPAN] = place[there]
        return self._ascended(self._terms(spans, members), 1)[0]

    def _raised(self, terms: _Terms, steps: int) -> _Bound:
        """The bound after at most ``steps`` steps of ascent, inf if no labelling fits; offers the labels met."""
        bound, labels = self._ascended(terms, steps)
        if bound.value < np.inf:
            self._offer(terms, labels)
        return bound

    def _terms(self, spans: CandidateSpans, members: Ints) -> _Terms:
        """The terms over ``spans``, of whose memberships ``members`` (K, 6) those count that can cost something."""
        useful, groups = _grouped(self.state, members)
        chains = chains_of(self.problem, spans)
        state = self.state._replace(reach=reach_of_spans(self.state, chains.start, chains.end))
        left_out = ~_covered(spans, len(self.problem))
        # Words that no span covers are left out in every labelling: a constant cost of spans of the same words.
        constant = left_out_costs(state, left_out, chains.start, chains.end, chains.kind)
        named = members[useful]
        named[:, SPAN] = self._item_codes(spans)[named[:, SPAN]]
        return _Terms(chains._replace(inner=chains.inner - constant), groups, named, state)

    def _ascended(self, terms: _Terms, steps: int) -> tuple[_Bound, Labels]:
        """The bound after at most ``steps`` steps from the present prices, and its labels (N,).

        It keeps the new prices.
        """
        ascent = ascent_from(terms.chains, terms.groups, self._prices_of(terms.members))
        self._ascend(ascent, steps)
        prices = ascent.best_prices
        self._remember(terms.members, prices)
        value = float(ascent.now["best_value"][0]) - self._rounding(prices)
        return _Bound(value, terms.chains, terms.groups, prices), ascent.best_labels

    def _ascend(self, ascent: Ascent, steps: int) -> None:
        """Takes at most ``steps`` steps of ascent: fewer if the effort is spent, but at least one."""
        goes_on, optimum = True, self.problem.viterbi_score
        while goes_on:
            before = int(ascent.now["visited"][0])
            looks = self.effort.remaining(WORK_A_LOOK)
            goes_on = ascend(ascent, optimum, self.upper - NEGLIGIBLE_GAP, steps, looks) and not self.effort.spent
            self.effort.work += int(ascent.now["visited"][0]) - before

    def _rounding(self, prices: Floats) -> float:
        """Largest rounding error of L in nats: every price is added to a sentence and taken off a group."""
        return RELATIVE_ROUNDING * (abs(self.best) + float(prices.sum()))

    def _offer(self, terms: _Terms, labels: Labels) -> None:
        """Improves ``labels`` (N,) in place by block descent, and keeps them if they are better than the best.

        A descent is not begun again where one ended.
        """
        if self.descended and np.array_equal(labels, self.labels):
            return
        descent = start_at(terms.chains, terms.state, labels)
        reached = descend(descent, self.effort.remaining(UNLIMITED_WORK))
        finish(descent)
        self.effort.work += int(descent.work[0])
        reached += self.best - self.problem.viterbi_score
        # Rows and other agreement can only lower the objective. By rounding, the best itself may seem better.
        if reached > self.score.objective and not np.array_equal(labels, self.labels):
            score = self.whole.score(labels)
            if score.objective > self.score.objective:
                self.labels, self.score, self.descended = labels, score, True

    def _losses(self, spans: CandidateSpans, bound: _Bound) -> tuple[Floats, Floats]:
        """(M,) lower bound of the loss of labellings with each span; (N, L) with each outside label; in nats."""
        charge = _charges(bound, len(self.problem))
        span_loss, outside_loss = chain_losses(bound.chains, charge)
        limit, grown = self.upper + ROUNDING - bound.value, np.full(len(charge), bound.value)
        workspace = workspace_for(bound.groups)
        np.add.at(grown, bound.groups.span, member_losses(bound.groups, bound.prices, workspace, limit))
        self.effort.work += len(charge) + int(workspace.looked[0])
        grown -= self._rounding(bound.prices)
        return grown[: len(spans)] + span_loss, grown[len(spans) :, None] + outside_loss

    def _item_codes(self, spans: CandidateSpans) -> Ints:
        """(M + N,) a code for each span, and for an outside label at each token; rising."""
        count, types = len(self.problem) + 1, len(self.problem.labels.types)
        of_spans = (spans.start * count + spans.end) * types + spans.type
        return np.append(of_spans, count * count * types + np.arange(len(self.problem)))

    def _codes(self, members: Ints) -> Ints:
        tables, size, _ = self.state.counts.shape
        codes: Ints = members[:, SPAN] * (tables * size) + members[:, GROUP]
        return codes

    def _prices_of(self, members: Ints) -> Floats:
        if not len(self.codes):
            return np.zeros(len(members))
        codes = self._codes(members)
        place = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[place] == codes, self.prices[place], 0.0)

    def _remember(self, members: Ints, prices: Floats) -> None:
        members, prices = np.concatenate([members, self.members]), np.concatenate([prices, self.prices])
        codes, first = np.unique(self._codes(members), return_index=True)
        priced = prices[first] > 0.0
        self.codes, self.members, self.prices = codes[priced], members[first][priced], prices[first][priced]


class _Unmoved(_Relaxation):
    """A relaxation whose score stays, whatever better labelling is met."""

    def _offer(self, terms: _Terms, labels: Labels) -> None:
        del terms, labels


def _charges(bound: _Bound, tokens: int) -> Floats:
    """(M + N,) nats that all groups together charge for each span, and for an outside label at each token."""
    charge = np.zeros(len(bound.chains.start) + tokens)
    np.add.at(charge, bound.groups.span, bound.prices)
    return charge


def _part(spans: CandidateSpans, is_alive: NDArray[np.bool_]) -> CandidateSpans:
    return CandidateSpans(np.stack([spans.start, spans.end, spans.type], axis=1)[is_alive], spans.loss[is_alive])


def _covered(spans: CandidateSpans, count: int) -> NDArray[np.bool_]:
    """(N,) mask of the tokens that at least one of ``spans`` holds."""
    change = np.bincount(spans.start, minlength=count + 1) - np.bincount(spans.end, minlength=count + 1)
    return np.asarray(np.cumsum(change)[:count] > 0)


def _pruned(problem: Prepared, spans: CandidateSpans, outside: NDArray[np.bool_]) -> Prepared:
    """The problem with −inf for all labels except those of ``spans`` and the outside labels that are still possible.

    ``outside`` (N, L) marks the possible labels; only its columns of outside labels count.
    """
    possible = outside & (problem.labels.type_of < 0)
    opening, inside = problem.labels.opening[spans.type], problem.labels.inside[spans.type]
    start, end = spans.start, spans.end
    possible[start, opening] = True
    later = end - start - 1
    within = np.arange(later.sum()) - np.repeat(np.cumsum(later) - later, later)
    possible[np.repeat(start + 1, later) + within, np.repeat(inside, later)] = True
    return replace(problem, potentials=problem.potentials.restricted(possible))


def chains_of(problem: Prepared, spans: CandidateSpans) -> Chains:
    """The sentences of a problem as the kernels take them, with outside labels and ``spans`` as their choices."""
    p = problem.potentials
    start, end, kind = (np.ascontiguousarray(x).astype(np.int64) for x in (spans.start, spans.end, spans.type))
    first = np.searchsorted(start, np.arange(len(problem) + 1)).astype(np.int64)
    inner, last = inner_scores(p.unary, p.edges, problem.codec, start, end, kind)
    return Chains(p.unary, p.edges, problem.codec, sentence_bounds(p), first, start, end, kind, inner, last)


def _grouped(state: AgreementState, members: Ints) -> tuple[Ints, PricedGroups]:
    """The memberships that can cost something, as indices in order, and their groups."""
    types = state.cost.shape[1]
    order = _ordered(members, types)
    order = order[_in_several_slots(members[order])]
    ordered = members[order]
    first, lengths = _runs(ordered[:, GROUP])
    number = np.repeat(np.arange(len(first)), lengths)
    held = np.zeros((len(first), 2 * types + 1), np.bool_)
    held[number, ordered[:, ROLE]] = True
    price = _pair_prices(state, ordered[first, TABLE], ordered[first, WIDTH])
    price *= held[:, :, None] & held[:, None, :]
    # A role that conflicts with no other role of its group is left out of it.
    conflicting: NDArray[np.bool_] = np.any(price > 0, axis=2)
    useful: NDArray[np.bool_] = np.any(conflicting, axis=1)
    conflicts = conflicting[number, ordered[:, ROLE]]
    return order[conflicts], _laid_out(ordered[conflicts], price[useful], conflicting[useful])


def _ordered(members: Ints, types: int) -> Ints:
    """(K,) indices of the memberships by group, slot and role; those that share all three stay in order."""
    slots, roles = int(members[:, SLOT].max(initial=0)) + 1, 2 * types + 1
    # One number sorts in a third of the time of three. Groups times tokens are far from 2⁶³.
    code = (members[:, GROUP] * slots + members[:, SLOT]) * roles + members[:, ROLE]
    order: Ints = np.argsort(code, kind="stable")
    return order


def _in_several_slots(ordered: Ints) -> NDArray[np.bool_]:
    """(K,) mask of the memberships whose group has several slots; they are ordered by group and slot."""
    first, lengths = _runs(ordered[:, GROUP])
    several = ordered[first, SLOT] != ordered[first + lengths - 1, SLOT]
    mask: NDArray[np.bool_] = np.repeat(several, lengths)
    return mask


def _runs(ordered: Ints) -> tuple[Ints, Ints]:
    """The first place of each run of equal numbers in ``ordered`` (K,), and its length."""
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    return first, np.diff(np.append(first, len(ordered)))


def _laid_out(members: Ints, price: Floats, conflicting: NDArray[np.bool_]) -> PricedGroups:
    """Groups as flat arrays, of ``members`` ordered by group, slot and role.

    ``price`` (Q, R, R) and ``conflicting`` (Q, R) still have a place for every role; the result only for those that
    conflict.
    """
    place = np.cumsum(conflicting, axis=1) - 1
    first, lengths = _runs(members[:, GROUP])
    number = np.repeat(np.arange(len(first)), lengths)
    roles = conflicting.sum(axis=1)
    pair = np.zeros((len(price), int(roles.max(initial=0)), int(roles.max(initial=0))))
    q, a, b = np.nonzero(price)
    pair[q, place[q, a], place[q, b]] = price[q, a, b]
    new = np.ones(len(members), np.bool_)
    new[1:] = (members[1:, GROUP] != members[:-1, GROUP]) | (members[1:, SLOT] != members[:-1, SLOT])
    slots = np.append(np.flatnonzero(new), len(members)).astype(np.int64)
    groups = np.append(np.searchsorted(slots, first), len(slots) - 1).astype(np.int64)
    return PricedGroups(members[:, SPAN].copy(), place[number, members[:, ROLE]], slots, groups, roles, pair)


def _pair_prices(state: AgreementState, table: Ints, width: Ints) -> Floats:
    """(Q, 2T + 1, 2T + 1) nats of each pair of slots by their roles, see `memberships`.

    The roles are T types of spans of the group's words, T types of longer spans around them, and words left outside.
    """
    types = state.cost.shape[1]
    prices = np.zeros((len(table), 2 * types + 1, 2 * types + 1))
    for a in range(len(state.table)):
        times = (table == state.table[a]) * np.where(state.per_token[a], width, 1).astype(np.float64)
        if state.relation[a] == EXACT:
            upper = np.triu(state.cost[a], 1)
            prices[:, :types, :types] += times[:, None, None] * (upper + upper.T)
        elif state.relation[a] == CONTAINED:
            prices[:, types:-1, :types] += times[:, None, None] * state.cost[a]
            prices[:, :types, types:-1] += times[:, None, None] * state.cost[a].T
        elif state.relation[a] == UNLABELLED:
            prices[:, :types, -1] += times[:, None] * state.cost[a, :, 0]
            prices[:, -1, :types] += times[:, None] * state.cost[a, :, 0]
    return prices
