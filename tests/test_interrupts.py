"""Signals are noted at once and handled where it is safe."""

from __future__ import annotations

import os
import signal

import pytest

from flows.cluster.interrupts import noted_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_the_next_check(number: signal.Signals) -> None:
    calls: list[int] = []
    former = signal.signal(number, lambda n, _: calls.append(n))
    try:
        with noted_interrupts(lambda: None) as interrupts:
            interrupts.check()
            os.kill(os.getpid(), number)
            assert calls == []
            interrupts.check()
            assert calls == [number]
            interrupts.check()
        assert calls == [number]
    finally:
        signal.signal(number, former)


def test_what_start_installs_is_replaced_and_the_former_handler_comes_back() -> None:
    def ours(*_: object) -> None:
        raise AssertionError("must not be called")

    def replace() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    former = signal.signal(signal.SIGTERM, ours)
    try:
        with noted_interrupts(replace):
            assert signal.getsignal(signal.SIGTERM) not in (ours, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, former)


def test_ctrl_c_is_a_keyboard_interrupt_at_the_end_of_the_block_at_the_latest() -> None:
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), noted_interrupts(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, former)


def test_ctrl_c_during_the_start_is_one_whatever_error_it_becomes() -> None:
    def broken_off() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            raise SystemError("what compiled code makes of an exception") from error

    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), noted_interrupts(broken_off):
            raise AssertionError("must not be reached")
    finally:
        signal.signal(signal.SIGINT, former)
