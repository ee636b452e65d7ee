"""Signals that are noted at once and handled between two calls to a C library, never inside one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Notes Ctrl-C, SIGTERM and SIGHUP; `check` hands them to whoever handled them before.

    An exception that is raised while Ray's compiled code runs comes out of it as a `SystemError`.
    """

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._former: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def take_over(self) -> None:
        """Only notes signals from now on; elsewhere than in the main thread there are none to take."""
        self._install(self._note)

    def pass_on(self) -> None:
        """Notes signals and hands them on at once, for what takes long and may be broken off."""
        self._install(self._note_and_pass_on)

    def _install(self, handler: Callable[[int, FrameType | None], None]) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                signal.signal(number, handler)

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
        number = self._noted[0]
        self._noted.clear()
        self._hand_on(number)

    def _hand_on(self, number: int) -> None:
        former = self._former.get(number)
        if callable(former):
            former(number, None)
        elif former == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted.append(number)

    def _note_and_pass_on(self, number: int, _frame: FrameType | None) -> None:
        self._noted.append(number)
        self._hand_on(number)


@contextmanager
def noted_interrupts(start: Callable[[], None]) -> Iterator[Interrupts]:
    """Runs ``start`` and then the block with signals noted; ``start`` may install handlers of its own.

    A signal breaks ``start`` off, whatever error that makes of it, and in the block it is handled
    at the latest when that ends. What its former handler raises takes the place of other errors.
    """
    interrupts = Interrupts()
    interrupts.remember()
    try:
        interrupts.pass_on()
        start()
        interrupts.take_over()
        yield interrupts
    finally:
        interrupts.restore()
        interrupts.check()
