"""Limited discrepancy search with branch and bound: Stokman (2011) §4.2.2.

Depth first (`depth_first`), the most promising label first, in ever wider iterations: iteration i leaves a branch where
its discrepancy exceeds M_i = α · N · m^i, where it is not among the b + i · δb best, or where it cannot beat the best
labelling known. Discrepancy is here the loss f that no completion avoids (`partial`), so the third rule never cuts off
a better labelling, which his sum of scores so far could with positive weights.

The bound: what iteration i left out by its first two rules loses at least the least f among that, B_i, and the rest was
met or is no better than the best. So every labelling loses min(B_i, loss of the best) at least, for each i, and the
best is optimal once B_i ≥ its loss. He stopped at the first solution; we go on while there is budget.
"""

from __future__ import annotations

import numpy as np

from schemas.decoded import Budget, Decoded
from schemas.labels import Labels
from schemas.problem import Problem
from schemas.settings import DiscrepancySettings
from workers.inference.core.engine import UNLIMITED
from workers.inference.core.incumbent import Race, limited
from workers.inference.numerics import ROUNDING
from workers.inference.search.depth_first import new_probe, open_loss, run
from workers.inference.search.partial import chain_loss, root_loss, start_partial


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
    return discrepancy_search(race, config=config)


def discrepancy_search(race: Race, *, config: DiscrepancySettings) -> Decoded:
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
