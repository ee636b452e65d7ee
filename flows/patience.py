"""Calls into services that may never answer, waited for so long and no longer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """What ``call`` returns or raises, if it does so within ``seconds``; otherwise raises `TimeoutError`.

    It runs in a thread of its own that does not keep the process from ending, and goes on there when
    it is late. Ctrl-C and SIGTERM end the wait.
    """
    answer: Future[T] = Future()

    def run() -> None:
        with ExitStack() as stack:
            stack.push(lambda _kind, error, _traceback: _fail(answer, error))
            answer.set_result(call())

    threading.Thread(target=run, daemon=True, name="concord-patience").start()
    return answer.result(timeout=seconds)


def _fail(answer: Future[T], error: BaseException | None) -> bool:
    """Hands an error over to the one who waits; True keeps it out of the thread."""
    if error is not None:
        answer.set_exception(error)
    return True
