"""Commands in the foreground of a terminal of their own."""

from __future__ import annotations

import os
import pty
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.integration.conftest import CONCORD, World
from tests.integration.processes import command_line, descendants

CTRL_C = b"\x03"


@dataclass
class Terminal:
    """A command in the foreground of a terminal of its own."""

    pid: int
    keyboard: int
    said: bytes = b""
    code: int | None = None
    below: list[int] = field(default_factory=list)

    @classmethod
    def start(cls, world: World, *arguments: str) -> Terminal:
        env = {name: value for name, value in world.env.items() if name != "PREFECT_API_URL"}
        pid, keyboard = pty.fork()
        if pid == 0:
            os.chdir(world.folder)
            os.execve(CONCORD[0], [*CONCORD, *arguments], env)
        return cls(pid, keyboard)

    def wait(self, condition: Callable[[], bool], *, seconds: float) -> None:
        """Reads what is said until the condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.said.decode()[-2000:]
            self.step()

    def step(self) -> None:
        if select.select([self.keyboard], [], [], 0.05)[0]:
            try:
                self.said += os.read(self.keyboard, 1 << 16)
            except OSError:
                time.sleep(0.05)  # the command has closed its end
        self.ended()

    def ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def runs(self, name: str) -> bool:
        """Is there a process below the command with this in its command line?"""
        self.below = descendants(self.pid)
        return any(name in command_line(pid) for pid in self.below)
