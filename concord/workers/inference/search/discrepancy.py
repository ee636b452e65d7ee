"""Limited discrepancy search with branch and bound: Stokman (2011) §4.2.2.

The search goes depth first (`depth_first`), the most promising label first, in ever wider iterations. Iteration i cuts
a branch off

1. where its discrepancy exceeds M_i = α · N · m^i,
2. where it is not among the b + i · δb best ones, or
3. where it cannot beat the best labelling known.

Discrepancy is here the loss f that no completion avoids (`partial`). So the third rule never cuts off a better
labelling; Stokman's own measure, the sum of scores so far, could with positive weights.

The bound: what iteration i cut off by its first two rules loses at least the least f among them, B_i; everything else
was met or is no better than the best. So every labelling loses at least min(B_i, loss of the best), for each i, and the
best is optimal once B_i ≥ its loss. Stokman stops at the first solution; this search goes on while there is budget.
"""

from __future__ import annotations

import numpy as np

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.folding import on_folded
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.search.depth_first import new_probe, open_loss, run
from concord.workers.inference.search.partial import chain_loss, root_loss, start_partial
from concord.workers.inference.settings import DiscrepancySettings


@on_folded
def solve(
    problem: Problem,
    *,
    config: DiscrepancySettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling met until it is proven or the budget is spent. Work is the number of expanded nodes.

    If the budget sets no limit, ``config.work`` does.
    """
    del rng
    search = Search(problem, budget=limited(budget, config.work), incumbent=incumbent)
    return discrepancy_search(search, config=config)


def discrepancy_search(search: Search, *, config: DiscrepancySettings) -> Decoded:
    """Runs ever wider iterations from the search's incumbent."""
    if search.closed:
        return search.decoded(0.0)
    problem = search.problem
    chain = chain_loss(problem)
    proven_loss, iteration = 0.0, 0
    while not search.spent:
        start = start_partial(problem, chain, top=search.top, limit=search.loss)
        if start is None:
            return search.decoded(search.loss)
        most = config.token_multiplier * len(problem) * config.iteration_multiplier**iteration
        probe = new_probe(
            start, loss=search.loss, most=most, branching=config.branching + iteration * config.branching_step
        )
        complete = run(search, start, probe)
        proven_loss = max(proven_loss, root_loss(start), min(search.loss, open_loss(probe)))
        if complete and proven_loss >= search.loss - ROUNDING:
            return search.decoded(search.loss)
        iteration += 1
    return search.decoded(proven_loss)
