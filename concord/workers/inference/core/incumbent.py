"""A search: the incumbent of one document, its improvements so far, the clock and the budget."""

from __future__ import annotations

import math

from concord.schemas.decoded import Budget, Decoded, Improvement, Score, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED, proven
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.numerics import ROUNDING


class Search(Effort):
    """One engine's run on a document; the better of the Viterbi labelling and ``incumbent`` (N,) is where it starts.

    - ``labels`` (N,): the incumbent, from then on.
    - ``objective``: its score, in nats.
    - ``top``: the local optimum V, in nats. Penalties are never negative, so V is an upper bound of every objective.
    """

    def __init__(
        self, problem: Problem, *, budget: Budget, incumbent: Labels | None, clock: float | None = None
    ) -> None:
        super().__init__(budget, clock=clock)
        self.problem = Prepared.of(problem)
        self.viterbi = self.problem.viterbi
        self.top = self.problem.top
        self._keep(self.viterbi, self.problem.first)
        self.improvements = [Improvement(self.seconds, 0, self.objective)]
        if incumbent is not None:
            self.offer(incumbent)

    @property
    def loss(self) -> float:
        """D: the local optimum minus the incumbent's objective, in nats; inf if that breaks a hard constraint."""
        return self.top - self.objective

    @property
    def closed(self) -> bool:
        """Is there nothing to search for: no tokens, no possible labelling, or an incumbent at the local optimum?"""
        return len(self.problem) == 0 or not self.loss > ROUNDING

    def restart(self, labels: Labels) -> None:
        """Makes ``labels`` (N,) the incumbent, whatever their score: for engines with an objective of their own."""
        self._keep(labels, self.problem.score(labels))
        self.improvements = [Improvement(self.seconds, self.work, self.objective)]

    def offer(self, labels: Labels) -> bool:
        """Makes a labelling (N,) the incumbent if it is better by `Problem.score`; returns whether it is."""
        return self.take(labels, self.problem.score(labels))

    def take(self, labels: Labels, score: Score) -> bool:
        """Makes a labelling (N,) with the known ``score`` the incumbent if it is better; returns whether it is."""
        if not score.objective > self.objective:
            return False
        self._keep(labels.copy(), score)
        self.improvements.append(Improvement(self.seconds, self.work, self.objective))
        return True

    def _keep(self, labels: Labels, score: Score) -> None:
        self.labels, self.score, self.objective = labels, score, score.objective

    def decoded(self, least_loss: float, *, cut_short: bool = False) -> Decoded:
        """The incumbent as the answer, with its upper bound and the status that follows.

        The caller has shown that any labelling better than the incumbent loses at least ``least_loss`` nats. So the
        bound is V − ``least_loss``, or the incumbent's objective if that is greater. The status is

        - `Status.OPTIMAL` if bound and objective meet;
        - `Status.INFEASIBLE` if the bound is −inf;
        - `Status.TIMEOUT` if the budget is spent, the search was ``cut_short``, or the incumbent breaks a hard
          constraint;
        - `Status.FEASIBLE` otherwise.
        """
        bound = self.objective if len(self.problem) == 0 else max(self.objective, self.top - least_loss)
        unfinished = self.spent or self.objective == -math.inf
        other = Status.TIMEOUT if unfinished or cut_short else Status.FEASIBLE
        return self.answer(bound, proven(self.objective, bound, otherwise=other))

    def answer(self, bound: float, status: Status) -> Decoded:
        """The incumbent as the answer, with a bound in nats and a status that the caller vouches for."""
        return self.problem.decoded(
            self.labels,
            score=self.score,
            bound=bound,
            status=status,
            work=self.work,
            seconds=self.seconds,
            improvements=self.improvements,
        )


def limited(budget: Budget, work: int | None) -> Budget:
    """The budget as it is if it sets a limit; otherwise a deterministic limit of ``work`` units."""
    return Budget(work=work) if budget == UNLIMITED else budget
