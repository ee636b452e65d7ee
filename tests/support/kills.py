"""A piece of work whose storage fails it before any one of its changes: it is killed there, or the disk is full."""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from concord.schemas.errors import InputError
from concord.workers.storage.object_storage import ObjectStorage

FREEING = ("os.rename", "os.remove", "os.rmdir")
"""Changes that need no room."""
CHANGING = ("os.mkdir", "os.link", "os.symlink", *FREEING)
"""Changes of a disk, as audit hooks are told of them, beside opening for writing."""
ROOT = Path("/")
NEVER = sys.maxsize
"""The step of work that nothing fails."""
REQUESTS = ("write", "replace", "copy", "remove")
"""Methods of `ObjectStorage` that change it."""


class Killed(BaseException):
    """In the place of SIGKILL, where a process of its own would not see a store in memory: nothing catches it."""


def is_change(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether an audit hook's event changes a disk."""
    if event != "open":
        return event in CHANGING
    _, mode, flags = arguments
    return bool(set(mode) & set("wxa")) if isinstance(mode, str) else bool(flags & (os.O_WRONLY | os.O_RDWR))


def killed_before(step: int, work: Callable[[], Any], below: Path = ROOT) -> bool:
    """Does ``work`` in a process of its own that is killed before its ``step``-th change below a folder: was it?"""
    code, _ = _forked(step, work, lambda _: os._exit(9), below)
    return code == 9


def killed_here(step: int, work: Callable[[], Any], below: Path) -> bool:
    """Does ``work`` up to its ``step``-th change below a folder: was it killed? It does none after.

    In this process, for libraries that do not outlive a fork.
    """
    left = step

    def dying(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if is_change(event, arguments) and any(str(part).startswith(str(below)) for part in arguments[:2]):
            left -= 1
            if left <= 0:
                raise Killed

    listeners = _audit_listeners()
    listeners.append(dying)
    try:
        work()
    except Killed:
        return True
    finally:
        listeners.clear()
    return False


@cache
def _audit_listeners() -> list[Callable[[str, tuple[Any, ...]], None]]:
    """Who is told of audit events: the hook itself stays as long as the process."""
    listeners = list[Callable[[str, tuple[Any, ...]], None]]()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        for listener in listeners:
            listener(event, arguments)

    sys.addaudithook(hook)
    return listeners


def killed_before_request(step: int, work: Callable[[], Any]) -> bool:
    """Does ``work`` up to its ``step``-th request that changes an object store: was it killed? It does none after."""
    left = step

    def dying(request: Callable[..., Any]) -> Callable[..., Any]:
        def requested(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed
            return request(*given, **named)

        return requested

    with ExitStack() as stack:
        for name in REQUESTS:
            stack.enter_context(patch.object(ObjectStorage, name, dying(getattr(ObjectStorage, name))))
        try:
            work()
        except Killed:
            return True
        return False


def full_before(step: int, work: Callable[[], Any], below: Path = ROOT) -> str:
    """Does ``work`` in a process of its own, and says what it says.

    From its ``step``-th change below a folder on the disk is full. What is there can still be renamed and removed.
    """
    return _forked(step, work, _full, below)[1]


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


class Change(NamedTuple):
    """A change of a disk: the event, and what is changed."""

    event: str
    path: str


def changes_of(work: Callable[[], Any], below: Path) -> list[Change]:
    """Does ``work`` in a process of its own: its changes below a folder. Nothing may fail it."""
    code, said = _forked(NEVER, work, lambda _: None, below)
    assert code == 0, said
    return [Change(*line) for line in json.loads(said)]


def _forked(step: int, work: Callable[[], Any], fail: Callable[[str], Any], below: Path) -> tuple[int, str]:
    """How the process ended, and what it said; ``fail`` is told of changes below a folder, from the ``step``-th on."""
    come, go = os.pipe()
    pid = os.fork()
    if pid:
        os.close(go)
        with os.fdopen(come, encoding="utf-8") as said:
            text = said.read()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text
    met: list[Change] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if is_change(event, arguments) and any(str(part).startswith(str(below)) for part in arguments[:2]):
            met.append(Change(event, str(arguments[0])))
            if len(met) >= step:
                fail(event)

    code = 1
    try:
        sys.addaudithook(hook)
        work()
        os.write(go, json.dumps(met).encode() if step == NEVER else b"")
        code = 0
    except (OSError, InputError) as error:
        os.write(go, str(error).encode())
    finally:
        os._exit(code)
