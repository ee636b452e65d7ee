"""Ray actor that does a task: one in each process, which fetches the shared parts once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import ray

from concord.workers.compiling.kept_digests import workers_digest
from concord.workers.compiling.told import Compiling, listening
from concord.workers.corpus.plan import Unit
from concord.workers.parts import foreign_packages
from concord.workers.remote.registry import TASKS

TELL_SECONDS = 1.0
"""Seconds between a node's reports of what it compiles."""


class CodeMismatchError(RuntimeError):
    """A worker has other code than the driver."""


def check_code(expected: str) -> None:
    """Raises `CodeMismatchError` where this process runs other code than the driver."""
    here = workers_digest()
    if here != expected:
        raise CodeMismatchError(
            f"worker {os.uname().nodename} runs concord code {here[:12]} from {Path(__file__).parents[2]}, "
            f"the driver runs {expected[:12]}; install the same version on every node, and the same packages with "
            f"parts for it: here {', '.join(map(str, foreign_packages())) or 'none'}"
        )


class ShardWorker:
    """Actor that does a task, one shard in a call.

    The shared parts come as a list of one object reference, because Ray does not resolve references inside a list.
    Ray restarts no actor and repeats no call: the driver knows which shard a dead worker had, and gives it to another
    one. So a shard may be done twice.
    """

    def __init__(self, task: str, code: str) -> None:
        """Raises `CodeMismatchError` before anything is done with other code."""
        check_code(code)
        self._task = TASKS[task]
        self._parts: Any = None

    def ready(self, shared: Sequence[Any]) -> str:
        """Id of this node, once the parts are there."""
        self._fetch(shared)
        return str(ray.get_runtime_context().get_node_id())

    def run(self, shard: Unit, shared: Sequence[Any]) -> Any:
        """See `Task.run`."""
        return self._task.run(shard, self._fetch(shared))

    def rehearse(self, shard: Unit, shared: Sequence[Any]) -> None:
        """See `Task.rehearse`; its result stays here."""
        self._task.rehearse(shard, self._fetch(shared))

    def _fetch(self, shared: Sequence[Any]) -> Any:
        if self._parts is None:
            (self._parts,) = ray.get(list(shared))
        return self._parts


def actor_class(*, memory: int) -> Any:
    """`ShardWorker` as a Ray actor class on one CPU; ``memory`` is in bytes."""
    decorate = ray.remote(num_cpus=1, memory=memory, max_restarts=0, max_task_retries=0)
    return decorate(ShardWorker)


def warm_node(task: str, code: str, shared: Sequence[Any]) -> Iterator[Compiling]:
    """Compiles or loads every numba kernel once on a node, before its actors race for the cache; see `Task.warm`.

    Yields the kernel that is being compiled, every `TELL_SECONDS`.
    """
    check_code(code)
    (parts,) = ray.get(list(shared))
    heard: deque[Compiling] = deque(maxlen=1)
    with listening(heard.append), ThreadPoolExecutor(1) as thread:
        warming = thread.submit(TASKS[task].warm, parts)
        while wait([warming], timeout=TELL_SECONDS).not_done:
            if heard:
                yield heard.pop()
        warming.result()
