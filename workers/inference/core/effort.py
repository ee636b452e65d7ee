"""What a search has spent of its budget: one clock and one count of work, handed to all that takes time."""

from __future__ import annotations

import time

from concord.schemas.decoded import Budget


class Effort:
    """A budget and what is spent of it. Whoever does work adds it to ``work``, in the engine's own unit.

    ``clock`` is a reading of `time.perf_counter`, given where the document's time began earlier than now.
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
        """What is left of the budget, nothing being less than 0."""
        seconds, work = self.budget
        return Budget(
            None if seconds is None else max(0.0, seconds - self.seconds),
            None if work is None else max(0, work - self.work),
        )

    def remaining(self, most: int) -> int:
        """Units of work until the next look at the clock: at most ``most``, and at most what the budget leaves."""
        return most if self.budget.work is None else max(0, min(most, self.budget.work - self.work))
