"""The work of a cluster in this process: nothing starts and nothing is sent. Importing this imports no Ray."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

from concord.flows.environment import ANY_PROCESSOR
from concord.flows.work.done import After, Done, PoolWork, no_more, reason
from concord.schemas.errors import USERS_FUNCTION_RAISES, UsageError
from concord.workers.corpus.plan import U
from concord.workers.remote.task import P, R, Task


class InProcess:
    """Does tasks on shards, one after another, in the place of `flows.cluster.cluster.Cluster`.

    Results are those of workers: with one thread, and kernels for any processor. A document that ends the process ends
    the run.
    """

    workers = 1

    def __init__(self) -> None:
        """Raises `UsageError` in a process whose kernels are for its own processor alone."""
        if not same_kernels():
            variables = " ".join(f"{name}={value}" for name, value in ANY_PROCESSOR.items())
            raise UsageError(
                f"workers 0: this process compiles for its own processor, so its answers could differ from those of "
                f"workers in their last digits; set {variables} before Python starts, or give another number of workers"
            )

    def run(self, task: Task[U, P, R], shards: Sequence[U], parts: P) -> Iterator[Done[U, R]]:
        """As `Cluster.run`: a shard that fails is yielded with its error, and the others go on."""
        from threadpoolctl import threadpool_limits  # its import sets a variable of the environment

        for shard in shards:
            # What a user's part prints is not the command's answer.
            with threadpool_limits(1), redirect_stdout(sys.stderr):
                done = _done(task, shard, parts)
            yield done

    @contextmanager
    def pool(self, task: Task[U, P, R], parts: P, *, most: int) -> Iterator[PoolWork[U, R]]:
        """As `Cluster.pool`."""
        del most

        def work(shards: Sequence[U], after: After[U, R] = no_more) -> Iterator[Done[U, R]]:
            waiting = list(shards)
            while waiting:
                for done in self.run(task, [waiting.pop(0)], parts):
                    yield done
                    waiting += after(done)

        yield work


def _done(task: Task[U, P, R], shard: U, parts: P) -> Done[U, R]:
    try:
        return Done(shard, task.run(shard, parts))
    except USERS_FUNCTION_RAISES as error:  # of a user's model or template, too: it fails the shard alone
        return Done(shard, None, reason(error))


def same_kernels() -> bool:
    """Are kernels of this process the ones that workers compile?"""
    return all(os.environ.get(name) == value for name, value in ANY_PROCESSOR.items())
