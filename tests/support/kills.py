"""A piece of work whose disk fails it before any one of its changes: it is killed there, or the disk is full."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from concord.schemas.errors import InputError

FREEING = ("os.rename", "os.remove", "os.rmdir")
"""Changes that need no room."""


def killed_before(step: int, work: Callable[[], Any]) -> bool:
    """Does ``work`` in a process of its own that is killed before its ``step``-th change of the disk: was it?"""
    code, _ = _forked(step, work, lambda _: os._exit(9))
    return code == 9


def full_before(step: int, work: Callable[[], Any]) -> str:
    """Does ``work`` in a process of its own for which the disk is full from its ``step``-th change on: what it says.

    What is there can still be renamed and removed.
    """
    return _forked(step, work, _full)[1]


@contextmanager
def full_disk(*, after: int) -> Iterator[None]:
    """No file may grow beyond so many bytes, for the length of the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _full(event: str) -> None:
    if event not in FREEING:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _forked(step: int, work: Callable[[], Any], fail: Callable[[str], Any]) -> tuple[int, str]:
    """How the process ended, and what it said; ``fail`` is told of each change from the ``step``-th on."""
    come, go = os.pipe()
    pid = os.fork()
    if pid:
        os.close(go)
        with os.fdopen(come, encoding="utf-8") as said:
            text = said.read()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text
    left = step

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa")
        if writes or event in ("os.mkdir", "os.link", "os.symlink", *FREEING):
            left -= 1
            if left <= 0:
                fail(event)

    code = 1
    try:
        sys.addaudithook(hook)
        work()
        code = 0
    except (OSError, InputError) as error:
        os.write(go, str(error).encode())
    finally:
        os._exit(code)
