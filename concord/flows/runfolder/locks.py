"""The lock on a folder: one run at a time on this machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from concord.flows.errors import RunFolderError
from concord.workers.storage.files import writing

LOCK = ".lock"


@contextmanager
def locked(lock: Path, out: Path) -> Iterator[None]:
    """Holds the lock on ``out``, which is a file in it or beside it, for the length of the block.

    Nothing is written into it. Raises `RunFolderError` where another process holds it or it is a link, which leads to a
    file of somebody else's, and `OutputError`.
    """
    if lock.is_symlink():
        raise RunFolderError(f"{lock}: a symbolic link, where a lock of concord's own has to be; remove it")
    with writing(lock):
        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        _take(held, out)
        yield
    finally:
        os.close(held)


def is_at_work(out: Path) -> bool:
    """Does a run hold the lock of the folder?"""
    if not (out / LOCK).is_file():
        return False
    try:
        with locked(out / LOCK, out):
            return False
    except RunFolderError:
        return True


def _take(held: int, out: Path) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFolderError(f"{out}: another run is writing there; wait for its end or give another --out") from None
