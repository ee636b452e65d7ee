"""Shards counted in this process in the place of Ray's workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flows.cluster.pool import Done
from workers.corpus.shards import Shard
from workers.remote.task import P, R, Task


class Here:
    """A cluster whose shard number ``broken`` fails; the last shard comes first."""

    def __init__(self, broken: int | None) -> None:
        self.broken = broken

    def run(self, task: Task[P, R], shards: Sequence[Shard], parts: P) -> Iterator[Done[R]]:
        for i, shard in reversed(list(enumerate(shards))):
            yield Done(shard, None, "it burned") if i == self.broken else Done(shard, task.run(shard, parts))
