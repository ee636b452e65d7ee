"""Scores of sentences that were computed once, kept on this machine: a night computes what is new.

One SQLite file for each model, in the folder that `FOLDER` names. Scores are found by the digest of a sentence, and the
file's name is the digest of all that decides them, so that another model never finds them. An answer does not depend on
the file: what it lacks is computed, and what it holds has the bytes that were computed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from concord.workers.storage.files import user_folder

Scores = NDArray[np.float32]

FOLDER = "CONCORD_SCORES"
"""Environment variable: folder of the files, or ``off``.

By default they are in ``scores`` below ``CONCORD_HOME``, where that is set, and in ``concord/scores`` among the user's
caches elsewhere.
"""
MOST_BYTES = 4 << 30
"""Size of a model's file, in bytes, from which on nothing is added."""
WAIT = 30.0
"""Seconds to wait for another process that writes."""
SENTENCES_AT_ONCE = 500
"""Number of sentences that are looked up together."""


class ScoreCache:
    """Cache of the scores (n, W) of sentences, each by a digest. ``name`` is the digest of what decides the scores.

    Where the folder cannot be written, or the file is damaged, nothing is found and nothing kept.
    """

    def __init__(self, name: str, width: int) -> None:
        self.width = width
        self._database = _opened(name)

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Scores]:
        """Scores of those sentences that have some here."""
        found: dict[bytes, Scores] = {}
        if self._database is None:
            return found
        with contextlib.suppress(sqlite3.Error):
            for first in range(0, len(keys), SENTENCES_AT_ONCE):
                part = keys[first : first + SENTENCES_AT_ONCE]
                marks = ", ".join("?" * len(part))
                rows = self._database.execute(f"SELECT key, scores FROM sentences WHERE key IN ({marks})", part)  # noqa: S608
                found |= {key: np.frombuffer(data, "<f4").reshape(-1, self.width) for key, data in rows}
        return found

    def keep(self, scores: Mapping[bytes, Scores]) -> None:
        """Keeps scores of sentences for the next time."""
        if self._database is None or not scores:
            return
        rows = [(key, np.ascontiguousarray(table, "<f4").tobytes()) for key, table in scores.items()]
        with contextlib.suppress(sqlite3.Error), self._database:
            ((pages,), (size,)) = (
                self._database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
            )
            if pages * size < MOST_BYTES:
                self._database.executemany("INSERT OR IGNORE INTO sentences VALUES (?, ?)", rows)


def sentence_key(text: str, starts: Sequence[int]) -> bytes:
    """Digest of a sentence's text and of where its words start in it."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    digest.update(np.array(starts, "<i4").tobytes())
    return digest.digest()


def cache_folder() -> Path | None:
    """Folder of the files; None where the user wants none, or nobody's home is known."""
    asked = os.environ.get(FOLDER, "")
    if asked == "off":
        return None
    if asked:
        return Path(asked)
    with contextlib.suppress(RuntimeError):
        return user_folder("XDG_CACHE_HOME", ".cache") / "scores"
    return None


def _opened(name: str) -> sqlite3.Connection | None:
    folder = cache_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(folder / f"{name}.sqlite", timeout=WAIT, check_same_thread=False)
        # Kept scores may be lost with the machine, but the file stays whole.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("CREATE TABLE IF NOT EXISTS sentences (key BLOB PRIMARY KEY, scores BLOB) WITHOUT ROWID")
    except (OSError, sqlite3.Error):
        return None
    return database
