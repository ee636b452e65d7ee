"""Limited discrepancy search with branch and bound: Stokman (2011) §4.2.2.

Depth first, the most promising label first. A branch is left where its discrepancy exceeds
M = α · N · m^i in iteration i, where it is not among the b + i · δb best, or where it cannot beat
the best labelling known. Discrepancy is here the loss that no completion avoids (`partial`), so the
third rule never cuts off a better labelling, which his sum of scores so far could with positive
weights. Where an iteration ends and the first two rules cut off nothing that could be better, the
best labelling is proven; otherwise the next, wider one begins. He stopped at the first solution;
we go on while there is budget.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.decoded import Budget, Decoded
from schemas.labels import Labels
from schemas.potentials import Floats
from schemas.problem import Problem
from schemas.settings import DiscrepancySettings
from workers.compiling.kernel import inner, kernel
from workers.inference.core.engine import UNLIMITED
from workers.inference.core.incumbent import Race, limited
from workers.inference.numerics import ROUNDING
from workers.inference.search.partial import (
    ChainLoss,
    Partial,
    chain_loss,
    expand,
    nodes_a_look,
    pop,
    push,
    root_loss,
    start_partial,
)

UNEXPANDED = -1


class Probe(NamedTuple):
    """One depth-first search: for each position its children (N, L) by rising loss, how many, and which is next.

    ``limits``: loss to beat, M, least loss of what the first two rules cut off. ``counters``:
    position, branching, nodes expanded, and whether the last call ended at a leaf.
    """

    label: Labels
    loss: Floats
    children: NDArray[np.int64]
    following: NDArray[np.int64]
    limits: Floats
    counters: NDArray[np.int64]


def solve(
    problem: Problem,
    *,
    config: DiscrepancySettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """Searches until the answer is proven or the budget is spent. Work is the number of expanded nodes.

    Where the budget sets no limit, ``config.work`` does.
    """
    del rng
    race = Race(problem, budget=limited(budget, config.work), incumbent=incumbent)
    return search(race, config=config)


def search(race: Race, *, config: DiscrepancySettings) -> Decoded:
    """Ever wider iterations from the race's best labelling."""
    if race.settled:
        return race.decoded(0.0)
    problem = race.problem
    chain = chain_loss(problem)
    proven_loss, iteration = 0.0, 0
    while not race.spent:
        start = start_partial(problem, chain, top=race.top, limit=race.loss)
        if start is None:
            return race.decoded(race.loss)
        most = config.token_multiplier * len(problem) * config.iteration_multiplier**iteration
        probe = new_probe(
            start, loss=race.loss, most=most, branching=config.branching + iteration * config.branching_step
        )
        complete = run(race, start, probe)
        proven_loss = max(proven_loss, root_loss(start), min(race.loss, open_loss(probe)))
        if complete and proven_loss >= race.loss - ROUNDING:
            return race.decoded(race.loss)
        iteration += 1
    return race.decoded(proven_loss)


def first_solution(race: Race, *, chain: ChainLoss, branching: int, nodes: int) -> Labels | None:
    """The first labelling that best-first descent finds to keep all hard constraints, within ``nodes``."""
    start = start_partial(race.problem, chain, top=race.top, limit=np.inf)
    if start is None:
        return None
    probe = new_probe(start, loss=np.inf, most=np.inf, branching=branching)
    found = descend(start, probe, nodes)
    race.work += int(probe.counters[2])
    return start.labels.copy() if found else None


def new_probe(partial: Partial, *, loss: float, most: float, branching: int) -> Probe:
    """A search that has not begun."""
    shape = partial.unary.shape
    count = np.zeros(shape[0], np.int64)
    count[0] = UNEXPANDED
    return Probe(
        np.zeros(shape, np.int32),
        np.full(shape, np.inf),
        count,
        np.zeros(shape[0], np.int64),
        np.array([loss, most, np.inf]),
        np.array([0, branching, 0, 0], np.int64),
    )


def run(race: Race, partial: Partial, probe: Probe) -> bool:
    """Runs the probe to its end (True) or the end of the budget; the race gets every better labelling."""
    look = nodes_a_look(partial)
    while probe.counters[0] >= 0:
        before = int(probe.counters[2])
        found = descend(partial, probe, race.room(look))
        race.work += int(probe.counters[2]) - before
        # One that breaks a hard row by a rounding of its sum is no answer, and nothing to beat.
        if found and race.offer(partial.labels):
            probe.limits[0] = min(race.loss, partial_loss(partial))
        if race.spent:
            break
    return bool(probe.counters[0] < 0)


def partial_loss(partial: Partial) -> float:
    """The loss of the complete labelling that the cursor stands on, in nats."""
    return float(partial.top[0] - partial.local[-1] + partial.penalty[-1])


def open_loss(probe: Probe) -> float:
    """Every labelling that the probe has not seen loses at least this, or is no better than the best."""
    least = float(probe.limits[2])
    for t in range(int(probe.counters[0]) + 1):
        if probe.children[t] == UNEXPANDED:
            # Not expanded yet: covered by the loss of the child that leads here.
            least = min(least, float(probe.loss[t - 1, probe.following[t - 1] - 1]) if t else 0.0)
        elif probe.following[t] < probe.children[t]:
            least = min(least, float(probe.loss[t, probe.following[t]]))
    return least


@kernel
def descend(p: Any, probe: Any, nodes: int) -> Any:
    """Goes on for ``nodes`` expansions at most. True: `Partial.labels` is a complete better labelling."""
    count = len(p.labels)
    t = probe.counters[0]
    if probe.counters[3]:
        pop(p, t)
        probe.counters[3] = 0
    stop = probe.counters[2] + nodes
    while t >= 0:
        if probe.children[t] == UNEXPANDED:
            if probe.counters[2] >= stop:
                break
            _branch(p, probe, t)
        k = probe.following[t]
        if k >= probe.children[t] or probe.loss[t, k] >= probe.limits[0] - ROUNDING:
            t -= 1
            if t >= 0:
                pop(p, t)
            continue
        push(p, t, probe.label[t, k])
        probe.following[t] = k + 1
        if t == count - 1:
            probe.counters[0], probe.counters[3] = t, 1
            return True
        t += 1
        probe.children[t] = UNEXPANDED
        probe.following[t] = 0
    probe.counters[0] = t
    return False


@inner
def _branch(p: Any, probe: Any, t: int) -> None:
    """Children of the node at t by rising loss, equal ones by label; notes what the rules cut off."""
    width = probe.label.shape[1]
    losses = np.empty(width)
    expand(p, t, losses)
    probe.counters[2] += 1
    kept = 0
    for b in range(width):
        if losses[b] >= probe.limits[0] - ROUNDING:
            continue
        if losses[b] > probe.limits[1]:
            probe.limits[2] = min(probe.limits[2], losses[b])
            continue
        j = kept
        while j > 0 and probe.loss[t, j - 1] > losses[b]:
            probe.loss[t, j], probe.label[t, j] = probe.loss[t, j - 1], probe.label[t, j - 1]
            j -= 1
        probe.loss[t, j], probe.label[t, j] = losses[b], b
        kept += 1
    branching = probe.counters[1]
    if kept > branching:
        probe.limits[2] = min(probe.limits[2], probe.loss[t, branching])
        kept = branching
    probe.children[t], probe.following[t] = kept, 0
