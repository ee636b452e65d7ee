"""File of several arrays, one after another; a reader checks every byte before it trusts it.

Each array is in NumPy's own format, version 1.0. An ``.npz`` would not do: it holds the time of writing, so files of
equal arrays would not have equal hashes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?s:..)\{'descr': '([<|=][a-z]\d)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)
"""The only form of header that `write_arrays` makes. NumPy's own reader would evaluate a header and allocate the size
that it states."""

LONGEST_HEADER = 256


class ArraysFileError(ValueError):
    """A file does not hold the expected arrays; the message names the array and the fault."""


class ArrayKind(NamedTuple):
    """Expected form of an array in a file: its name (for messages), its dtype and its number of axes."""

    name: str
    dtype: str
    axes: int = 1


def write_arrays(path: Path, arrays: Iterable[NDArray[Any]]) -> None:
    """Writes arrays one after another; equal arrays give equal bytes."""
    with path.open("wb") as file:
        for array in arrays:
            np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)


def read_arrays(path: Path, kinds: Sequence[ArrayKind]) -> list[NDArray[Any]]:
    """Arrays of a file, one for each kind. Raises `ArraysFileError` where the file holds anything else."""
    data = path.read_bytes()
    arrays: list[NDArray[Any]] = []
    at = 0
    for kind in kinds:
        header = HEADER.match(data, at, at + LONGEST_HEADER)
        if header is None:
            raise ArraysFileError(f"array {kind.name!r} has no header at byte {at}")
        dtype = np.dtype(kind.dtype)
        shape = tuple(int(size) for size in header[2].replace(b" ", b"").split(b",") if size)
        if header[1].decode() != dtype.str or len(shape) != kind.axes:
            raise ArraysFileError(
                f"array {kind.name!r} is {header[1].decode()} of {len(shape)} axes, want {dtype.str} of {kind.axes}"
            )
        count, first = math.prod(shape), header.end()
        at = first + count * dtype.itemsize
        if at > len(data):
            raise ArraysFileError(f"array {kind.name!r} goes beyond the end of the file")
        # A copy, because the file's bytes are not aligned, and numba compiles kernels anew for unaligned arrays.
        arrays.append(np.frombuffer(data, dtype, count, first).reshape(shape).copy())
    if at != len(data):
        raise ArraysFileError(f"{len(data) - at} bytes after the last array")
    return arrays
