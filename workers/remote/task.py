"""What a task is: a pure function of a shard and of parts that all shards share. No Ray here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import U


class Parts(Protocol):
    """What all shards of a run share: pickled once, put into Ray's object store, fetched once a process."""

    @property
    def text(self) -> TextSettings:
        """How raw text is cut into tokens: shards are read by it."""
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
    """`Task.builds` of what makes nothing large of arrays."""
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
    """What of a result adds up over shards."""
    rehearse: Callable[[U, P], object]
    """Dry run: does the same work and writes nothing. It finds the document that kills a worker."""
    warm: Callable[[P], object]
    """Once a machine, before its workers start: compiles the kernels that ``run`` will need."""
    builds: Callable[[P], int] = no_more
    """Bytes that a process makes of shared arrays, see `workers.remote.memory`."""


AnyTask = Task[Any, Any, Any]


C = TypeVar("C")


def itself(result: C) -> C:
    """`Task.counts` of what adds up as it is."""
    return result


def nothing(parts: object) -> None:
    """`Task.warm` where no kernel is needed."""
