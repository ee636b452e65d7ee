"""The effort of a search: one clock and one count of work against a budget, shared by everything that takes time."""

from __future__ import annotations

import time

from concord.schemas.decoded import Budget


class Effort:
    """A budget, and what has been spent of it. Whoever does work adds it to ``work``, in the engine's own unit.

    ``clock`` is a reading of `time.perf_counter`: the start of the document's time, if that was before now.
    """

    def __init__(self, budget: Budget, *, clock: float | None = None) -> None:
        self.budget = budget
        self.started = time.perf_counter() if clock is None else clock
        self.work = 0

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def spent(self) -> bool:
        """Has the budget run out?"""
        seconds, work = self.budget
        return (seconds is not None and self.seconds >= seconds) or (work is not None and self.work >= work)

    @property
    def left(self) -> Budget:
        """The rest of the budget, in seconds and work; never below 0."""
        seconds, work = self.budget
        return Budget(
            None if seconds is None else max(0.0, seconds - self.seconds),
            None if work is None else max(0, work - self.work),
        )

    def remaining(self, most: int) -> int:
        """Units of work until the next look at the clock: ``most``, or what the budget leaves if that is less."""
        return most if self.budget.work is None else max(0, min(most, self.budget.work - self.work))
