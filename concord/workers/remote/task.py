"""Contract of tasks: a task is a pure function of a shard and of parts that all shards share. No Ray here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import U


class Parts(Protocol):
    """Data that all shards of a run share: pickled once, put into Ray's object store, fetched once by each process."""

    @property
    def text(self) -> TextSettings:
        """Settings of raw text, by which shards are read."""
        ...


class Mergeable(Protocol):
    """Counts that add up: `merge` is associative, and no parts at all are its neutral element."""

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """The counts of all parts together."""
        ...


P = TypeVar("P", bound=Parts)
R = TypeVar("R")


def no_more(_: object) -> int:
    """`Task.builds` of a task that builds nothing large from shared arrays."""
    return 0


@dataclass(frozen=True)
class Task(Generic[U, P, R]):
    """Work on shards, or on other units, that the pool can hand out: an entry of `TASKS`.

    ``run`` gives the same result for the same shard and parts wherever and how often it runs; what it writes, it writes
    so that a second time changes nothing. The rows in `Shard.lethal` are rejects to it, as `read_batch` makes them.
    Rows that it cannot use are counted, and what it raises fails the shard alone.
    """

    name: str
    parts: type[P]
    run: Callable[[U, P], R]
    counts: Callable[[R], Mergeable]
    """Extracts the counts of a result, which add up over shards."""
    rehearse: Callable[[U, P], object]
    """Dry run: does the same work and writes nothing. It finds the document that kills a worker."""
    warm: Callable[[P], object]
    """Compiles the kernels that ``run`` will need; called once on each machine, before its workers start."""
    builds: Callable[[P], int] = no_more
    """Bytes that a process allocates for structures built from shared arrays, see `workers.remote.memory`."""


AnyTask = Task[Any, Any, Any]


C = TypeVar("C")


def itself(result: C) -> C:
    """`Task.counts` of a task whose results are counts themselves."""
    return result


def nothing(parts: object) -> None:
    """`Task.warm` where no kernel is needed."""
