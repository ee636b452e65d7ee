"""Constraint-satisfaction inference: Canisius et al. (2011) §5, an exhaustive search over candidate labels.

Each token is a variable. Its domain is the few labels that the local model suggests for it; in the paper, those of the
three overlapping class trigrams. Rewards for satisfied n-grams reach this engine as soft rows whose degree is an
unsatisfied n-gram. Branch and bound over the domains (`depth_first`) finds the best assignment (their §5.1 searches
exhaustively too).

The bound: a labelling within the domains loses no less than `depth_first` proves. Any other labelling has some y_t = l
outside the domains, and so loses at least the smallest max-marginal loss of those labels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.search.depth_first import new_probe, open_loss, run
from concord.workers.inference.search.partial import chain_loss, root_loss, start_partial
from concord.workers.papers.canisius.settings import CspSettings


def solve(
    problem: Problem,
    *,
    config: CspSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling over the candidates of each token. Work is the number of expanded nodes.

    A labelling with a label that is no candidate loses at least as much as the best labelling of the chain with that
    label. If that is more than the answer loses, the answer is proven for all labellings.
    """
    del rng
    search = Search(problem, budget=limited(budget, config.work), incumbent=incumbent)
    if search.closed:
        return search.decoded(0.0)
    chain = chain_loss(search.problem)
    domain = candidates(chain.loss, search.viterbi, most=config.candidates, margin=config.margin)
    outside = float(chain.loss[~domain].min(initial=np.inf))
    p = problem.potentials
    restriction = p.restricted(domain)
    within = chain_loss(Prepared(restriction, problem.labels))
    start = start_partial(search.problem, within, top=search.top, limit=search.loss)
    if start is None:
        return search.decoded(min(search.loss, outside))
    probe = new_probe(start, loss=search.loss, most=np.inf, branching=len(problem.labels))
    complete = run(search, start, probe)
    least = search.loss if complete else max(root_loss(start), open_loss(probe))
    return search.decoded(min(search.loss, least, outside), cut_short=not complete)


def candidates(loss: Floats, best: Labels, *, most: int, margin: float) -> NDArray[np.bool_]:
    """(N, L) the domain of each token: its label in ``best``, and the ``most`` labels of least loss.

    ``loss`` (N, L) is in nats; labels that lose more than ``margin`` nats are no candidates. ``best`` is (N,).
    """
    ranked = np.argsort(loss, axis=1, kind="stable")
    domain = np.zeros(loss.shape, np.bool_)
    np.put_along_axis(domain, ranked[:, :most], values=True, axis=1)
    domain &= loss <= margin
    domain[np.arange(len(best)), best] = True
    return domain
