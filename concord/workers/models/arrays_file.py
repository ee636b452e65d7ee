"""File of several arrays, one after another; a reader checks every byte before it trusts it.

Each array is in NumPy's own format, version 1.0. An ``.npz`` would not do: it holds the time of writing, so files of
equal arrays would not have equal hashes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.potentials import LARGEST_WEIGHT

HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?s:..)\{'descr': '([<|=][a-z]\d)', 'fortran_order': False, 'shape': \(([\d, ]*)\), \} *\n"
)
"""The only form of header that `write_arrays` makes. NumPy's own reader would evaluate a header and allocate the size
that it states."""

LONGEST_HEADER = 256


class ArraysFileError(ValueError):
    """A file does not hold the expected arrays; the message names the array and the fault."""


class ArrayValues(NamedTuple):
    """Values that an array may hold: what one of them is called, and a function that says whether all are such."""

    name: str
    hold: Callable[[NDArray[Any]], np.bool_]


SCORES = ArrayValues(
    f"number of at most {LARGEST_WEIGHT:g} nats", lambda array: np.abs(array).max(initial=0.0) <= LARGEST_WEIGHT
)
LOG_PROBABILITIES = ArrayValues("log probability", lambda array: ((array <= 0.0) & (array >= -LARGEST_WEIGHT)).all())
TRUTHS = ArrayValues("truth value", lambda array: array.view(np.uint8).max(initial=0) <= 1)


class ArrayKind(NamedTuple):
    """Expected form of an array in a file.

    - ``name``: what messages call it.
    - ``dtype``: its dtype.
    - ``axes``: what each axis counts; axes of one name have one size.
    - ``values``: values that it may hold; None: what is in it is checked elsewhere.
    """

    name: str
    dtype: str
    axes: tuple[str, ...]
    values: ArrayValues | None = None


def write_arrays(path: Path, arrays: Iterable[NDArray[Any]]) -> None:
    """Writes arrays one after another; equal arrays give equal bytes."""
    with path.open("wb") as file:
        for array in arrays:
            np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)


def read_arrays(path: Path, kinds: Sequence[ArrayKind], **sizes: int) -> list[NDArray[Any]]:
    """Arrays of a file, one for each kind.

    ``sizes`` are those of axes by name; an axis that is not among them has its size from the first array that has it.
    Raises `ArraysFileError` where the file holds anything else.
    """
    data = path.read_bytes()
    arrays: list[NDArray[Any]] = []
    at = 0
    for kind in kinds:
        header = HEADER.match(data, at, at + LONGEST_HEADER)
        if header is None:
            raise ArraysFileError(f"array {kind.name!r} has no header at byte {at}")
        dtype, axes = np.dtype(kind.dtype), len(kind.axes)
        shape = tuple(int(size) for size in header[2].replace(b" ", b"").split(b",") if size)
        if header[1].decode() != dtype.str or len(shape) != axes:
            raise ArraysFileError(
                f"array {kind.name!r} is {header[1].decode()} of {len(shape)} axes, want {dtype.str} of {axes}"
            )
        count, first = math.prod(shape), header.end()
        at = first + count * dtype.itemsize
        if at > len(data):
            raise ArraysFileError(f"array {kind.name!r} goes beyond the end of the file")
        # A copy, because the file's bytes are not aligned, and numba compiles kernels anew for unaligned arrays.
        arrays.append(np.frombuffer(data, dtype, count, first).reshape(shape).copy())
    if at != len(data):
        raise ArraysFileError(f"{len(data) - at} bytes after the last array")
    for kind, array in zip(kinds, arrays, strict=True):
        _check(kind, array, sizes)
    return arrays


def _check(kind: ArrayKind, array: NDArray[Any], sizes: dict[str, int]) -> None:
    """Checks shape and values of an array, and adds the sizes of its new axes to ``sizes``."""
    want = tuple(sizes.setdefault(axis, size) for axis, size in zip(kind.axes, array.shape, strict=True))
    if array.shape != want:
        raise ArraysFileError(f"array {kind.name!r} is {array.shape}, want {want}")
    if kind.values is not None and not kind.values.hold(array):
        raise ArraysFileError(f"array {kind.name!r} has what is no {kind.values.name}")
