"""Settled answers: the proof that no other labelling of a document comes near the best one.

An answer is *settled* if every other labelling scores at least `LEAD` nats less. Then every search that proves its
answer within a smaller tolerance gives this one, whatever it starts from: there is no choice among equals. So a later
run can take a settled answer for its own, byte for byte, where it knows that the answer is still settled; and it does
not matter who finds it, an engine or a relaxation from labels that are near (`Settling.near`).

The proof is the first round of `workers.inference.nbest.engine` at the depth `LEAD`: it lists the labellings that score
more than that, and the list must hold the answer alone. The prices that prove it may come from anywhere.
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
from concord.workers.inference.relaxation.relaxation import Narrowing

LEAST_WORK, WORK_A_TOKEN = 1_000_000, 2_500
"""Limit of work, in steps of `relax`: a constant, and for each token. On novels, proofs that ended took up to 800."""


class Settling:
    """Attempts to settle the answer of one document, each of which goes on from the prices of the one before."""

    def __init__(self, problem: Problem) -> None:
        self._problem = Prepared.of(problem)
        self._last: Narrowing | None = None

    def settled(self, labels: Labels) -> Decoded | None:
        """The labels (N,) as a proven answer, if they are settled; None if that is not known."""
        found = self._proven(labels, *self._attempt())
        return found if found is not None and np.array_equal(found.labels, labels) else None

    def near(self, start: Labels) -> Decoded | None:
        """The best labelling, if it is settled and a relaxation from the labels ``start`` (N,) finds it.

        Neither a sampler nor a solver is asked. On chapters of novels that is enough for nine of ten, from the labels
        of another model or from the Viterbi labels.
        """
        narrowing, effort = self._attempt()
        return self._proven(narrowing.learn(start), narrowing, effort)

    def _attempt(self) -> tuple[Narrowing, Effort]:
        problem = self._problem
        effort = Effort(Budget(work=LEAST_WORK + WORK_A_TOKEN * len(problem)))
        self._last = Narrowing(problem, effort, self._last)
        return self._last, effort

    def _proven(self, labels: Labels, narrowing: Narrowing, effort: Effort) -> Decoded | None:
        """The best labelling that a look around ``labels`` (N,) lists, if the list proves that it is settled.

        Its bound is its objective, without a tolerance: no other labelling comes as near as that.
        """
        if self._problem.score(labels).objective == -np.inf:
            return None
        found = BestFound(self._problem, labels, 2)
        look(found, narrowing, LEAD, effort)
        best, objective = found.best
        others = max([found.bound, *(-negated for negated, _, _ in found.answers[1:])])
        # Half of it, as sums are rounded.
        if others > objective - LEAD / 2:
            return None
        return self._problem.decoded(best, bound=objective, status=Status.OPTIMAL)
