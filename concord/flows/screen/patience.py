"""Calls into services that may never answer, with a limit of time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """Result (or error) of ``call``, if it ends within ``seconds``. Raises `TimeoutError` otherwise.

    The call runs in a thread of its own, which does not keep the process from ending; a late call goes on there. Ctrl-C
    and SIGTERM end the wait.
    """
    answer: Future[T] = Future()

    def run() -> None:
        with ExitStack() as stack:
            stack.push(lambda _kind, error, _traceback: _fail(answer, error))
            answer.set_result(call())

    threading.Thread(target=run, daemon=True, name="concord-patience").start()
    return answer.result(timeout=seconds)


def _fail(answer: Future[T], error: BaseException | None) -> bool:
    """Passes an error on to the caller who waits; returns True, which keeps it out of the thread."""
    if error is not None:
        answer.set_exception(error)
    return True
