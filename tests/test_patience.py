"""Waiting, but not for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from concord.flows.screen.patience import within


def test_an_answer_comes_back_as_it_is() -> None:
    assert within(10.0, lambda: 7) == 7
    empty: dict[str, int] = {}
    with pytest.raises(KeyError, match="its own"):
        within(10.0, lambda: empty["its own"])


def test_nobody_waits_longer_than_that() -> None:
    never = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.2, never.wait)
    assert time.monotonic() - started < 5
    never.set()


def test_a_late_call_does_not_keep_the_process_alive() -> None:
    script = (
        "import threading\nfrom concord.flows.screen.patience import within\n"
        "try: within(0.1, threading.Event().wait)\nexcept TimeoutError: print('late')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "late\n"
