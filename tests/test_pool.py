"""The pool of actors, on actors and nodes that are only pretended: one that dies of a shard takes answers along."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.flows.cluster import lost_nodes
from concord.flows.cluster import pool as module
from concord.flows.cluster.deaths import LETHAL_DOCUMENTS, ClusterError, Deaths, Work
from concord.flows.cluster.lost_nodes import LOST_NODES
from concord.flows.cluster.pool import IDLE_SECONDS, LEAST_AHEAD, Order, Pool
from concord.flows.cluster.warming import Warming
from concord.flows.cluster.work_queue import WorkQueue
from concord.flows.work.done import Done
from concord.schemas.run import SHARD_BYTES
from concord.schemas.settings import TextSettings
from concord.workers.corpus.shards import Shard
from tests.support.cut_shards import FIRST_ROW, cut, shard_of

LOST = ray.exceptions.ActorDiedError()
HERE = "here"
"""The node of the driver."""


@dataclass(eq=False)
class Call:
    """A call of an actor; its ``answer`` is there once the driver has been sent it."""

    shard: Shard | None
    answer: Any = None


@dataclass(eq=False)
class Actor:
    """Does its calls in order, once it has a ``node``; the answer to one may be there for a while before it is sent."""

    node: str
    calls: deque[Call] = field(default_factory=deque)
    answers: deque[Call] = field(default_factory=deque)
    death: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=self._called)

    def _called(self, first: Any, *_: Any) -> Call:
        self.calls.append(Call(first if isinstance(first, Shard) else None, self.death))
        return self.calls[-1]


@dataclass
class Machine:
    """All actors of a pool, and the rows that end whoever meets them."""

    lethal: frozenset[int]
    order: random.Random
    actors: list[Actor] = field(default_factory=list)
    dead: list[Actor] = field(default_factory=list)

    def remote(self, *_: Any) -> Actor:
        self.actors.append(Actor(HERE))
        return self.actors[-1]

    def step(self) -> list[Call]:
        """One actor does its next call, or sends an answer; the calls that have ended for the driver."""
        actor = self.order.choice([actor for actor in self.actors if actor.node and (actor.calls or actor.answers)])
        if actor.answers and (not actor.calls or self.order.random() < 0.3):
            sent = actor.answers.popleft()
            sent.answer = actor.node if sent.shard is None else "done"
            return [sent]
        call = actor.calls.popleft()
        if call.shard is None or not self.lethal & rows_of(call.shard):
            actor.answers.append(call)
            return []
        actor.calls.appendleft(call)
        return self.end(actor, LOST)

    def end(self, actor: Actor, error: Exception) -> list[Call]:
        """The calls of an actor that ends."""
        actor.death = error
        self.actors.remove(actor)
        self.dead.append(actor)
        return self.failed()

    def failed(self) -> list[Call]:
        """The calls of actors that have ended, those among them that were made later."""
        calls = [call for actor in self.dead for call in (*actor.answers, *actor.calls)]
        for actor in self.dead:
            for call in (*actor.answers, *actor.calls):
                call.answer = actor.death
            actor.answers.clear()
            actor.calls.clear()
        return calls

    def kill(self, actor: Actor) -> None:
        if actor in self.actors:
            self.actors.remove(actor)


@dataclass
class Nodes(Machine):
    """Nodes that join and leave, each with places for some actors, which wait for one in order."""

    free: dict[str, int] = field(default_factory=dict)
    joined: int = 0
    left: int = 0

    def remote(self, *_: Any) -> Actor:
        self.actors.append(Actor(""))
        return self.actors[-1]

    def join(self, places: int) -> None:
        self.free[f"n{self.joined}"] = places
        self.joined += 1

    def place(self) -> None:
        """Gives the actors that wait the places that are free."""
        used = Counter(actor.node for actor in self.actors)
        free = [node for node, places in self.free.items() for _ in range(places - used[node])]
        for actor, node in zip([actor for actor in self.actors if not actor.node], free, strict=False):
            actor.node = node

    def leave(self, node: str) -> list[Call]:
        """The calls that end with a node; Ray may know of its end, or of that of its actors alone."""
        del self.free[node]
        error = ray.exceptions.ActorDiedError()
        error.error_msg = self.order.choice(
            [f"because its node has died. Node Id: {node}\n\tthe actor's node was terminated", "unavailable"]
        )
        self.left += 1
        return [call for actor in self.actors[:] if actor.node == node for call in self.end(actor, error)]

    def step(self) -> list[Call]:
        if failed := self.failed():
            return failed
        if self.order.random() < (0.5 if not self.free else 0.03):
            self.join(self.order.randint(1, 4))
        if self.free and self.order.random() < 0.03:
            return self.leave(self.order.choice(list(self.free)))
        self.place()
        return super().step() if any(actor.node and (actor.calls or actor.answers) for actor in self.actors) else []


def rows_of(shard: Shard) -> set[int]:
    return set(range(shard.first_row, shard.first_row + shard.rows)) - {shard.first_row + row for row in shard.lethal}


def pool_on(machine: Machine, monkeypatch: pytest.MonkeyPatch, *, grows: bool = False) -> Pool:
    """A pool without actors."""
    monkeypatch.setattr(module, "actor_class", lambda memory: machine)
    monkeypatch.setattr(module, "_answer", lambda call, seconds=None: call.answer)
    monkeypatch.setattr(ray, "kill", machine.kill)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: HERE))
    monkeypatch.setattr(lost_nodes, "_answers", lambda node: isinstance(machine, Nodes) and node in machine.free)
    monkeypatch.setattr(lost_nodes, "SETTLE_SECONDS", 0.0)
    order = Order("task", [], "code", TextSettings(), 0)
    return Pool(WorkQueue(), order, lambda: None, Deaths(cut), Warming(None, lambda: None), grows)


def run(
    shards: Sequence[Shard], machine: Machine, workers: int, monkeypatch: pytest.MonkeyPatch, *, grows: bool = False
) -> list[Done[Any, Any]]:
    """What a pool says of these shards."""
    pool = pool_on(machine, monkeypatch, grows=grows)
    monkeypatch.setattr(module, "LOST_WORKERS", 1000)
    monkeypatch.setattr(lost_nodes, "LOST_NODES", 1000)
    pool.fill(workers)
    pool.add(shards)
    done: list[Done[Any, Any]] = []
    while pool.busy:
        pool.tend()
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


@settings(max_examples=300)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=40),
    chosen=st.sets(st.integers(0, 239), max_size=5),
    grows=st.booleans(),
    order=st.integers(0, 1 << 32).map(random.Random),
)
def test_nodes_that_come_and_go_blame_no_document_and_lose_none(
    sizes: list[int], chosen: set[int], grows: bool, order: random.Random
) -> None:
    ends = accumulate(sizes, initial=FIRST_ROW)
    shards = [shard_of(b - a, str(a))._replace(first_row=a) for a, b in pairwise(ends)]
    lethal = frozenset(FIRST_ROW + row for row in chosen if row < sum(sizes))
    with pytest.MonkeyPatch.context() as monkeypatch:
        done = run(shards, Nodes(lethal, order), 3, monkeypatch, grows=grows)
    assert sorted(int(one.shard.id) for one in done) == [shard.first_row for shard in shards]
    assert [one.error for one in done] == [None] * len(shards)
    assert {one.shard.first_row + row for one in done for row in one.shard.lethal} == lethal


def grown(machine: Nodes, monkeypatch: pytest.MonkeyPatch, units: int) -> Pool:
    """A pool that grows, and has units."""
    pool = pool_on(machine, monkeypatch, grows=True)
    pool.fill(1)
    pool.add([shard_of(1, str(number)) for number in range(units)])
    pool.tend()
    return pool


def starts(pool: Pool, machine: Nodes) -> None:
    """All actors that have places start."""
    machine.place()
    calls = [(actor, call) for actor in machine.actors if actor.node for call in actor.calls if call.shard is None]
    for actor, call in calls:
        actor.calls.remove(call)
        call.answer = actor.node
    assert list(pool.answers([call for _, call in calls])) == []
    pool.tend()


def test_a_pool_asks_for_what_work_and_nodes_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Nodes(frozenset(), random.Random(0))
    pool = grown(machine, monkeypatch, 200)
    assert len(machine.actors) == LEAST_AHEAD
    for places, started in ((1, 1), (3, 4), (36, 40)):
        machine.join(places)
        for _ in range(3):
            starts(pool, machine)
        assert len(pool.started) == started
        assert len(machine.actors) == started + max(LEAST_AHEAD, started)
    machine.join(1000)
    for _ in range(10):
        starts(pool, machine)
    assert not pool.queue
    assert len(machine.actors) == len(pool.started)  # nobody asks for more where no work is left


def test_actors_without_work_are_given_back_and_those_at_work_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, now = Nodes(frozenset(), random.Random(0)), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pool = grown(machine, monkeypatch, 4)
    machine.join(4)
    starts(pool, machine)
    first, *others = machine.actors
    for actor in others:
        call = actor.calls.popleft()
        call.answer = "done"
        assert [one.error for one in pool.answers([call])] == [None]
    pool.tend()
    now += 0.9 * IDLE_SECONDS
    pool.tend()
    assert len(machine.actors) == 4
    now += 0.2 * IDLE_SECONDS
    pool.tend()
    assert machine.actors == [first]
    pool.add([shard_of(1, "more")])
    pool.tend()
    assert len(machine.actors) == 2


def lose_all(pool: Pool, machine: Nodes) -> None:
    """Two nodes join, and leave before there is a result, again and again."""
    for _ in range(100):
        machine.join(2)
        machine.join(2)
        starts(pool, machine)
        for node in list(machine.free):
            assert list(pool.answers(machine.leave(node))) == []
        pool.tend()


def test_losses_of_nodes_without_an_end_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Nodes(frozenset(), random.Random(0))
    pool = grown(machine, monkeypatch, 100)
    with pytest.raises(ClusterError, match=f"{LOST_NODES + 2} nodes were lost one after another"):
        lose_all(pool, machine)
    assert machine.left == LOST_NODES + 2
    assert pool.lost == 0


def test_an_actor_on_a_node_that_joins_waits_for_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, begun = Nodes(frozenset(), random.Random(0)), list[str]()
    shown = {"Alive": True, "Resources": {"CPU": 2.0}, "NodeManagerHostname": "host"}
    monkeypatch.setattr(ray, "nodes", lambda: [shown | {"NodeID": node} for node in machine.free])
    pool = pool_on(machine, monkeypatch, grows=True)

    def begin(node: str) -> Any:
        begun.append(node)
        return iter(())

    pool.warming = Warming(begin, lambda: None)
    pool.fill(2)
    pool.add([shard_of(1, str(number)) for number in range(5)])
    machine.join(2)
    for _ in range(2):
        starts(pool, machine)
        assert begun == ["n0"]
        assert not any(actor.calls for actor in machine.actors if actor.node)
    assert list(pool.answers(list(pool.warming.calls))) == []
    assert all(actor.calls for actor in machine.actors if actor.node)
    pool.tend()
    assert begun == ["n0"]


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
