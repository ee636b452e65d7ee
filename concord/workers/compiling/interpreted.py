"""Running kernels as plain Python, for checks that must not rest on compiled code (`concord verify`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

_INTERPRETED = ContextVar("interpreted", default=False)


@contextmanager
def interpreted() -> Iterator[None]:
    """Context manager in which `runnable` gives the Python function of a kernel instead of the compiled one."""
    before = _INTERPRETED.set(True)
    try:
        with np.errstate(over="ignore"):  # hashes overflow, which compiled code does not speak of
            yield
    finally:
        _INTERPRETED.reset(before)


def runnable(kernel: Function) -> Function:
    """The kernel itself, or inside `interpreted` the same lines uncompiled."""
    function: Function = kernel.py_func if _INTERPRETED.get() else kernel  # type: ignore[attr-defined]
    return function
