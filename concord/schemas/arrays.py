"""Names of array types, by their entries; the docstring of each array gives its shape.

Arrays that cross from one part to another say the number of their axes as well: `Floats1d`, `Mask1d`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
"""Indices into a list, such as words, features or classes."""
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Records = NDArray[np.void]
"""Rows with named fields: the state of a kernel is one row, (1,), whose fields its class lists; see `record_type`."""

Floats1d = np.ndarray[tuple[int], np.dtype[np.float64]]
Floats2d = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Ints1d = np.ndarray[tuple[int], np.dtype[np.int64]]
Ids1d = np.ndarray[tuple[int], np.dtype[np.int32]]
Ids2d = np.ndarray[tuple[int, int], np.dtype[np.int32]]
Mask1d = np.ndarray[tuple[int], np.dtype[np.bool_]]


def record_type(*fields: tuple[str, str]) -> np.dtype[np.void]:
    """Type of rows with these fields (name, type), which are attributes in compiled kernels and in plain Python."""
    return np.dtype((np.record, list(fields)))
