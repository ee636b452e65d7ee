"""Checks with messages: a plain ``assert`` in a package does not say what it found."""

from __future__ import annotations

from typing import Any

import numpy as np


def expect(holds: object, promise: str) -> None:
    """Raises `AssertionError` with the promise that was broken."""
    if not holds:
        raise AssertionError(promise)


def expect_same(actual: Any, expected: Any, promise: str) -> None:
    """Raises `AssertionError` with the promise and both values if they differ; arrays are compared by elements."""
    same = np.array_equal(actual, expected) if isinstance(expected, np.ndarray) else actual == expected
    if not same:  # arrays take long to be written out
        raise AssertionError(f"{promise}: found {actual!r}, want {expected!r}")


def expect_near(actual: float, expected: float, tolerance: float, promise: str) -> None:
    """Raises `AssertionError` if two numbers differ by more than ``tolerance``; infinities have to be equal."""
    expect(actual == expected or abs(actual - expected) <= tolerance, f"{promise}: found {actual!r}, want {expected!r}")
