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

from concord.workers.compiling.kernel_folder import KernelFiles
from concord.workers.compiling.numba_internals import COMPILED, UNCOUNTED, WITHOUT_ENTRY_POINTS, kept_by, tell
from concord.workers.compiling.told import Compilations

Function = TypeVar("Function", bound=Callable[..., Any])

FILES = f"{KernelFiles.__module__}.{KernelFiles.__name__}"
"""Numba asks this class where a kernel is kept."""

OURS = "concord.workers."
"""How the names of modules with kernels of this project begin."""

_COMPILATIONS = Compilations()


def _began(function: Any) -> None:
    if function.__module__.startswith(OURS):
        _COMPILATIONS.began(f"{function.__module__}.{function.__name__}")


def _ended(function: Any) -> None:
    if function.__module__.startswith(OURS):
        _COMPILATIONS.ended()


tell(_began, _ended)


def _kept(**options: Any) -> Callable[[Function], Function]:
    """A decorator that keeps what it compiles where `KernelFiles` says; kernels of other projects stay where they are.

    To the type checker a kernel is the function that was written.
    """

    def compiled(function: Function) -> Function:
        with kept_by(FILES):
            kernel: Function = njit(**options)(function)
        return kernel

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
