"""Compile options of kernels that only other kernels call."""

from __future__ import annotations

from typing import Any

from numba import njit

WITHOUT_ENTRY_POINTS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Entry points from Python and C unpack every array of a state, and took a quarter of the compile time."""

inner = njit(**WITHOUT_ENTRY_POINTS)
"""``njit`` for a kernel that Python never calls."""
