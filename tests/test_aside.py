"""Calls are done in another thread, and signals stay with whoever handles them in this one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from types import FrameType
from typing import Any

import pytest
from prefect.utilities.engine import can_ack_control_intent, capture_sigterm

from concord.flows.cluster.aside import WAIT_SECONDS, Aside, StoppedError, aside


@pytest.fixture
def thread() -> Iterator[Aside]:
    with aside() as made:
        yield made


def test_calls_are_done_one_after_the_other_in_one_other_thread(thread: Aside) -> None:
    names = {thread.do(lambda: threading.current_thread().name) for _ in range(3)}
    assert names == {"concord-ray"}
    with pytest.raises(ZeroDivisionError):
        thread.do(lambda: 1 // 0)
    assert thread.do(lambda: 7) == 7


class _Interrupted(BaseException):
    pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_handled_at_once_by_the_handler_that_is_there(number: signal.Signals, thread: Aside) -> None:
    def ours(_number: int, _frame: FrameType | None) -> None:
        raise _Interrupted

    ended: list[type[BaseException]] = []

    def until_nobody_waits() -> None:
        os.kill(os.getpid(), number)
        try:
            while True:
                time.sleep(0.01)
                thread.check()
        except StoppedError as error:
            ended.append(type(error))
            raise

    former = signal.signal(number, ours)
    try:
        with pytest.raises(_Interrupted):
            thread.do(until_nobody_waits)
        assert signal.getsignal(number) is ours
        assert ended == [StoppedError], "the call had not ended when the interruption went on"
        thread.check()
        assert thread.do(lambda: 7) == 7
    finally:
        signal.signal(number, former)


def interrupted(thread: Aside, steps: int) -> bool:
    """Waits for a call without an end, until a handler raises after so many steps; had the wait begun by then?"""
    left, early, unsent, moved = iter(range(steps)), False, threading.Lock(), time.monotonic()
    begun = threading.Event()

    def trace(frame: FrameType, _event: str, _given: object) -> Any:
        nonlocal early, moved
        frame.f_trace_opcodes, moved = True, time.monotonic()
        if next(left, None) is None and unsent.acquire(blocking=False):
            early = True
            os.kill(os.getpid(), signal.SIGUSR1)
        return trace

    def send_once_it_waits() -> None:
        begun.wait()  # on a busy machine this thread may start long before the other knows of it
        while not unsent.locked() and time.monotonic() - moved < WAIT_SECONDS / 2:
            time.sleep(0.01)
        if unsent.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGUSR1)

    def without_end() -> None:
        while True:
            time.sleep(0.001)
            thread.check()

    late = threading.Thread(target=send_once_it_waits)
    late.start()
    try:
        moved = time.monotonic()
        begun.set()
        sys.settrace(trace)
        thread.do(without_end)
    except _Interrupted:
        sys.settrace(None)
    late.join()
    return not early


def test_a_signal_at_any_step_of_the_wait_ends_it_and_the_next_call_is_made(thread: Aside) -> None:
    def raises(_number: int, _frame: FrameType | None) -> None:
        raise _Interrupted

    former = signal.signal(signal.SIGUSR1, raises)
    try:
        steps = next(steps for steps in count() if interrupted(thread, steps) or thread.do(lambda: 7) != 7)
        assert steps > 0
        assert thread.do(lambda: 7) == 7
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_prefect_can_acknowledge_that_a_flow_is_cancelled_while_ray_is_at_work(thread: Aside) -> None:
    """Prefect's runner asks the flow's process, which agrees as long as Prefect's handler of SIGTERM is there."""
    with capture_sigterm():
        assert thread.do(can_ack_control_intent)
    assert not thread.do(can_ack_control_intent)
