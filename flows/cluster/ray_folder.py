"""A folder that nobody but this user can enter, for the Ray of one run: its sessions, its sockets, its token."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PREFIX = "concord-ray-"
SOCKET_BYTES = 103
"""Longest path of a Unix socket: 107 bytes on Linux, 103 on macOS."""

_BELOW = f"/{PREFIX}12345678/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The longest path of a socket that Ray makes below the folder for temporary files."""

_STALE_SECONDS = 60.0
"""A folder as young as this may be one whose run has not locked it yet."""


class RayFolder(NamedTuple):
    """``sessions`` is for Ray, which lets everybody into what it makes; ``token`` is a file, ``empty`` a folder."""

    sessions: Path
    token: Path
    empty: Path


@contextmanager
def ray_folder() -> Iterator[RayFolder]:
    """A private folder with a new random token, removed at the end. Takes away what killed runs left."""
    place = temporary_place()
    _remove_stale(place)
    # Ray's agents may still write a line to their logs while their folder goes.
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True) as name:
        made = Path(name)
        lock = os.open(made, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            folder = RayFolder(made / "r", made / "token", made / "empty")
            folder.token.touch(mode=0o600)
            folder.token.write_text(secrets.token_hex(32))
            folder.empty.mkdir()
            yield folder
        finally:
            os.close(lock)


def temporary_place() -> Path:
    """The folder for temporary files, or the system's own where sockets in that one would have too long a path."""
    place = Path(tempfile.gettempdir())
    return place if len(os.fsencode(place)) + len(_BELOW) <= SOCKET_BYTES else Path("/tmp")  # noqa: S108


def _remove_stale(place: Path) -> None:
    """Removes the folders of runs that were killed: this user's, and locked by nobody."""
    for path in place.glob(f"{PREFIX}*"):
        try:
            found = path.stat()
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile, or another user's
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            if found.st_uid == os.getuid() and time.time() - found.st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(folder)
