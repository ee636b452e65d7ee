"""Shards counted in this process in the place of Ray's workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from concord.flows.work.done import After, Done, PoolWork
from concord.workers.corpus.plan import U
from concord.workers.remote.task import P, R, Task


class Here:
    """A cluster whose shard number ``broken`` of each go fails; the last shard comes first."""

    def __init__(self, broken: int | None) -> None:
        self.broken = broken

    def run(self, task: Task[U, P, R], shards: Sequence[U], parts: P) -> Iterator[Done[U, R]]:
        for i, shard in reversed(list(enumerate(shards))):
            yield Done(shard, None, "it burned") if i == self.broken else Done(shard, task.run(shard, parts))

    @contextmanager
    def pool(self, task: Task[U, P, R], parts: P, *, most: int) -> Iterator[PoolWork[U, R]]:
        def work(shards: Sequence[U], after: After[U, R] = lambda _done: []) -> Iterator[Done[U, R]]:
            while shards:
                more = list[U]()
                for done in self.run(task, shards, parts):
                    yield done
                    more += after(done)
                shards = more

        yield work
