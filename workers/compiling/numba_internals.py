"""Uses of private names of numba and llvmlite, where there is no public way; no other module of the project has any.

They may move in any release; `tests/test_internals.py` tells when one has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite.binding import get_host_cpu_name
from numba.core import config, event

NUMBA: Any = config
"""Numba's settings, including those of the environment."""

_EVENTS: Any = event

COMPILE_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": True}
WITHOUT_ENTRY_POINTS: dict[str, Any] = COMPILE_OPTIONS | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
UNCOUNTED: dict[str, Any] = {"_nrt": False}
"""Without numba's runtime, which counts references; to make an array does not compile then."""


class _Teller(event.Listener):
    """Tells of each function that numba compiles: that it begins, and that it has ended."""

    def __init__(self, began: Callable[[Any], None], ended: Callable[[Any], None]) -> None:
        self._began, self._ended = began, ended

    def on_start(self, event: Any) -> None:
        self._began(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        self._ended(event.data["dispatcher"].py_func)


def tell(began: Callable[[Any], None], ended: Callable[[Any], None]) -> None:
    """From now on these are called with every function that numba compiles, before and after."""
    _EVENTS.register("numba:compile", _Teller(began, ended))


def processor_and_settings() -> str:
    """The processor that code is compiled for, and how numba is told to compile."""
    return repr((NUMBA.CPU_NAME or get_host_cpu_name(), NUMBA.CPU_FEATURES, NUMBA.OPT, NUMBA.BOUNDSCHECK))


def folder_given() -> str:
    """``NUMBA_CACHE_DIR``, empty where it is not set."""
    return str(NUMBA.CACHE_DIR)


@contextmanager
def kept_by(locator: str) -> Iterator[None]:
    """Context manager: functions decorated in the block are cached where the class of this dotted name says."""
    elsewhere = NUMBA.CACHE_LOCATOR_CLASSES
    NUMBA.CACHE_LOCATOR_CLASSES = locator
    try:
        yield
    finally:
        NUMBA.CACHE_LOCATOR_CLASSES = elsewhere
