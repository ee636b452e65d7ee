"""Settled answers: the proof that no other labelling of a document comes near the best one.

An answer is *settled* if every other labelling scores at least `LEAD` nats less. Then every search that proves its
answer within a smaller tolerance gives this one, whatever it starts from: there is no choice among equals. So a later
run can take a settled answer for its own, byte for byte, where it knows that the answer is still settled; and it does
not matter who finds it, an engine or a relaxation from labels that are near (`settled_near`).

The proof is the first round of `workers.inference.nbest.engine` at the depth `LEAD`: it lists the labellings that score
more than that, and the list must hold the answer alone. Prices start from 0, so the outcome depends on problem and
labels alone.
"""

from __future__ import annotations

import numpy as np

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.nbest.engine import BestFound, look
from concord.workers.inference.numerics import LEAD
from concord.workers.inference.relaxation.relaxation import Narrowing, relax

LEAST_WORK, WORK_A_TOKEN = 1_000_000, 2_500
"""Limit of work, in steps of `relax`: a constant, and for each token. On novels, proofs that ended took up to 800."""


def settled(problem: Problem, labels: Labels) -> Decoded | None:
    """The labels (N,) as a proven answer, if they are settled; None if that is not known.

    Its bound is its objective, without a tolerance: no other labelling comes as near as that.
    """
    prepared = Prepared.of(problem)
    score = prepared.score(labels)
    if score.objective == -np.inf:
        return None
    effort = _effort(prepared)
    found = BestFound(prepared, labels, 2)
    look(found, Narrowing(prepared, effort), LEAD, effort)
    others = max([found.bound, *(-negated for negated, _, _ in found.answers[1:])])
    # Half of it, as sums are rounded.
    if not np.array_equal(found.best[0], labels) or others > score.objective - LEAD / 2:
        return None
    return prepared.decoded(labels, bound=score.objective, status=Status.OPTIMAL, score=score)


def settled_near(problem: Problem, start: Labels) -> Decoded | None:
    """The best labelling as a proven answer, if it is settled and a relaxation from the labels ``start`` (N,) finds it.

    Neither a sampler nor a solver is asked. On chapters of novels that is enough for nine of ten, from the labels of
    another model or from the Viterbi labels.
    """
    prepared = Prepared.of(problem)
    score = prepared.score(start)
    if score.objective == -np.inf:
        return None
    found = relax(prepared, start, score, _effort(prepared))
    return settled(prepared, found.labels) if found.bound <= found.objective + LEAD else None


def _effort(problem: Prepared) -> Effort:
    return Effort(Budget(work=LEAST_WORK + WORK_A_TOKEN * len(problem)))
