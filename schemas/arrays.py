"""Names of array types: what the entries are; each docstring that uses one says the shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
"""Numbers of things that stand in a list: words, features, classes."""
Mask = NDArray[np.bool_]
