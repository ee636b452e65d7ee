"""A thread for all calls into Ray, so that signals reach the main thread in our own code.

Handlers of signals run in the main thread only. An exception that a handler raises while Ray's compiled code runs there
comes out as a `SystemError`. The handlers themselves are not changed: Prefect cancels a flow by its own.
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
"""Longest time for which a signal waits."""


class StoppedError(Exception):
    """Raised in the thread if the caller who waits for it was interrupted."""


@dataclass(eq=False)
class _Call:
    """A call in the thread.

    - ``do``: the call.
    - ``result``, ``error``: its outcome.
    - ``stopped``: has its caller stopped waiting?
    - ``ended``: gets an item when the call has ended.
    """

    do: Callable[[], Any]
    result: Any = None
    error: BaseException | None = None
    stopped: bool = False
    ended: SimpleQueue[None] = field(default_factory=SimpleQueue)

    def run(self) -> None:
        """Makes the call, unless it was stopped before."""
        with ExitStack() as stack:
            stack.push(self._failed)
            if not self.stopped:
                self.result = self.do()

    def wait(self) -> None:
        """Waits for the end of the call, in short steps: a signal just before a step does not end that step."""
        while True:
            with suppress(Empty):
                return self.ended.get(timeout=WAIT_SECONDS)

    def _failed(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        self.error = error
        return True  # it is for the one who waits, not for the thread


class Aside:
    """Makes calls one after the other in its thread, and returns their results to the callers.

    A handler may raise between any two steps of a waiting caller. So it waits in a `SimpleQueue` only, which is
    compiled and consistent at each step; the locks of a `Future` are not.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._now: _Call | None = None
        # It does not keep the process from ending: a call into a Ray that has died may never come back.
        self._thread = threading.Thread(target=self._run, daemon=True, name="concord-ray")
        self._thread.start()

    def do(self, call: Callable[[], T]) -> T:
        """Result (or error) of ``call``. An interrupted wait stops the call at its next `check`, and then continues."""
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
        """Called in the thread between two calls into Ray; raises `StoppedError` if no caller waits any more."""
        if self._now is not None and self._now.stopped:
            raise StoppedError

    def end(self) -> None:
        """Ends the thread."""
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
    """Restores Python's own signal handlers, which Ray replaces when it starts in the main thread.

    Ray's handler prints a trace, passes the signal on, and aborts the process three seconds later, even if it is
    ending. The functions that Python's handlers call do not change.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler):
            signal.signal(number, handler)
