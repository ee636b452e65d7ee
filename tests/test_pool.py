"""The pool of actors, on actors that are only pretended: one that dies of a shard takes answers along."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.flows.cluster import pool as module
from concord.flows.cluster.deaths import LETHAL_DOCUMENTS, Deaths, Work
from concord.flows.cluster.pool import Order, Pool
from concord.flows.cluster.work_queue import WorkQueue
from concord.flows.work.done import Done
from concord.schemas.run import SHARD_BYTES
from concord.schemas.settings import TextSettings
from concord.workers.corpus.shards import Shard
from tests.support.cut_shards import FIRST_ROW, cut, shard_of

LOST = ray.exceptions.ActorDiedError()


@dataclass(eq=False)
class Call:
    """A call of an actor; its ``answer`` is there once the driver has been sent it."""

    shard: Shard | None
    answer: Any = None


@dataclass(eq=False)
class Actor:
    """Does its calls in order; the answer to one may be there for a while before it is sent."""

    calls: deque[Call] = field(default_factory=deque)
    answers: deque[Call] = field(default_factory=deque)

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=self._called)

    def _called(self, first: Any, *_: Any) -> Call:
        self.calls.append(Call(first if isinstance(first, Shard) else None))
        return self.calls[-1]


@dataclass
class Machine:
    """All actors of a pool, and the rows that end whoever meets them."""

    lethal: frozenset[int]
    order: random.Random
    actors: list[Actor] = field(default_factory=list)

    def remote(self, *_: Any) -> Actor:
        self.actors.append(Actor())
        return self.actors[-1]

    def step(self) -> list[Call]:
        """One actor does its next call, or sends an answer; the calls that have ended for the driver."""
        actor = self.order.choice([actor for actor in self.actors if actor.calls or actor.answers])
        if actor.answers and (not actor.calls or self.order.random() < 0.3):
            sent = actor.answers.popleft()
            sent.answer = "done"
            return [sent]
        call = actor.calls.popleft()
        if call.shard is None or not self.lethal & rows_of(call.shard):
            actor.answers.append(call)
            return []
        died = [*actor.answers, call, *actor.calls]
        for one in died:
            one.answer = LOST
        actor.answers.clear()
        actor.calls.clear()
        return died


def rows_of(shard: Shard) -> set[int]:
    return set(range(shard.first_row, shard.first_row + shard.rows)) - {shard.first_row + row for row in shard.lethal}


def run(
    shards: Sequence[Shard], machine: Machine, workers: int, monkeypatch: pytest.MonkeyPatch
) -> list[Done[Any, Any]]:
    """What a pool says of these shards."""
    monkeypatch.setattr(module, "actor_class", lambda memory: machine)
    monkeypatch.setattr(module, "LOST_WORKERS", 1000)
    monkeypatch.setattr(module, "_answer", lambda call, seconds=None: call.answer)
    monkeypatch.setattr(ray, "kill", lambda actor: None)
    order = Order("task", [], "code", TextSettings(), 0)
    pool = Pool(WorkQueue(), order, lambda: None, Deaths(cut))
    pool.fill(workers)
    pool.add(shards)
    done: list[Done[Any, Any]] = []
    while pool.busy:
        done += pool.answers(machine.step())
    return done


@settings(max_examples=300)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    chosen=st.sets(st.integers(0, 47), max_size=LETHAL_DOCUMENTS),
    workers=st.integers(1, 3),
    order=st.randoms(),
)
def test_an_answer_that_a_death_takes_along_blames_no_document(
    sizes: list[int], chosen: set[int], workers: int, order: random.Random
) -> None:
    ends = accumulate(sizes, initial=FIRST_ROW)
    shards = [shard_of(b - a, str(a))._replace(first_row=a) for a, b in pairwise(ends)]
    lethal = frozenset(FIRST_ROW + row for row in chosen if row < sum(sizes))
    with pytest.MonkeyPatch.context() as monkeypatch:
        done = run(shards, Machine(lethal, order), workers, monkeypatch)
    assert [one.error for one in done] == [None] * len(shards)
    assert {one.shard.first_row + row for one in done for row in one.shard.lethal} == lethal


UNITS = st.lists(st.integers(0, 1 << 24), max_size=4)


@given(steps=st.lists(st.sampled_from(["pop", "back"]) | UNITS, max_size=12))
def test_the_queue_is_what_came_back_and_then_what_was_added_the_largest_first(steps: list[str | list[int]]) -> None:
    queue, wanted, taken, number = WorkQueue(), list[str](), list[Work](), 0
    for step in steps:
        if isinstance(step, list):
            units = [shard_of(1)._replace(id=f"{number + i}", size=size) for i, size in enumerate(step)]
            queue.add(units)
            wanted += [shard.id for shard in sorted(units, key=lambda s: -(s.size // (2 * SHARD_BYTES)).bit_length())]
            number += len(step)
        elif step == "pop" and len(queue):
            taken.append(queue.pop())
            assert taken[-1].shard.id == wanted.pop(0)
        elif step == "back":
            queue.put_back(taken)
            wanted, taken = [work.shard.id for work in taken] + wanted, []
        assert len(queue) == len(wanted)
        assert not wanted or queue.first().shard.id == wanted[0]
