"""Signals that are noted at once and handled between two calls to a C library, never inside one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Notes Ctrl-C and SIGTERM; `check` hands them to whoever handled them before.

    An exception that is raised while Ray's compiled code runs comes out of it as a `SystemError`.
    """

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._former: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def take_over(self) -> None:
        """Installs itself for both signals; elsewhere than in the main thread there are none to take."""
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                signal.signal(number, self._note)

    def remember(self) -> None:
        """Remembers the handlers that are there now."""
        self._former = {number: signal.getsignal(number) for number in NUMBERS}

    def restore(self) -> None:
        """Puts the remembered handlers back."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._former.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raises what the former handler raises, if a signal has come."""
        if not self._noted:
            return
        number = self._noted.pop(0)
        former = self._former.get(number)
        if callable(former):
            former(number, None)
        elif former == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted.append(number)


@contextmanager
def noted_interrupts(start: Callable[[], None]) -> Iterator[Interrupts]:
    """Runs ``start`` and then the block with signals noted; ``start`` may install handlers of its own.

    A signal that came is handled at the latest when the block ends.
    """
    interrupts = Interrupts()
    interrupts.remember()
    try:
        start()
        interrupts.take_over()
        yield interrupts
    finally:
        interrupts.restore()
    interrupts.check()
