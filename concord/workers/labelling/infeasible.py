"""Fallback for documents in which the hard constraints cannot all hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from concord.schemas.decoded import Decoded, Status
from concord.schemas.problem import Problem
from concord.schemas.run import OnInfeasible
from concord.workers.inference.core.prepared import Prepared

IMPOSSIBLE, NOT_FOUND = "no labelling keeps", "found no labelling that keeps"
"""Beginnings of a reject's reason."""


def breaks_something_hard(decoded: Decoded) -> bool:
    """Whether the answer breaks a hard constraint, be that proven to be unavoidable or not."""
    return decoded.objective == -math.inf


def fallback(
    problem: Prepared,
    decoded: Decoded,
    *,
    policy: OnInfeasible,
    weight: float,
    solve: Callable[[Problem], Decoded],
) -> Decoded:
    """Answer for a document for which no labelling was found that keeps the hard constraints.

    It has the Viterbi labels and the engine's status: `Status.INFEASIBLE` where it is proven that no labelling keeps
    them, `Status.TIMEOUT` where that is not known. Under the policy ``relax`` it is instead the answer of ``solve`` to
    the problem with hard constraints at ``weight`` nats a unit, with `Status.RELAXED` and that problem's scores.

    If that answer is impossible, too, it is not the constraints that forbid everything: the model's scores and the
    label scheme leave no labelling. Nothing was gained then, and the answer is that of the policy ``viterbi``.
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
    """Whether a text is a reason that `reason` gives."""
    return text.startswith(IMPOSSIBLE) or NOT_FOUND in text


def reason(decoded: Decoded, names: tuple[str, ...]) -> str:
    """Reason of the reject of a document without a feasible answer; ``names`` (K,) are the constraints."""
    start = IMPOSSIBLE if decoded.status is Status.INFEASIBLE else f"the engine ({decoded.status}) {NOT_FOUND}"
    broken = [names[k] for k in np.flatnonzero(np.isinf(decoded.score.penalties)).tolist()]
    if not broken:
        return f"{start} the legal transitions of the model"
    return f"{start} all hard constraints; the Viterbi labels break {', '.join(broken)}"
