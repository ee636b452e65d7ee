"""File of what a search has tried, beside its model: a search that was killed goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from concord.workers.compiling.kept_digests import workers_digest
from concord.workers.storage.files import write_whole, writing

TRIALS_END = ".trials"
"""Suffix of the name of the file."""


class TrialFile:
    """Results by name. The first line is the digest of the search; each other line is a name with its result."""

    def __init__(self, out: Path, search: Iterable[str]) -> None:
        """Takes the results of an earlier call for the folder ``out``, if they are of the same search.

        - ``search``: all that decides a result, such as the digest of the documents.

        Raises `OutputError`.
        """
        self._path = _file_of(out)
        key = hashlib.sha256(json.dumps([*search, workers_digest()]).encode()).hexdigest()
        lines = _whole_lines(self._path)
        lines = lines if lines[:1] == [key] else [key]
        self.results: dict[str, Any] = dict(map(json.loads, lines[1:]))
        write_whole(self._path, "".join(f"{line}\n" for line in lines).encode())

    def add(self, results: Mapping[str, Any]) -> None:
        """Adds results that JSON can hold. Raises `OutputError`."""
        self.results |= results
        with writing(self._path), self._path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in results.items())


def forget(out: Path) -> None:
    """Removes the file, which a finished model no longer needs. Raises `OutputError`."""
    path = _file_of(out)
    with writing(path):
        path.unlink(missing_ok=True)


def _file_of(out: Path) -> Path:
    folder = Path(os.path.realpath(out))
    return folder.with_name(f".{folder.name}{TRIALS_END}")


def _whole_lines(path: Path) -> list[str]:
    """Complete lines of a file that a kill or a full disk may have cut off."""
    if not path.is_file():
        return []
    return [line[:-1] for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
