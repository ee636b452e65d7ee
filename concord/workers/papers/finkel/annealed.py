"""One annealed Gibbs chain as it is: Finkel, Grenager & Manning (2005) §2, table 1.

The engine gibbs answers with Viterbi's labels where nothing is better, so it cannot show how near a sampler comes to
them by itself. This one starts from a random labelling and answers with the best that its chain saw.
"""

from __future__ import annotations

import numpy as np

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.sampling.drift import check_drift
from concord.workers.inference.sampling.gibbs import STEPS_A_LOOK, new_chain
from concord.workers.inference.sampling.names import sites_of
from concord.workers.inference.sampling.sweep import anneal
from concord.workers.papers.finkel.settings import AnnealedSettings

SWEEPS_A_LOOK = 50
"""Number of sweeps between looks at the budget."""


def solve(
    problem: Problem,
    *,
    config: AnnealedSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling that the chain saw, or the ``incumbent`` (N,) if that is better.

    Work is the number of labels, spans and occurrences visited. The bound is the local optimum V, in nats.
    Raises `DriftError` if the sampler is at fault.
    """
    search = Search(problem, budget=limited(budget, config.work), incumbent=incumbent)
    if len(problem) == 0 or not np.isfinite(search.top):
        return search.decoded(0.0)
    sites = sites_of(search.problem, config.slot_loss)
    chain = new_chain(search.problem, sites, hard_weight=config.hard_weight, rng=rng, start=None)
    temperatures = config.temperature * (1.0 - np.arange(config.sweeps) / config.sweeps)
    sweep = 0
    while sweep < config.sweeps and not search.spent:
        limit = int(chain.now["work"][0]) + search.remaining(STEPS_A_LOOK)
        sweep += anneal(chain, temperatures[sweep : sweep + SWEEPS_A_LOOK], sweep, limit)
        search.work = int(chain.now["work"][0])
    check_drift(chain, search.problem, hard_weight=config.hard_weight)
    if incumbent is None:
        search.restart(chain.best.copy())
    else:
        search.offer(chain.best)
    return search.decoded(0.0)
