"""The Ray actor around `label_shard`: one a process, the model shared where Ray can share it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ray

from schemas.document import Document
from schemas.run import RunKey, ShardResult
from workers.compiling.code import code_digest
from workers.constraints.constraint_set import ConstraintSet
from workers.corpus.shards import Shard, read_batch
from workers.labelling.labelled import label_batch
from workers.labelling.shard import label_shard
from workers.labelling.warming import warm
from workers.models.model import Model


class CodeMismatchError(RuntimeError):
    """A worker would run other code than the driver's."""


def check_code(expected: str) -> None:
    """Raises `CodeMismatchError` where this process runs other code than the driver."""
    here = code_digest()
    if here != expected:
        raise CodeMismatchError(
            f"worker {os.uname().nodename} runs concord code {here[:12]} from {Path(__file__).parents[2]}, "
            f"the driver runs {expected[:12]}; install the same version on every node"
        )


class Shared(NamedTuple):
    """What all shards of a run share, fetched from Ray's object store once a process."""

    model: Model
    constraints: ConstraintSet
    key: RunKey
    store: Path


class ShardWorker:
    """Labels one shard a call.

    Ray restarts none and repeats no call: which shard a dead one was at is for the driver to know, which gives it to
    another one. A shard may be labelled twice, its write is idempotent.
    """

    def __init__(self, code: str) -> None:
        """Raises `CodeMismatchError` before anything is done with other code."""
        check_code(code)
        self._shared: Shared | None = None

    def ready(self, shared: Sequence[Any]) -> int:
        """The process id, once the model is there."""
        self._fetch(shared)
        return os.getpid()

    def label(self, shard: Shard, shared: Sequence[Any]) -> ShardResult:
        """See `label_shard`."""
        model, constraints, key, store = self._fetch(shared)
        return label_shard(shard, model=model, constraints=constraints, key=key, store=store)

    def rehearse(self, shard: Shard, shared: Sequence[Any]) -> None:
        """Labels the rows and writes nothing, for who wants to know whether the process lives through it."""
        model, constraints, key, _ = self._fetch(shared)
        batch, _ = read_batch(shard, text=key.settings.text)
        label_batch(batch, model=model, constraints=constraints, settings=key.settings)

    def _fetch(self, shared: Sequence[Any]) -> Shared:
        if self._shared is None:
            self._shared = Shared(*ray.get(list(shared)))
        return self._shared


def actor_class(*, memory: int) -> Any:
    """`ShardWorker` as a Ray actor class on one CPU; ``memory`` is in bytes."""
    decorate = ray.remote(num_cpus=1, memory=memory, max_restarts=0, max_task_retries=0)
    return decorate(ShardWorker)


def warm_node(model: Model, constraints: ConstraintSet, key: RunKey, sample: Document) -> str:
    """Compiles or loads every numba kernel once on a node, before its actors race for the cache; see `warm`."""
    check_code(key.code)
    warm(sample, model=model, constraints=constraints, settings=key.settings)
    return os.uname().nodename
