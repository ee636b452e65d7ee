"""Shards that workers have done. Importing this imports no Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, NamedTuple, Protocol

from concord.schemas.secrets import redact
from concord.workers.corpus.plan import U
from concord.workers.remote.task import P, R, Task


class Done(NamedTuple, Generic[U, R]):
    """A shard (or another unit) that came back.

    - ``result``: its result; None if it failed.
    - ``error``: reason of the failure.
    """

    shard: U
    result: R | None
    error: str | None = None

    @property
    def failure(self) -> str:
        """Name of the unit and reason of its failure, for people."""
        return redact(f"{self.shard.place}: {self.error}")


After = Callable[[Done[U, R]], Sequence[U]]
"""Shards to do as well when one has come back."""


class PoolWork(Protocol[U, R]):
    """Does shards on a pool of workers, see `flows.cluster.cluster.Cluster.run`."""

    def __call__(self, shards: Sequence[U], after: After[U, R] = ...) -> Iterator[Done[U, R]]:
        """Does shards, and those that ``after`` adds when one of them has come back."""
        ...


class Workers(Protocol):
    """What does the shards of a run: Ray's actors, or this process."""

    @property
    def workers(self) -> int:
        """Number of shards that are done at once."""
        ...

    def run(self, task: Task[U, P, R], shards: Sequence[U], parts: P) -> Iterator[Done[U, R]]:
        """Does a task on shards. Yields each when it ends."""
        ...

    def pool(self, task: Task[U, P, R], parts: P, *, most: int) -> AbstractContextManager[PoolWork[U, R]]:
        """`run` for several groups of shards (of at most ``most`` each) by the same workers."""
        ...


def no_more(done: Done[Any, Any]) -> Sequence[Any]:
    """`After` where no shard leads to others."""
    del done
    return []


def reason(error: BaseException) -> str:
    """Error of a worker in one line, without Ray's wrapping and traceback."""
    cause = getattr(error, "cause", None)
    if cause is not None:
        return f"{type(cause).__name__}: {' '.join(str(cause).split())}"
    # Of a dead actor Ray tells the whole traceback; its last line says what happened.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"
