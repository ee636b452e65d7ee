"""A notebook's kernel, told cell by cell what to run, and interrupted as by the square button."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.manager import start_new_kernel

CELL_SECONDS = 600
"""Longest time for a cell."""


@dataclass
class Shown:
    """What a cell has shown.

    - ``outputs``: contents by format, or texts of streams by name, in their order; a later one in the same place, too.
    - ``error``: lines of its error.
    """

    outputs: list[Mapping[str, str]]
    error: list[str]

    def __contains__(self, text: str) -> bool:
        return any(text in part for output in self.outputs for part in output.values())


@dataclass
class Kernel:
    """A kernel that runs, and its client."""

    manager: Any
    client: Any

    def run(
        self, code: str, *, when: Callable[[], bool] | None = None, then: Callable[[], None] | None = None
    ) -> Shown:
        """Runs a cell to its end; ``then`` is called once, as soon as ``when`` holds while it runs."""
        cell = self.client.execute(code)
        shown = Shown([], [])
        deadline = time.monotonic() + CELL_SECONDS
        while time.monotonic() < deadline:
            if when is not None and then is not None and when():
                then()
                when = None
            if self._ended(cell, shown):
                assert when is None or then is None, f"ended too early: {shown}"
                return shown
        raise AssertionError(f"took too long: {shown}")

    def _ended(self, cell: str, shown: Shown) -> bool:
        """Takes the next message of a cell, if one comes soon. Was it the last?"""
        try:
            message = self.client.get_iopub_msg(timeout=0.05)
        except Empty:
            return False
        if message["parent_header"].get("msg_id") != cell:
            return False
        content = message["content"]
        if message["msg_type"] == "stream":
            shown.outputs.append({content["name"]: content["text"]})
        elif message["msg_type"] == "error":
            shown.error = content["traceback"]
        elif "data" in content:
            shown.outputs.append(content["data"])
        return bool(message["msg_type"] == "status" and content["execution_state"] == "idle")


@contextmanager
def kernel(folder: Path, env: Mapping[str, str]) -> Iterator[Kernel]:
    """A kernel in a folder and an environment, which ends with the block."""
    manager, client = start_new_kernel(kernel_name="python3", env=dict(env), cwd=str(folder))
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
