"""What holds of every compiled kernel."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from numba.core.dispatcher import Dispatcher

import concord.workers
from concord.workers.compiling import definitions


def kernels() -> Iterator[Dispatcher]:
    """All kernels of the project, each once."""
    for found in pkgutil.walk_packages(concord.workers.__path__, "concord.workers."):
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == found.name:
                yield value


KERNELS = {f"{kernel.py_func.__module__}.{kernel.py_func.__name__}": kernel for kernel in kernels()}
GENERIC = {"copy_to", "_mix", "_hash", "hash_runs"}
"""Kernels that take arrays or numbers of several types."""

IN_PLACE = sorted(name for name, kernel in KERNELS.items() if kernel.targetoptions.get("_nrt") is False)


def test_kernels_say_whether_references_are_counted() -> None:
    """Who does not say takes the option of the first kernel that calls it."""
    assert not [name for name, kernel in KERNELS.items() if "_nrt" not in kernel.targetoptions]


def test_what_is_in_place_calls_only_what_is() -> None:
    """An array that another kernel returned would never be freed."""
    assert len(IN_PLACE) > 100
    for name in IN_PLACE:
        code, known = KERNELS[name].py_func.__code__, KERNELS[name].py_func.__globals__
        called = [known[used] for used in code.co_names if isinstance(known.get(used), Dispatcher)]
        apart = [other for other in called if other.targetoptions.get("inline") != "always"]
        assert not [other.py_func.__name__ for other in apart if other.targetoptions["_nrt"]], name


def test_what_a_kernel_may_hold_is_found_by_reading() -> None:
    """Of every kernel: all that the running function can reach, constants and kernels, is among its definitions."""
    assert {f"{module}.{name}" for module, name in definitions.kernels()} == set(KERNELS)
    for name, kernel in KERNELS.items():
        module, _, function = name.rpartition(".")
        held = definitions.definitions_behind(module, function)
        for found in reached(kernel):
            assert found in held, (name, found)


def reached(kernel: Dispatcher) -> set[tuple[str, str]]:
    """Modules and names that a kernel, and the kernels that it calls, look up when they are compiled."""
    found: set[tuple[str, str]] = set()
    waiting = [kernel.py_func]
    while waiting:
        function = waiting.pop()
        for name in {*function.__code__.co_names, *function.__annotations__.values()} & set(function.__globals__):
            if (function.__module__, name) not in found:
                found.add((function.__module__, name))
                value = function.__globals__[name]
                if isinstance(value, Dispatcher):
                    found.add((value.py_func.__module__, value.py_func.__name__))
                    waiting.append(value.py_func)
                elif isinstance(value, type) and value.__module__.startswith(("concord.schemas.", "concord.workers.")):
                    found.add((value.__module__, value.__name__))
    return found


def test_kernels_say_what_they_take() -> None:
    """A type checker knows what a kernel does with the fields of a tuple then."""
    for name, kernel in KERNELS.items():
        function = kernel.py_func
        taken = {key for key, kind in function.__annotations__.items() if kind == "Any" and key != "return"}
        assert not taken or function.__name__ in GENERIC, name
