"""Files of words of others, which may be packed by gzip."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from concord.schemas.errors import InputError


@contextmanager
def unpacked(file: Path, error: type[InputError]) -> Iterator[gzip.GzipFile | IO[bytes]]:
    """The bytes of a file, unpacked if its name ends in ``.gz``.

    Raises ``error`` where they cannot be unpacked, and `OSError`.
    """
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as content:
            yield content
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        raise error(f"{file}: cannot be unpacked ({fault}); was the file cut?") from fault
