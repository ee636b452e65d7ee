"""Scratch folders: temporary folders that are removed even if the process that made them is killed.

A folder has its name only while it is locked, so one that nobody locks is a killed process's. It is made, and locked,
under a name of its own (`UNNAMED` before it).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "concord-scratch-"
UNNAMED = "."

STALE_SECONDS = 60.0
"""Age, in seconds, below which a folder without its name is left alone, as its process may not have locked it yet."""


@contextmanager
def scratch_folder(*, prefix: str = PREFIX, place: Path | None = None) -> Iterator[Path]:
    """A folder that nobody but this user can enter, removed at the end; in ``place`` or where temporary files lie.

    Takes away what killed processes left there under the same prefix. Raises `OSError` where none can be made.
    """
    where = Path(tempfile.gettempdir()) if place is None else place
    remove_abandoned(prefix=prefix, place=where)
    folder = Path(tempfile.mkdtemp(prefix=f"{UNNAMED}{prefix}", dir=where))
    lock = os.open(folder, os.O_RDONLY)
    try:
        # A file system without locks has none for whoever would remove the folder, either.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH)
        folder = folder.rename(where / folder.name.removeprefix(UNNAMED))
        yield folder
    finally:
        # Processes of others, such as Ray's agents, may still write a line while their folder goes.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned(*, prefix: str = PREFIX, place: Path | None = None) -> None:
    """Removes the folders of processes that were killed: this user's, and locked by nobody."""
    where = Path(tempfile.gettempdir()) if place is None else place
    for path in (*where.glob(f"{prefix}*"), *where.glob(f"{UNNAMED}{prefix}*")):
        try:
            status = path.stat()
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile, or another user's
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # somebody's, or nobody can tell
        else:
            named = path.name.startswith(prefix)
            if status.st_uid == os.getuid() and (named or time.time() - status.st_mtime > STALE_SECONDS):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(folder)
