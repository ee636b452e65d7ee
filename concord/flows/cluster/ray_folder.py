"""A folder that only this user can enter, for the Ray of one run: its sessions, sockets and token."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from concord.workers.storage.scratch import scratch_folder

PREFIX = "concord-ray-"
SOCKET_BYTES = 103
"""Longest path of a Unix socket: 107 bytes on Linux, 103 on macOS."""

_BELOW = f"/{PREFIX}12345678/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""Longest path of a socket that Ray makes below the folder for temporary files."""


class RayFolder(NamedTuple):
    """Places in a private folder.

    - ``sessions``: folder for Ray, whose own folders are open to everybody.
    - ``token``: file of the token.
    - ``empty``: empty folder.
    """

    sessions: Path
    token: Path
    empty: Path


@contextmanager
def ray_folder() -> Iterator[RayFolder]:
    """A private folder with a new random token, removed at the end of the block; folders of killed runs are removed
    too."""
    with scratch_folder(prefix=PREFIX, place=temporary_place()) as made:
        folder = RayFolder(made / "r", made / "token", made / "empty")
        folder.token.touch(mode=0o600)
        folder.token.write_text(secrets.token_hex(32))
        folder.empty.mkdir()
        yield folder


def temporary_place() -> Path:
    """The folder for temporary files, or the system's default if paths of sockets in it would be too long."""
    place = Path(tempfile.gettempdir())
    return place if len(os.fsencode(place)) + len(_BELOW) <= SOCKET_BYTES else Path("/tmp")  # noqa: S108
