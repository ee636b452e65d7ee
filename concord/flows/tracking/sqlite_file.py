"""An SQLite file that is there as a whole or not at all, whoever is killed or comes first while it is made."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from concord.flows.screen.progress import say

SAY_AFTER = 3.0
"""Seconds of waiting for another process after which the user is told what for."""


def make_once(path: Path, make: Callable[[Path], None]) -> None:
    """Has ``make`` write a file that then becomes ``path``; nothing is done where ``path`` is there.

    One process makes it, others wait for the lock, which ends with its holder. Raises `OSError`.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock, _locked(lock, path):
        if path.exists():
            return
        for left in path.parent.glob(f".{path.name}.new*"):  # of a process that was killed; SQLite's journal too
            left.unlink()
        new = path.with_name(f".{path.name}.new")
        make(new)
        new.replace(path)


@contextmanager
def _locked(lock: IO[str], path: Path) -> Iterator[None]:
    started, said = time.monotonic(), False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not said and time.monotonic() - started > SAY_AFTER:
                say(f"waiting for another run that is making {path}")
                said = True
            time.sleep(0.1)
        else:
            break
    yield
