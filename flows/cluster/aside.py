"""A thread for all calls into Ray, so that signals meet the main thread in our own code, under its own handlers.

An exception that a handler raises while Ray's compiled code runs comes out of it as a `SystemError`; handlers run in
the main thread alone. They stay as they are: Prefect's own is how it knows that a flow can be cancelled.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


WAIT_SECONDS = 0.2
"""How long a signal may be kept waiting."""


class StoppedError(Exception):
    """Raised in the thread, where the one who waits for it has been interrupted."""


@dataclass(eq=False)
class _Call:
    """A call, what came of it, and whether nobody waits for it any more; ``ended`` gets an item when it has ended."""

    do: Callable[[], Any]
    result: Any = None
    error: BaseException | None = None
    stopped: bool = False
    ended: SimpleQueue[None] = field(default_factory=SimpleQueue)

    def run(self) -> None:
        """Makes the call, unless it has been stopped before."""
        with ExitStack() as stack:
            stack.push(self._failed)
            if not self.stopped:
                self.result = self.do()

    def wait(self) -> None:
        """Returns when the call has ended. A signal that comes just before a wait does not end it, so each is short."""
        while True:
            with suppress(Empty):
                return self.ended.get(timeout=WAIT_SECONDS)

    def _failed(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        self.error = error
        return True  # it is for the one who waits, not for the thread


class Aside:
    """Does one call after the other in its thread, and gives their results to whoever waits.

    A handler may raise between any two steps of the one who waits. So it waits in a `SimpleQueue` alone, which is
    compiled and whole at each step; the locks of a `Future` are not.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._now: _Call | None = None
        # It does not keep the process from ending: a call into a Ray that has died may never come back.
        self._thread = threading.Thread(target=self._run, daemon=True, name="concord-ray")
        self._thread.start()

    def do(self, call: Callable[[], T]) -> T:
        """What ``call`` returns or raises. An interrupted wait ends the call at its next `check`, and then goes on."""
        given = _Call(call)
        try:
            self._calls.put(given)
            given.wait()
        except BaseException:
            given.stopped = True
            self._calls.put(given)  # it may not have been; a stopped one only says that it has ended
            given.wait()
            raise
        if given.error is not None:
            raise given.error
        result: T = given.result
        return result

    def check(self) -> None:
        """Between two calls into Ray, in the thread: raises `StoppedError` where nobody waits for them any more."""
        if self._now is not None and self._now.stopped:
            raise StoppedError

    def end(self) -> None:
        """No more calls."""
        self._calls.put(None)

    def _run(self) -> None:
        while (given := self._calls.get()) is not None:
            self._now = given
            given.run()
            self._now = None
            given.ended.put(None)


@contextmanager
def aside() -> Iterator[Aside]:
    """A thread for the length of the block."""
    made = Aside()
    try:
        yield made
    finally:
        made.end()


def python_takes_signals() -> None:
    """Puts Python's own handlers back in the place of those that Ray sets as it starts, in the main thread.

    Ray's prints a trace, hands the signal on, and aborts the process three seconds later, however it is ending. What
    Python calls stays what it was.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler):
            signal.signal(number, handler)
