"""What holds of every compiled kernel."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from numba.core.dispatcher import Dispatcher

import workers


def kernels() -> Iterator[Dispatcher]:
    """All kernels of the project, each once."""
    for found in pkgutil.walk_packages(workers.__path__, "workers."):
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == found.name:
                yield value


KERNELS = {f"{kernel.py_func.__module__}.{kernel.py_func.__name__}": kernel for kernel in kernels()}
GENERIC = {"copy_to", "_mix", "_hash", "hash_runs"}
"""Kernels that take arrays or numbers of several types."""

IN_PLACE = sorted(name for name, kernel in KERNELS.items() if kernel.targetoptions.get("_nrt") is False)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernels_say_whether_references_are_counted(name: str) -> None:
    """Who does not say takes the option of the first kernel that calls it."""
    assert "_nrt" in KERNELS[name].targetoptions


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_is_in_place_calls_only_what_is(name: str) -> None:
    """An array that another kernel returned would never be freed."""
    code, known = KERNELS[name].py_func.__code__, KERNELS[name].py_func.__globals__
    called = [known[used] for used in code.co_names if isinstance(known.get(used), Dispatcher)]
    apart = [other for other in called if other.targetoptions.get("inline") != "always"]
    assert not [other.py_func.__name__ for other in apart if other.targetoptions["_nrt"]]


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_kernels_say_what_they_take(name: str) -> None:
    """A type checker knows what a kernel does with the fields of a tuple then."""
    function = KERNELS[name].py_func
    taken = {key for key, kind in function.__annotations__.items() if kind == "Any" and key != "return"}
    assert not taken or function.__name__ in GENERIC
