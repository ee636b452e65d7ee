"""Decorators of numba kernels: compiled code is cached on disk between processes, and runs without the GIL.

``inner``: for kernels that only other kernels call. They have no entry points from Python and C, which unpack every
array of a state and took a quarter of the compile time.

``in_place``: for kernels that make no arrays and return none, nor do the kernels that they call; all arrays belong to
the caller. Otherwise numba counts references to each array of a tuple at every access, by an atomic step each, which
took half of the time on novels. The option has to be set everywhere: a kernel without it takes that of whichever kernel
was first to call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

from concord.workers.compiling.kernel_folder import KernelFiles
from concord.workers.compiling.numba_internals import (
    COMPILE_OPTIONS,
    UNCOUNTED,
    WITHOUT_ENTRY_POINTS,
    kept_by,
    once_for_all_numbers,
    tell,
)
from concord.workers.compiling.told import Compilations

Function = TypeVar("Function", bound=Callable[..., Any])

FILES = f"{KernelFiles.__module__}.{KernelFiles.__name__}"
"""Dotted name of the class that tells numba where a kernel is cached."""

WORKERS_PREFIX = "concord.workers."
"""Start of the names of this project's modules with kernels."""

_COMPILATIONS = Compilations()


def _began(function: Any) -> None:
    if function.__module__.startswith(WORKERS_PREFIX):
        _COMPILATIONS.began(f"{function.__module__}.{function.__name__}")


def _ended(function: Any) -> None:
    if function.__module__.startswith(WORKERS_PREFIX):
        _COMPILATIONS.ended()


tell(_began, _ended)


def _kept(typed: Callable[[Any], Any], **options: Any) -> Callable[[Function], Function]:
    """Decorator that compiles a kernel and caches it where `KernelFiles` says; other projects' kernels stay elsewhere.

    ``typed`` decides for which types calls compile it. Like the options it is named where a decorator is made: what is
    named there is in the digests of kernels (`definitions`).

    To the type checker a kernel has the type of the function as written.
    """

    def compiled(function: Function) -> Function:
        with kept_by(FILES):
            kernel: Function = typed(njit(**options)(function))
        return kernel

    return compiled


kernel = _kept(once_for_all_numbers, **COMPILE_OPTIONS)
kernel_in_place = _kept(once_for_all_numbers, **COMPILE_OPTIONS | UNCOUNTED)
inner = _kept(once_for_all_numbers, **WITHOUT_ENTRY_POINTS)
inner_in_place = _kept(once_for_all_numbers, **WITHOUT_ENTRY_POINTS | UNCOUNTED)
inlined = _kept(once_for_all_numbers, **COMPILE_OPTIONS, inline="always")


@inner_in_place
def copy_to(target: Any, source: Any) -> None:
    """Writes ``source`` into ``target`` (N,): assigning one slice to another makes an array on the way."""
    for i in range(len(target)):
        target[i] = source[i]
