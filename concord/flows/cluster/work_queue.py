"""Work of a pool that no actor has yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from concord.flows.cluster.deaths import Work
from concord.workers.corpus.plan import Unit, largest_first


class WorkQueue:
    """What came back from actors that died, then units in the order in which they were added.

    Of millions of units each is made when its turn comes.
    """

    def __init__(self) -> None:
        """Empty."""
        self._back: deque[Work] = deque()
        self._added: deque[Iterator[Unit]] = deque()
        self._left = 0

    def __len__(self) -> int:
        return len(self._back) + self._left

    def add(self, units: Sequence[Unit]) -> None:
        """Adds units to the end, the largest first."""
        self._added.append(largest_first(units))
        self._left += len(units)

    def put_back(self, works: Sequence[Work]) -> None:
        """Puts work to the front."""
        self._back.extendleft(reversed(works))

    def first(self) -> Work:
        """What is next, of a queue that is not empty; it stays there."""
        while not self._back:
            unit = next(self._added[0], None)
            if unit is None:
                self._added.popleft()
                continue
            self._left -= 1
            self._back.append(Work(unit))
        return self._back[0]

    def pop(self) -> Work:
        """Takes what is next."""
        self.first()
        return self._back.popleft()
