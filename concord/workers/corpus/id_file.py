"""Hashes of the document ids of a corpus, aside in a temporary file: a billion of them would take 8 GB of memory."""

from __future__ import annotations

import mmap
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np

from concord.schemas.arrays import Ints
from concord.workers.corpus.surveyed import SurveyedFile
from concord.workers.storage.files import writing

IDS_IN_MEMORY = 64 << 20
"""Bytes of hashes that are held in memory; more are in the file."""

NO_IDS = np.zeros(0, np.int64)


class IdFile:
    """Surveyed files, which leave their hashes in one file, and get them back when all are there.

    What they get back is a map of the file: the system reads of it what is looked at, and forgets that when memory is
    scarce.
    """

    def __init__(self) -> None:
        """Without files."""
        self._file = tempfile.SpooledTemporaryFile(IDS_IN_MEMORY)  # noqa: SIM115 — until the end of the block
        self._starts: dict[str, int] = {}
        self._end = 0

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Lets go of the file, which is as long as somebody has hashes of it."""
        with suppress(OSError):  # of a full disk, of which `add` has told
            self._file.close()

    def add(self, file: SurveyedFile) -> SurveyedFile:
        """Takes the hashes of a file, which it has no more. Raises `OutputError`."""
        ids = file.runs.ids
        with writing(Path(tempfile.gettempdir())):
            self._file.write(ids.tobytes())
        self._starts[file.file.id] = self._end
        self._end += len(ids)
        return file._replace(runs=replace(file.runs, ids=NO_IDS))

    def given_back(self, files: list[SurveyedFile]) -> list[SurveyedFile]:
        """The files with their hashes."""
        ids = self._ids()
        starts = (self._starts[file.file.id] for file in files)
        return [
            file._replace(runs=replace(file.runs, ids=ids[start : start + int(file.runs.rows.sum())]))
            for file, start in zip(files, starts, strict=True)
        ]

    def _ids(self) -> Ints:
        """All hashes, in the order in which they were added."""
        if self._end * NO_IDS.itemsize <= IDS_IN_MEMORY:
            self._file.seek(0)
            return np.frombuffer(self._file.read(), np.int64)
        with writing(Path(tempfile.gettempdir())):
            self._file.flush()
        return np.frombuffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ), np.int64)
