"""What is pressed in a real terminal: everything that runs in its foreground gets it, helpers and servers too."""

from __future__ import annotations

import os
import time

import pytest

from tests.integration.conftest import SHARDS, World, markers
from tests.integration.processes import gone
from tests.integration.terminals import CTRL_C, Terminal

pytestmark = pytest.mark.slow

RAY = "gcs_server"


@pytest.mark.parametrize("moment", [RAY, "labelling"])
def test_ctrl_c_ends_a_run_within_seconds_and_in_one_line(world: World, trained: object, moment: str) -> None:
    assert trained
    out = f"pressed-{moment}"
    terminal = Terminal.start(world, *world.reprocess_command(out, "--workers", "1"))
    labelling = moment == "labelling"
    terminal.wait(lambda: markers(world, out) >= 1 if labelling else terminal.runs(moment), seconds=240)
    terminal.runs(moment)
    already, pressed = len(terminal.said), time.monotonic()
    os.write(terminal.keyboard, CTRL_C)
    terminal.wait(lambda: terminal.ended() or time.monotonic() > pressed + 0.5, seconds=60)
    if not terminal.ended():
        os.write(terminal.keyboard, CTRL_C)  # one more, during the clean-up
    terminal.wait(terminal.ended, seconds=45)
    terminal.step()
    assert terminal.code == 130, terminal.said.decode()
    said = terminal.said[already:].decode()
    assert said.count("concord: ") == 1, said
    assert "interrupted; the same command goes on" in said
    assert "Traceback" not in said
    assert "Error" not in said
    assert gone(terminal.below, seconds=20) == []


def test_a_closed_terminal_ends_a_run_in_good_order(world: World, trained: object) -> None:
    assert trained
    terminal = Terminal.start(world, *world.reprocess_command("closed", "--workers", "1"))
    terminal.wait(lambda: markers(world, "closed") >= 1, seconds=240)
    terminal.runs(RAY)
    os.close(terminal.keyboard)
    deadline = time.monotonic() + 45
    while not terminal.ended() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert terminal.code == 129
    assert gone(terminal.below, seconds=20) == []
    done = markers(world, "closed")
    last = world.reprocess("closed", "--workers", "1")
    assert (last["shards_skipped"], last["shards_done"]) == (done, SHARDS - done)


def test_ctrl_c_ends_a_training(world: World) -> None:
    terminal = Terminal.start(world, "train", "--corpus", "train", "--features", "finkel", "--out", "pressed-model")
    terminal.wait(lambda: b"iterations" in terminal.said, seconds=240)
    terminal.runs(RAY)
    os.write(terminal.keyboard, CTRL_C)
    terminal.wait(terminal.ended, seconds=45)
    terminal.step()
    assert terminal.code == 130, terminal.said.decode()
    assert b"Traceback" not in terminal.said
    assert gone(terminal.below, seconds=20) == []
