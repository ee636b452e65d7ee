"""What a process of a solver does: a problem a line of standard input, its solution a line of standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from tests.support.referees.milp import Arrays

Solution = tuple[list[float] | None, bool, float]
"""The values or None, whether it is said to be optimal or infeasible, and CPU seconds."""


def serve(solve: Callable[[Arrays, float], Solution]) -> None:
    """Answers (arrays, seconds) by what ``solve`` returns, as JSON, until standard input ends."""
    for line in sys.stdin:
        arrays, seconds = json.loads(line)
        sys.stdout.write(json.dumps(solve(Arrays(*arrays), seconds)) + "\n")
        sys.stdout.flush()
