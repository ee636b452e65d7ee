"""How numba kernels are compiled: kept on disk between processes, and without the interpreter's lock.

An ``inner`` kernel is called by other kernels only. Entry points from Python and C unpack every array of a
state, and took a quarter of the compile time.

A kernel ``in_place`` makes no arrays and returns none, nor does any kernel that it calls. Elsewhere numba counts
references to each array of a tuple whenever it is looked at, one atomic step for each, which took half of the
time on novels; here all arrays are the caller's. The option has to be set everywhere: a kernel without it
takes that of whichever kernel was first to call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core import event

from concord.workers.compiling.kernel_folder import NUMBA, KernelFiles
from concord.workers.compiling.told import Compilations

Function = TypeVar("Function", bound=Callable[..., Any])

FILES = f"{KernelFiles.__module__}.{KernelFiles.__name__}"
"""Numba asks this class where a kernel is kept."""

COMPILED: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": True}
WITHOUT_ENTRY_POINTS: dict[str, Any] = COMPILED | {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
UNCOUNTED: dict[str, Any] = {"_nrt": False}
"""Without numba's runtime, which counts references; to make an array does not compile then."""


OURS = "concord.workers."
"""How the names of modules with kernels of this project begin."""


class _Teller(event.Listener):
    """Tells of the kernels of this project that numba compiles."""

    def __init__(self) -> None:
        self._compilations = Compilations()

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith(OURS):
            self._compilations.began(f"{function.__module__}.{function.__name__}")

    def on_end(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith(OURS):
            self._compilations.ended()


EVENTS: Any = event
EVENTS.register("numba:compile", _Teller())


def _kept(**options: Any) -> Callable[[Function], Function]:
    """A decorator that keeps what it compiles where `KernelFiles` says; kernels of other projects stay where they are.

    To the type checker a kernel is the function that was written.
    """

    def compiled(function: Function) -> Function:
        elsewhere = NUMBA.CACHE_LOCATOR_CLASSES
        NUMBA.CACHE_LOCATOR_CLASSES = FILES
        try:
            kernel: Function = njit(**options)(function)
            return kernel
        finally:
            NUMBA.CACHE_LOCATOR_CLASSES = elsewhere

    return compiled


kernel = _kept(**COMPILED)
kernel_in_place = _kept(**COMPILED | UNCOUNTED)
inner = _kept(**WITHOUT_ENTRY_POINTS)
inner_in_place = _kept(**WITHOUT_ENTRY_POINTS | UNCOUNTED)
inlined = _kept(**COMPILED, inline="always")


@inner_in_place
def copy_to(target: Any, source: Any) -> None:
    """Writes ``source`` into ``target`` (N,): assigning one slice to another makes an array on the way."""
    for i in range(len(target)):
        target[i] = source[i]
