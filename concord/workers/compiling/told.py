"""Progress of compiling in this process, for listeners. The module imports nothing heavy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Compiling(NamedTuple):
    """Progress of compiling.

    - ``kernel``: the kernel that has just begun.
    - ``done``: number of kernels that are compiled.
    - ``seconds``: seconds spent on compiling so far.
    """

    kernel: str
    done: int
    seconds: float


Listener = Callable[[Compiling], None]

LISTENERS: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """``listener`` hears of every kernel that is compiled in the block, and of none that is only loaded."""
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)


class Compilations:
    """Counts what is compiled; a kernel compiles those that it calls while it is compiled itself."""

    def __init__(self) -> None:
        self._open: list[float] = []
        self._done, self._seconds = 0, 0.0

    def began(self, kernel: str) -> None:
        """``kernel`` is its module and name."""
        now = time.monotonic()
        under_way = now - self._open[0] if self._open else 0.0
        self._open.append(now)
        for listener in LISTENERS:
            listener(Compiling(kernel, self._done, self._seconds + under_way))

    def ended(self) -> None:
        """The last one that was begun, and has not ended yet."""
        started = self._open.pop()
        self._done += 1
        if not self._open:
            self._seconds += time.monotonic() - started
