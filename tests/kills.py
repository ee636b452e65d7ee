"""A piece of work killed before any one of its changes of the disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any


def killed_before(step: int, work: Callable[[], Any]) -> bool:
    """Does ``work`` in a process of its own that is killed before its ``step``-th change of the disk: was it?"""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    left = step

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa")
        if writes or event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir"):
            left -= 1
            if not left:
                os._exit(9)

    code = 1
    try:
        sys.addaudithook(hook)
        work()
        code = 0
    finally:
        os._exit(code)
