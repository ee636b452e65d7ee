"""Names of very many files in columns: a dict of a million of them would take hundreds of megabytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from concord.workers.storage.object_storage import StoredFile

Packed = NDArray[np.bytes_]
"""(N,) names of one width."""

PACKED_AT_ONCE = 1 << 14
"""Files that are objects at once while a table is made."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def packed(names: Iterable[str]) -> Packed:
    """Names as bytes, each as wide as the longest."""
    return np.array([name.encode() for name in names], np.bytes_)


class NameTable(Sequence[str]):
    """Names by row, and rows by name: 8 bytes besides a packed name."""

    def __init__(self, parts: Iterable[Packed]) -> None:
        """The names of all parts, row after row."""
        self._names = np.concatenate([packed(()), *parts])
        self._order = np.argsort(self._names, kind="stable")

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, row: int) -> str:  # type: ignore[override]
        name: bytes = self._names[row]
        return name.decode()

    def row(self, name: object) -> int | None:
        """The first row with a name; None where there is none."""
        key = str(name).encode()
        # Of the width of all names, or numpy would make a wider copy of these for each that is looked up.
        place = np.searchsorted(self._names, np.array(key, self._names.dtype), sorter=self._order)
        row = int(self._order[place]) if place < len(self) else -1
        return row if row >= 0 and self._names[row] == key else None

    def __contains__(self, name: object) -> bool:
        return self.row(name) is not None


class FileTable(Mapping[str, StoredFile]):
    """Files by name: 24 bytes besides the packed name."""

    def __init__(self, files: Iterable[tuple[str, StoredFile]]) -> None:
        """Files with distinct names."""
        rest, parts, numbers = iter(files), list[Packed](), [np.zeros((0, 2), np.int64)]
        while part := list(islice(rest, PACKED_AT_ONCE)):
            parts.append(packed(name for name, _ in part))
            numbers.append(np.array([(file.size, (file.modified - EPOCH) // TICK) for _, file in part], np.int64))
        self._names, self._numbers = NameTable(parts), np.concatenate(numbers)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> StoredFile:
        row = self._names.row(name)
        if row is None:
            raise KeyError(name)
        size, modified = self._numbers[row].tolist()
        return StoredFile(size, EPOCH + modified * TICK)
