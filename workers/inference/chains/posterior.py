"""The labelling with the most tokens right on average under the local model: each token's likeliest label, made legal.

Of all labellings that the chain does not forbid, one with the largest sum of p(y_t | all words) (Stokman 2011 eq. 11;
Rabiner 1989 eq. 29). Where some labels may not follow others, the likeliest of each token need not be a labelling: so
the sum is maximised over those that are one (Fariselli, Martelli & Casadio 2005).
"""

from __future__ import annotations

import time

import numpy as np

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.schemas.settings import EngineSettings
from concord.workers.inference.chains.viterbi import bounded
from concord.workers.inference.core.chain import marginals, viterbi
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.prepared import Prepared


def solve(
    problem: Problem,
    *,
    config: EngineSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The labelling by marginals, or ``incumbent`` where that scores higher under the constraints.

    It looks at no constraint, and is after another aim than the score: Viterbi's bounds it, and most often by a gap.
    Where no labelling is possible the Viterbi labels come back. Work is the number of tokens.
    """
    del config, rng, budget
    started = time.perf_counter()
    prepared = Prepared.of(problem)
    labels = posterior_labels(prepared)
    score = prepared.score(labels)
    if incumbent is not None and (other := prepared.score(incumbent)).objective > score.objective:
        labels, score = incumbent, other
    return bounded(prepared, labels, score, started)


def posterior_labels(problem: Prepared) -> Labels:
    """(N,) the possible labelling whose labels have the largest sum of marginals; Viterbi's where none is possible."""
    if problem.top == -np.inf:
        return problem.viterbi
    p = problem.potentials
    possible, follows = (np.where(np.isneginf(table), -np.inf, 0.0) for table in (p.unary, p.transition))
    return viterbi(Potentials(marginals(p) + possible, follows, p.sentence_starts))
