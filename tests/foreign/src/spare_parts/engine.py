"""An engine: greedy steps, from the model's labels and from a few labellings by chance."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from concord.parts import UNLIMITED, Budget, Decoded, EngineSettings, Labels, Problem, Search, Solver


class RestartSettings(EngineSettings):
    """How often it begins anew."""

    restarts: int = Field(3, ge=0, description="Labellings by chance that it starts from.")


def solve(
    problem: Problem,
    *,
    config: RestartSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """Changes one label at a time while that helps. Work is the number of labellings that are scored."""
    search = Search(problem, budget=budget, incumbent=incumbent)
    for start in range(config.restarts + 1):
        if search.closed or search.spent:
            break
        labels = search.labels.copy()
        if start:
            labels = rng.integers(0, len(problem.labels), len(problem)).astype(np.int32)
        _climb(problem, search, labels)
    return search.decoded(0.0)  # what the model alone scores best bounds every labelling


def _climb(problem: Problem, search: Search, labels: Labels) -> None:
    """Walks uphill from a labelling (N,), which it changes."""
    best = problem.score(labels).objective
    for t in range(len(problem)):
        for label in range(len(problem.labels)):
            before = labels[t]
            labels[t] = label
            search.work += 1
            score = problem.score(labels).objective
            if score > best:
                best = score
                search.offer(labels)
            else:
                labels[t] = before
            if search.spent:
                return


RESTARTS = Solver(solve, RestartSettings, "greedy steps from several starts", exact=False, bounds=False)
