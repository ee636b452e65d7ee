"""What a referee's labelling says of an engine's claim."""

from __future__ import annotations

import numpy as np

from concord.schemas.decoded import Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from tests.support.referees.milp import Verdict

TOLERANCE = 1e-5
"""Nats by which a claim may be off: engines close a gap of 1e-6 nats."""

PRECISION = 1e-12
"""And that share of the magnitude of the scores: sums of weights of a million nats have no more digits."""


def agree(problem: Problem, one: Verdict, two: Verdict) -> bool:
    """Do two referees that ended know labellings that score alike? None at all is −inf."""
    scores = [-np.inf if v.labels is None else problem.score(v.labels).objective for v in (one, two)]
    if scores[0] == scores[1]:
        return True
    magnitude = max(abs(problem.potentials.score(v.labels)) for v in (one, two) if v.labels is not None)
    return bool(abs(scores[0] - scores[1]) <= TOLERANCE + PRECISION * magnitude)


def disproof(problem: Problem, decoded: Decoded, labels: Labels | None) -> str:
    """Why ``labels`` (N,), scored anew, contradict the answer; empty where they do not."""
    best = -np.inf if labels is None else problem.score(labels).objective
    if best == -np.inf:
        return ""
    allowed = TOLERANCE + PRECISION * abs(problem.potentials.score(labels) if labels is not None else 0.0)
    if decoded.status is Status.INFEASIBLE:
        return f"infeasible, but a labelling scores {best}"
    if best > decoded.bound + allowed:
        return f"bound {decoded.bound}, but a labelling scores {best}"
    if decoded.status is Status.OPTIMAL and best > decoded.objective + allowed:
        return f"optimal at {decoded.objective}, but a labelling scores {best}"
    return ""
