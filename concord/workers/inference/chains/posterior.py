"""Posterior decoding: the possible labelling with the most tokens right on average, under the local model.

Of all labellings that the chain does not forbid, it is one with the largest sum of p(y_t | all words) (Stokman 2011
eq. 11; Rabiner 1989 eq. 29). Where some labels may not follow others, the likeliest labels of all tokens together may
be no possible labelling; so the sum is maximised over the possible ones (Fariselli, Martelli & Casadio 2005).
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
    """The labelling of `posterior_labels`, or ``incumbent`` if that scores higher under the constraints.

    It looks at no constraint, and it does not maximise the score: the bound is Viterbi's, and most often leaves a gap.
    If no labelling is possible, the Viterbi labels come back. Work is the number of tokens.
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
    """(N,) the possible labelling with the largest sum of marginals; the Viterbi labels if none is possible."""
    if problem.top == -np.inf:
        return problem.viterbi
    p = problem.potentials
    possible, follows = (np.where(np.isneginf(table), -np.inf, 0.0) for table in (p.unary, p.transition))
    return viterbi(Potentials(marginals(p) + possible, follows, p.sentence_starts))
