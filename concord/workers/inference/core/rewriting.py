"""Engines that solve a problem written in another way, which has the same labellings or a twin of each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from concord.schemas.decoded import Budget, Decoded, Ranking
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import UNLIMITED, Engine
from concord.workers.inference.core.prepared import Prepared


class Rewriting(Protocol):
    """A problem in another form; ``problem`` is that form."""

    @property
    def problem(self) -> Problem:
        """The problem in the other form."""
        ...

    def there(self, labels: Labels) -> Labels:
        """(N,) a labelling of the problem, in the other form."""
        ...

    def answer(self, decoded: Decoded) -> Decoded:
        """An answer for the other form as one for the problem."""
        ...

    def ranking(self, ranking: Ranking) -> Ranking:
        """A ranking of the other form's labellings as one of the problem's."""
        ...


def solving(rewrite: Callable[[Prepared], Rewriting | None]) -> Callable[[Engine], Engine]:
    """Decorator of an engine, which then solves what ``rewrite`` makes of a problem; None leaves it as it is."""

    def decorated(engine: Engine) -> Engine:
        @functools.wraps(engine)
        def solve(
            problem: Problem,
            *,
            config: Any,
            rng: np.random.Generator,
            budget: Budget = UNLIMITED,
            incumbent: Labels | None = None,
        ) -> Decoded:
            prepared = Prepared.of(problem)
            other = rewrite(prepared)
            if other is None:
                return engine(prepared, config=config, rng=rng, budget=budget, incumbent=incumbent)
            start = other.there(_better(prepared, incumbent))
            return other.answer(engine(other.problem, config=config, rng=rng, budget=budget, incumbent=start))

        return solve

    return decorated


def _better(problem: Prepared, incumbent: Labels | None) -> Labels:
    """The better of the Viterbi labels, which are not those of the other form, and an incumbent (N,)."""
    if incumbent is None or problem.score(incumbent).objective <= problem.first.objective:
        return problem.viterbi
    return incumbent
