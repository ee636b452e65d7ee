"""Kernels of the relaxation of agreement: the memberships of spans in groups, and subgradient ascent of the prices.

For prices θ ≥ 0 (K,), one for each membership, let x_m(θ) = 1 if the sentences' best labellings take the span (or
outside label) of membership m, and u_m(θ) = 1 if its group's cheapest assignment takes it. The bound (`relaxation`)

    L(θ) = V − Σ_sentences max_y [score(y) − Σ θ of y's spans] + Σ_groups min_u [penalty(u) − Σ θ of u]

is concave, and x(θ) − u(θ) is one of its subgradients. A step is θ ← max(0, θ + α · d) with d = x − u + μ · d of the
step before (deflection, Camerini, Fratta & Maffioli 1975), μ = `MOMENTUM`, and Polyak's length α = λ · (D − L) / ‖d‖²,
where D is the incumbent's loss; λ is halved after `ASCENT_PATIENCE` steps without a better bound.

Invariant: ``scores`` and ``costs`` hold the terms of both sums for the present prices, except those of sentences that
are stale from some token on, and of groups that are marked as moved. The bound is valid for any θ ≥ 0, so neither the
steps nor their number can make it wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints, Records, record_type
from concord.schemas.labels import Labels
from concord.schemas.problem import NO_KEY
from concord.workers.compiling.kernel import copy_to, inner, inner_in_place, kernel, kernel_in_place
from concord.workers.inference.core.agreement import CONTAINED, AgreementState
from concord.workers.inference.numerics import TOLERANCE
from concord.workers.inference.relaxation.groups import PricedGroups, Workspace, group_cost, workspace_for
from concord.workers.inference.relaxation.sentences import Chains, Lattice, lattice_for, solve_rest, trace_sentence

MOMENTUM = 0.9
"""Fraction of the last direction that is added to a subgradient."""
ASCENT_PATIENCE = 4
SHORTER = 0.5
"""Steps without a better bound after which the steps become shorter, and the factor by which they do."""

ASCENT_NOW = record_type(
    ("best_value", "f8"), ("length", "f8"), ("steps", "i8"), ("idle", "i8"), ("visited", "i8"), ("ended", "i8")
)
"""Fields of ``now`` of an `Ascent`."""

SPAN, GROUP, TABLE, ROLE, SLOT, WIDTH = range(6)
"""Columns of memberships, see `memberships`."""


@kernel
def memberships(state: AgreementState, start: Ints, end: Ints, kind: Ints) -> Ints:
    """(K, 6) the memberships of spans in groups: each span with the key of its words, and with the key of each part.

    ``start``, ``end``, ``kind`` (M,) are the spans; there are T types. The columns are

    - SPAN: the span's index;
    - GROUP: g · K + k for key k of table g;
    - TABLE: g;
    - ROLE: the span's type if the words are the whole span, T + type if they are a proper part;
    - SLOT: the token at which the key's words start;
    - WIDTH: the number of these words.

    Proper parts are listed only if some agreement compares parts, and a part that occurs twice in a span only once.
    """
    types = state.cost.shape[1]
    size = state.counts.shape[1]
    around = (state.relation == CONTAINED).any()
    rows = np.empty((max(16, 4 * len(start)), 6), np.int64)
    count = 0
    for i in range(len(start)):
        length = end[i] - start[i]
        for g in range(len(state.keys)):
            if length > state.width[g]:
                continue
            for width in range(1 if around else length, length + 1):
                for at in range(start[i], end[i] - width + 1):
                    key = state.keys[g, at, width - 1]
                    if key == NO_KEY:
                        continue
                    seen = False
                    for earlier in range(start[i], at):
                        seen |= state.keys[g, earlier, width - 1] == key
                    if seen:
                        continue
                    if count == len(rows):
                        rows = np.concatenate((rows, np.empty_like(rows)))
                    rows[count, SPAN] = i
                    rows[count, GROUP] = g * size + key
                    rows[count, TABLE] = g
                    rows[count, ROLE] = kind[i] if width == length else types + kind[i]
                    rows[count, SLOT] = at
                    rows[count, WIDTH] = width
                    count += 1
    return rows[:count]


@kernel
def outside_memberships(state: AgreementState, members: Ints, undecided: NDArray[np.bool_], first: int) -> Ints:
    """(K, 6) the memberships of outside labels: an outside label at t leaves the words that start at t unlabelled.

    The columns are those of `memberships`; the item is ``first`` + t, the role 2 · T. There is one for each token that
    ``undecided`` (N,) marks and each key of words that start there, if some span of ``members`` has exactly that key
    and a type for which an agreement charges unlabelled occurrences: other outside labels cost nothing.
    """
    types, size = state.cost.shape[1], state.counts.shape[1]
    asked = np.zeros((len(state.keys), size), np.bool_)
    for row in members:
        for a in state.watching:
            g, role = row[TABLE], row[ROLE]
            if role < types and state.table[a] == g and state.cost[a, role, 0] > 0.0:
                asked[g, row[GROUP] - g * size] = True
    rows = np.empty((max(16, len(undecided)), 6), np.int64)
    count = 0
    for t in np.flatnonzero(undecided):
        for g in state.watched:
            for width in range(1, state.reach[g, t] + 1):
                key = state.keys[g, t, width - 1]
                if key == NO_KEY or not asked[g, key]:
                    continue
                if count == len(rows):
                    rows = np.concatenate((rows, np.empty_like(rows)))
                rows[count] = first + t, g * size + key, g, 2 * types, t, width
                count += 1
    return rows[:count]


@kernel
def reach_of_spans(state: AgreementState, start: Ints, end: Ints) -> Ints:
    """(G, N) the width of the widest key at each token that one of the spans (M,) has, too; 0 if none does.

    It is the ``reach`` of a state in which no other spans are counted: what is left outside costs nothing with others.
    """
    matters, reach = np.zeros(state.counts.shape[:2], np.bool_), np.zeros_like(state.reach)
    for g in state.watched:
        for i in range(len(start)):
            width = end[i] - start[i]
            if width <= state.width[g] and state.keys[g, start[i], width - 1] != NO_KEY:
                matters[g, state.keys[g, start[i], width - 1]] = True
        for t in range(reach.shape[1]):
            for width in range(1, state.reach[g, t] + 1):
                key = state.keys[g, t, width - 1]
                if key != NO_KEY and matters[g, key]:
                    reach[g, t] = width
    return reach


@kernel
def left_out_costs(state: AgreementState, left_out: NDArray[np.bool_], start: Ints, end: Ints, kind: Ints) -> Floats:
    """(M,) nats that each span costs with the occurrences of its words at tokens marked in ``left_out`` (N,).

    These tokens are outside in every labelling considered, so the cost is a constant of each span.
    """
    costs = np.zeros(len(start))
    for a in state.watching:
        g = state.table[a]
        places = np.zeros(state.counts.shape[1])
        for t in np.flatnonzero(left_out):
            for width in range(state.reach[g, t]):
                if state.keys[g, t, width] != NO_KEY:
                    places[state.keys[g, t, width]] += 1.0
        for i in range(len(start)):
            width = end[i] - start[i]
            if width <= state.width[g] and state.keys[g, start[i], width - 1] != NO_KEY:
                times = float(width) if state.per_token[a] else 1.0
                costs[i] += times * places[state.keys[g, start[i], width - 1]] * state.cost[a, kind[i], 0]
    return costs


class Ascent(NamedTuple):
    """The state of an ascent over M spans, N tokens, K memberships, S sentences and Q groups.

    - ``chains``, ``groups``: the sentences and the groups.
    - ``lattice``, ``workspace``: scratch of their kernels.
    - ``token`` (K,): the first token of each membership's span, or that of its outside label.
    - ``sentence`` (K,): the sentence of each membership.
    - ``prices`` (K,): the prices θ, in nats.
    - ``direction`` (K,): d.
    - ``charge`` (M + N,): sum of the prices of each span and outside label, in nats.
    - ``taken`` (M + N,): mask of the spans and outside labels that the sentences choose.
    - ``known`` (K,): mask of the memberships that the groups choose.
    - ``labels`` (N,): the labels that the sentences choose.
    - ``scores`` (S,): best charged score of each sentence, in nats.
    - ``costs`` (Q,): least cost of each group, in nats.
    - ``stale`` (S,): the first token of each sentence whose charges changed since it was solved; its end if none did.
    - ``moved_groups`` (Q,): mask of the groups whose prices changed since they were solved.
    - ``best_prices`` (K,): prices of the best bound, in nats.
    - ``best_labels`` (N,): the labels that the sentences chose under these.
    - ``now`` (1,): ``best_value``, the best bound in nats of loss; ``length``, λ; ``steps``; ``idle``, steps since the
      bound rose; ``visited``, labels, spans, memberships and slots; ``ended``, 1 if more steps are of no use.
    """

    chains: Chains
    groups: PricedGroups
    lattice: Lattice
    workspace: Workspace
    token: Ints
    sentence: Ints
    prices: Floats
    direction: Floats
    charge: Floats
    taken: NDArray[np.bool_]
    known: NDArray[np.bool_]
    labels: Labels
    scores: Floats
    costs: Floats
    stale: Ints
    moved_groups: NDArray[np.bool_]
    best_prices: Floats
    best_labels: Labels
    now: Records


@kernel
def ascent_from(chains: Chains, groups: PricedGroups, prices: Floats) -> Ascent:
    """An ascent from ``prices`` (K,), before its first step."""
    count, sentences, members = len(chains.unary), len(chains.bounds) - 1, len(prices)
    items = len(chains.start) + count
    labels, scores = np.zeros(count, np.int32), np.zeros(sentences)
    token, sentence = _places(chains, groups)
    ascent = Ascent(
        chains,
        groups,
        lattice_for(chains),
        workspace_for(groups),
        token,
        sentence,
        prices.copy(),
        np.zeros(members),
        np.zeros(items),
        np.zeros(items, np.bool_),
        np.zeros(members, np.bool_),
        labels,
        scores,
        np.zeros(len(groups.roles)),
        chains.bounds[:-1].copy(),
        np.ones(len(groups.roles), np.bool_),
        prices.copy(),
        labels.copy(),
        np.zeros(1, ASCENT_NOW),
    )
    ascent.now[0].best_value, ascent.now[0].length = -np.inf, 1.0
    # Sentences without memberships are solved once; the others are solved again when a price moved.
    ascent.stale[sentence] = chains.bounds[1:][sentence]
    _solve_sentences(ascent)
    ascent.stale[sentence] = chains.bounds[sentence]
    return ascent


@kernel_in_place
def ascend(ascent: Ascent, optimum: float, upper: float, steps: int, most: int) -> bool:
    """Goes on to ``steps`` steps in all, or until ``most`` more things are visited; True if more steps may be of use.

    There is always one step. ``optimum`` is V and ``upper`` is D, both in nats. If some sentence cannot be made of the
    spans and outside labels, the best bound is inf, and the labels mean nothing. Without momentum the steps zigzag
    between the ways in which a group can agree.
    """
    most += ascent.now[0].visited
    while ascent.now[0].steps < steps and not ascent.now[0].ended:
        ascent.now[0].steps += 1
        if not _ascent_step(ascent, optimum, upper):
            ascent.now[0].ended = 1
        if ascent.now[0].visited >= most:
            break
    return ascent.now[0].steps < steps and not ascent.now[0].ended


@inner_in_place
def _ascent_step(ascent: Ascent, optimum: float, upper: float) -> bool:
    """Computes the bound and moves the prices; False if D is reached or the direction is 0."""
    groups, prices, direction = ascent.groups, ascent.prices, ascent.direction
    scores, costs, now = ascent.scores, ascent.costs, ascent.now
    ascent.charge[:] = 0.0
    for m in range(len(prices)):
        ascent.charge[groups.span[m]] += prices[m]
    _solve_sentences(ascent)
    before = ascent.workspace.looked[0]
    for q in range(len(costs)):
        if ascent.moved_groups[q]:
            costs[q] = group_cost(groups, q, prices, ascent.workspace, ascent.known)
    now[0].visited += len(prices) + ascent.workspace.looked[0] - before
    value = optimum - scores.sum() + costs.sum()
    now[0].idle = 0 if value > now[0].best_value + TOLERANCE else now[0].idle + 1
    if value > now[0].best_value:
        now[0].best_value = value
        copy_to(ascent.best_prices, prices)
        copy_to(ascent.best_labels, ascent.labels)
    if now[0].best_value >= upper:
        return False
    norm = 0.0
    for m in range(len(prices)):
        direction[m] = MOMENTUM * direction[m] + int(ascent.taken[groups.span[m]]) - int(ascent.known[m])
        if direction[m] < 0.0 and prices[m] == 0.0:
            direction[m] = 0.0
        norm += direction[m] ** 2
    if norm == 0.0:
        return False
    if now[0].idle >= ASCENT_PATIENCE:
        now[0].length *= SHORTER
        now[0].idle = 0
    _step(ascent, now[0].length * (upper - value) / norm)
    return True


@inner_in_place
def _step(ascent: Ascent, size: float) -> None:
    """Moves prices, none below 0, and marks where sentences and which groups have a price that moved."""
    groups, prices, stale = ascent.groups, ascent.prices, ascent.stale
    for q in range(len(groups.roles)):
        moved = False
        for m in range(groups.slots[groups.groups[q]], groups.slots[groups.groups[q + 1]]):
            change = size * ascent.direction[m]
            if change != 0.0:
                prices[m] = max(0.0, prices[m] + change)
                stale[ascent.sentence[m]] = min(stale[ascent.sentence[m]], ascent.token[m])
                moved = True
        ascent.moved_groups[q] = moved


@inner_in_place
def _solve_sentences(ascent: Ascent) -> None:
    """Solves the sentences that are stale; the score of one that no spans can make is −inf."""
    chains, taken, stale = ascent.chains, ascent.taken, ascent.stale
    for s in range(len(stale)):
        first, last = chains.bounds[s], chains.bounds[s + 1]
        if stale[s] < last:
            taken[chains.first[first] : chains.first[last]] = False
            taken[len(chains.start) + first : len(chains.start) + last] = False
            ascent.scores[s] = solve_rest(chains, s, ascent.lattice.cut[stale[s]], ascent.charge, ascent.lattice)
            ascent.now[0].visited += last - first + chains.first[last] - chains.first[first]
            if ascent.scores[s] > -np.inf:
                trace_sentence(chains, s, ascent.lattice, taken, ascent.labels)
            stale[s] = last


@inner
def _places(chains: Chains, groups: PricedGroups) -> tuple[Ints, Ints]:
    """(K,) the first token of each membership's span, or its outside label's, and (K,) the sentence of that."""
    token, sentence = np.empty(len(groups.span), np.int64), np.empty(len(groups.span), np.int64)
    for m in range(len(groups.span)):
        item = groups.span[m]
        token[m] = chains.start[item] if item < len(chains.start) else item - len(chains.start)
        sentence[m] = np.searchsorted(chains.bounds, token[m], side="right") - 1
    return token, sentence
