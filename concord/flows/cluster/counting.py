"""A task on all shards, for its counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from concord.flows.errors import failed_message
from concord.flows.screen.progress import meter
from concord.flows.work.done import Workers
from concord.schemas.errors import ShardsError
from concord.workers.corpus.plan import distinct
from concord.workers.corpus.shards import Shard
from concord.workers.remote.task import Mergeable, Parts, Task

P = TypeVar("P", bound=Parts)
M = TypeVar("M", bound=Mergeable)


def count(
    running: Workers, task: Task[Shard, P, M], shards: Sequence[Shard], parts: P, *, title: str
) -> tuple[list[M], list[str]]:
    """Results of the shards that did not fail, in order, and reasons of the other ones.

    Shards of equal rows are done once, and count as often as they occur. Raises the errors of `Workers.run`.
    """
    todo, errors = distinct(shards), list[str]()
    done: dict[str, M] = {}
    with meter(title, sum(shard.rows for shard in todo)) as bar:
        for answer in running.run(task, todo, parts):
            if answer.result is None:
                errors.append(answer.failure)
                continue
            done[answer.shard.id] = answer.result
            bar.advance(answer.shard.rows, note="documents")
    return [done[shard.id] for shard in shards if shard.id in done], sorted(errors)


def count_all(running: Workers, task: Task[Shard, P, M], shards: Sequence[Shard], parts: P, *, title: str) -> list[M]:
    """Results of all shards. Raises `ShardsError` if one failed, and the errors of `count`."""
    found, errors = count(running, task, shards, parts, title=title)
    if errors:
        raise ShardsError(failed_message(errors, len(shards)))
    return found
