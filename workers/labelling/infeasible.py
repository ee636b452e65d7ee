"""What becomes of a document whose hard constraints cannot all hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from concord.schemas.decoded import Decoded, Status
from concord.schemas.problem import Problem
from concord.schemas.run import OnInfeasible
from concord.workers.inference.core.prepared import Prepared

PROVEN, NOT_FOUND = "no labelling keeps", "found no labelling that keeps"
"""What a reject's reason says first."""


def breaks_something_hard(decoded: Decoded) -> bool:
    """Does the answer break a hard constraint, proven to be unavoidable or not?"""
    return decoded.objective == -math.inf


def fallback(
    problem: Prepared,
    decoded: Decoded,
    *,
    policy: OnInfeasible,
    weight: float,
    solve: Callable[[Problem], Decoded],
) -> Decoded:
    """The answer that goes out for a document without one that keeps the hard constraints.

    It carries the Viterbi labels and the engine's status, `Status.INFEASIBLE` where that is
    proven. Under ``relax`` it is the answer of ``solve`` to the problem with hard constraints at
    ``weight`` nats a unit, with `Status.RELAXED` and that problem's scores. An engine that proves
    nothing (`Status.TIMEOUT`) found none; whether there is one is then not known.
    """
    if policy == "relax":
        soft = solve(problem.relaxed(weight))
        if not breaks_something_hard(soft):
            return replace(soft, status=Status.RELAXED)
    return problem.decoded(
        problem.viterbi,
        score=problem.first,
        bound=decoded.bound,
        status=decoded.status,
        work=decoded.work,
        seconds=decoded.seconds,
        improvements=decoded.improvements,
    )


def is_reason(text: str) -> bool:
    """Is it one that `reason` gives?"""
    return text.startswith(PROVEN) or NOT_FOUND in text


def reason(decoded: Decoded, names: tuple[str, ...]) -> str:
    """Why a document is rejected; ``names`` (K,) are the constraints."""
    start = PROVEN if decoded.status is Status.INFEASIBLE else f"the engine ({decoded.status}) {NOT_FOUND}"
    broken = [names[k] for k in np.flatnonzero(np.isinf(decoded.score.penalties)).tolist()]
    if not broken:
        return f"{start} the legal transitions of the model"
    return f"{start} all hard constraints; the Viterbi labels break {', '.join(broken)}"
