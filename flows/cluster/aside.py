"""A thread for all calls into Ray, so that signals meet the main thread in our own code, under its own handlers.

An exception that a handler raises while Ray's compiled code runs comes out of it as a `SystemError`; handlers run in
the main thread alone. They stay as they are: Prefect's own is how it knows that a flow can be cancelled.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Raised in the thread, where the one who waits for it has been interrupted."""


class Aside:
    """Does one call after the other in its thread, and gives their results to whoever waits."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._stopping = threading.Event()
        # It does not keep the process from ending: a call into a Ray that has died may never come back.
        self._thread = threading.Thread(target=self._run, daemon=True, name="concord-ray")
        self._thread.start()

    def do(self, call: Callable[[], T]) -> T:
        """What ``call`` returns or raises. An interrupted wait ends the call at its next `check`, and then goes on."""
        answer: Future[T] = Future()
        self._calls.put((call, answer))
        try:
            return answer.result()
        except BaseException:
            self._stopping.set()
            wait([answer])
            raise
        finally:
            self._stopping.clear()

    def check(self) -> None:
        """Between two calls into Ray, in the thread: raises `StoppedError` where nobody waits for them any more."""
        if self._stopping.is_set():
            raise StoppedError

    def end(self) -> None:
        """No more calls."""
        self._calls.put(None)

    def _run(self) -> None:
        while (given := self._calls.get()) is not None:
            call, answer = given
            with ExitStack() as stack:
                stack.push(lambda _kind, error, _traceback, answer=answer: _fail(answer, error))
                answer.set_result(call())


def _fail(answer: Future[Any], error: BaseException | None) -> bool:
    """Hands an error over to the one who waits; True keeps it out of the thread."""
    if error is not None:
        answer.set_exception(error)
    return True


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
