"""The best labelling of a search so far, its improvements, and its budget."""

from __future__ import annotations

import math

from schemas.decoded import Budget, Decoded, Improvement, Status
from schemas.labels import Labels
from schemas.problem import Problem
from workers.inference.core.chain import viterbi
from workers.inference.core.effort import Effort
from workers.inference.core.engine import UNLIMITED, proven
from workers.inference.numerics import ROUNDING


class Search(Effort):
    """Starts from the better of the Viterbi labelling and the incumbent (N,), under one clock.

    ``top`` is the local optimum and ``loss`` how far the best labelling is below it (nats; inf
    where it breaks something hard).
    """

    def __init__(
        self, problem: Problem, *, budget: Budget, incumbent: Labels | None, clock: float | None = None
    ) -> None:
        super().__init__(budget, clock=clock)
        self.problem = problem
        self.viterbi = viterbi(problem.potentials)
        self.top = problem.potentials.score(self.viterbi)
        self.labels = self.viterbi
        self.objective = problem.score(self.viterbi).objective
        self.improvements = [Improvement(self.seconds, 0, self.objective)]
        if incumbent is not None:
            self.offer(incumbent)

    @property
    def loss(self) -> float:
        """Nats between the local optimum and the best labelling."""
        return self.top - self.objective

    @property
    def closed(self) -> bool:
        """Is nothing left to search? No labelling is possible, there is only one, or none can be better."""
        return len(self.problem) == 0 or not self.loss > ROUNDING

    def restart(self, labels: Labels) -> None:
        """Makes ``labels`` (N,) the best so far, whatever it scores: for engines with an aim of their own."""
        self.labels, self.objective = labels, self.problem.score(labels).objective
        self.improvements = [Improvement(self.seconds, self.work, self.objective)]

    def offer(self, labels: Labels) -> bool:
        """Takes a labelling (N,) if `Problem.score` finds it better; tells whether it did."""
        return self.take(labels, self.problem.score(labels).objective)

    def take(self, labels: Labels, objective: float) -> bool:
        """Takes a labelling (N,) whose objective is known if that is better; tells whether it is."""
        if not objective > self.objective:
            return False
        self.labels, self.objective = labels.copy(), objective
        self.improvements.append(Improvement(self.seconds, self.work, objective))
        return True

    def decoded(self, least_loss: float, *, cut_short: bool = False) -> Decoded:
        """The answer, given that every labelling loses at least ``least_loss`` or is no better than the best.

        Where that proves nothing the status is `Status.TIMEOUT` if the budget ran out, the search
        was ``cut_short``, or nothing that keeps the hard constraints was found; else `Status.FEASIBLE`.
        """
        bound = self.objective if len(self.problem) == 0 else max(self.objective, self.top - least_loss)
        unfinished = self.spent or self.objective == -math.inf
        other = Status.TIMEOUT if unfinished or cut_short else Status.FEASIBLE
        return self.problem.decoded(
            self.labels,
            bound=bound,
            status=proven(self.objective, bound, otherwise=other),
            work=self.work,
            seconds=self.seconds,
            improvements=self.improvements,
        )


def limited(budget: Budget, work: int | None) -> Budget:
    """The budget, or a deterministic one of ``work`` where it sets no limit."""
    return Budget(work=work) if budget == UNLIMITED else budget
