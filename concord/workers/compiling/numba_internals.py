"""Uses of private names of numba and llvmlite, where there is no public way; no other module of the project has any.

They may move in any release; `tests/test_internals.py` tells when one has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from llvmlite.binding import get_host_cpu_name
from numba.core import config, event, types

Kernel = TypeVar("Kernel")

NUMBA: Any = config
"""Numba's settings, including those of the environment."""

_EVENTS: Any = event
_TYPES: Any = types

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


def once_for_all_numbers(kernel: Kernel) -> Kernel:
    """The kernel, which calls by other kernels compile once for whole numbers of any width, written out or not.

    Numba takes a number that is written in a call for a type of its own, and compiles the kernel and all that it calls
    once more for it: that was a sixth of the time to compile.
    """
    if NUMBA.DISABLE_JIT:
        return kernel
    of_types: Any = kernel
    template = of_types.get_call_template

    def of_wide_numbers(args: Any, kws: Any) -> Any:
        return template(tuple(map(_widest, args)), {name: _widest(kind) for name, kind in kws.items()})

    of_types.get_call_template = of_wide_numbers
    return kernel


def _widest(kind: Any) -> Any:
    return _TYPES.int64 if isinstance(kind, _TYPES.Integer) and kind.signed else _TYPES.unliteral(kind)
