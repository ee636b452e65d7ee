"""The pool of Ray actors that do a task on shards. It feeds the actors, and replaces those that die.

A pool that grows asks Ray for more actors than have started, as long as there is work for them. Where they have no
place, they are the demand by which Ray's autoscaler adds nodes, and they start on any node that joins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import ray

from concord.flows.cluster.deaths import ClusterError, Deaths, GivenUpError, Work
from concord.flows.cluster.lost_nodes import LostNodes, lost_node
from concord.flows.cluster.warming import Warming
from concord.flows.cluster.work_queue import WorkQueue
from concord.flows.work.done import Done, reason
from concord.schemas.errors import InputError
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import Unit
from concord.workers.corpus.shards import split
from concord.workers.remote.actor import actor_class

IN_FLIGHT = 2
"""Number of calls of an actor at once, so that the next one is there when one ends; near the end there are fewer."""

LOST_WORKERS = 8
"""Number of deaths in a row, beyond the number of workers and without any result, after which a run gives up."""

LEAST_AHEAD, MOST_AHEAD = 16, 256
"""A pool that grows asks for as many more actors as have started, but for at least and at most so many: nodes take a
minute to come, and hundreds would come too late for work that is soon done."""

IDLE_SECONDS = 10.0
"""Time without work after which a pool that grows gives an actor back, so that its node can go."""

END_SECONDS = 10.0
"""Longest time in which the other calls of a dead actor end as well."""

DEATHS = (ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
UNANSWERED = (*DEATHS, ray.exceptions.GetTimeoutError)


R = TypeVar("R")


class Order(NamedTuple):
    """Arguments of each actor.

    - ``task``: name of the task.
    - ``shared``: its parts in Ray's store.
    - ``code``: digest of the driver's code.
    - ``text``: settings of raw text.
    """

    task: str
    shared: list[Any]
    code: str
    text: TextSettings
    memory: int
    """Bytes that an actor asks Ray for."""


@dataclass
class Pool:
    """A pool of actors.

    - ``queue``: work that no actor has yet.
    - ``order``: arguments of an actor.
    - ``insist``: raises if Ray has died.
    - ``deaths``: units that have lost workers.
    - ``warming``: warm-ups of nodes, for whose end their actors wait.
    - ``grows``: does it ask for more actors than it was filled with, and give back those without work?
    - ``actors``: the actors by number.
    - ``started``: ids of nodes by the numbers of the actors that have started there.
    - ``idle``: times since which actors are without work, by number.
    - ``flying``: number of the actor, and its work, by call; None for the call of an actor's start. An actor does its
      calls in this order.
    - ``made``: number of actors made so far.
    - ``lost``: number of deaths in a row without a result.
    - ``lost_nodes``: the nodes that went away with actors.
    """

    queue: WorkQueue
    order: Order
    insist: Callable[[], None]
    deaths: Deaths
    warming: Warming
    grows: bool = False
    actors: dict[int, Any] = field(default_factory=dict)
    started: dict[int, str] = field(default_factory=dict)
    idle: dict[int, float] = field(default_factory=dict)
    flying: dict[Any, tuple[int, Work | None]] = field(default_factory=dict)
    made: int = 0
    lost: int = 0
    lost_nodes: LostNodes = field(default_factory=LostNodes)

    @classmethod
    def of(cls, order: Order, *, insist: Callable[[], None], warming: Warming, grows: bool) -> Pool:
        """A pool without actors and without work."""
        return cls(WorkQueue(), order, insist, Deaths(partial(split, text=order.text)), warming, grows)

    @property
    def busy(self) -> bool:
        """Is there work that has not come back? Actors for which Ray has no place yet do not count."""
        return bool(self.queue) or any(work is not None for _, work in self.flying.values())

    @property
    def calls(self) -> list[Any]:
        """All calls that have not ended."""
        return [*self.flying, *self.warming.calls]

    def add(self, units: Sequence[Unit]) -> None:
        """Adds units to the end of the queue, the largest first."""
        self.queue.add(units)
        self._feed_idle()

    def fill(self, count: int) -> None:
        """Starts ``count`` actors."""
        for _ in range(count):
            self._add()

    def tend(self) -> None:
        """Looks for nodes that have joined. Makes a pool that grows as large as its work is: asks for actors, and ends
        those that have none.
        """
        self.warming.look()
        if not self.grows:
            return
        unplaced = sorted(self.actors.keys() - self.started.keys())
        ahead = min(len(self.queue), max(LEAST_AHEAD, min(len(self.started), MOST_AHEAD)))
        for number in unplaced[ahead:]:
            self._end(number)
        for _ in range(ahead - len(unplaced)):
            self._add()
        self._give_back(time.monotonic())

    def _give_back(self, now: float) -> None:
        """Ends the actors that have been without work for long."""
        busy = {number for number, _ in self.flying.values()}
        free: set[int] = set() if self.queue else self.started.keys() - busy  # else they wait for a warm-up
        self.idle = {number: self.idle.get(number, now) for number in free}
        for number, since in self.idle.items():
            if now - since >= IDLE_SECONDS:
                self._end(number)

    def _end(self, number: int) -> None:
        """Ends an actor that has no work."""
        ray.kill(self.actors.pop(number))
        self.started.pop(number, None)
        self.flying = {call: given for call, given in self.flying.items() if given[0] != number}

    def _add(self) -> None:
        actor = actor_class(memory=self.order.memory).remote(self.order.task, self.order.code)
        self.flying[actor.ready.remote(self.order.shared)] = self.made, None
        self.actors[self.made] = actor
        self.made += 1

    def _feed(self, number: int) -> None:
        if self.warming.lasts(self.started[number]):
            return
        given = [work for at, work in self.flying.values() if at == number]
        while self.queue and len(given) < self._most([*given, self.queue.first()]):
            work = self.queue.pop()
            actor = self.actors[number]
            call = actor.rehearse if work.rehearsal else actor.run
            self.flying[call.remote(work.shard, self.order.shared)] = number, work
            given.append(work)

    def _most(self, works: Sequence[Work | None]) -> int:
        """Largest number of calls of an actor at once, if ``works`` are among them."""
        if any(work is not None and work.suspect for work in works):
            return 1
        # Near the end a shard that waits behind another would be begun sooner by an actor that is idle.
        return IN_FLIGHT if len(self.queue) >= IN_FLIGHT * len(self.actors) else 1

    def answers(self, calls: list[Any]) -> Iterator[Done[Any, Any]]:
        """Units that came back with calls that have ended; new calls take their place."""
        for call in calls:
            if call in self.warming.calls:
                self.warming.hear(call)
                self._feed_idle()
                continue
            if call not in self.flying:
                continue  # its actor has died, as another call of it has told
            number, work = self.flying[call]
            answer = _answer(call)
            if isinstance(answer, ray.exceptions.RayError) and not isinstance(answer, ray.exceptions.RayTaskError):
                self.insist()  # a Ray that dies takes its actors along, and blocks whoever asks it for another
            if isinstance(answer, DEATHS):
                yield from self._actor_lost(number, answer)
                continue
            del self.flying[call]
            yield from self._answered(number, work, answer)
            self._feed(number)

    def _answered(self, number: int, work: Work | None, answer: Any) -> Iterator[Done[Any, Any]]:
        """Units that came back with the answer of a call: a result, or an error of its own."""
        failed = isinstance(answer, ray.exceptions.RayError)
        if work is None:
            if failed:
                raise ClusterError(reason(answer)) from answer
            self._note_start(number, answer)
            return
        if isinstance(answer, ray.exceptions.ObjectLostError):
            self._put_back([work])  # its node is lost, and the answer with it
            return
        self.lost = self.lost_nodes.in_a_row = 0
        if work.rehearsal:
            self._put_back(self.deaths.survived(work))  # what fails in a rehearsal fails in earnest too
        elif failed:
            yield Done(work.shard, None, reason(answer))
        else:
            yield Done(work.shard, answer)

    def _note_start(self, number: int, node: str) -> None:
        """Takes notice that an actor has started on a node."""
        self.started[number] = node
        self.lost_nodes.most = max(self.lost_nodes.most, len(set(self.started.values())))

    def _actor_lost(self, number: int, error: Exception) -> Iterator[Done[Any, Any]]:
        """Units that came back with the death of an actor, for which the first call without an answer is blamed.

        The second call may have killed it, and the answer to the first one been lost; then the first one survives when
        it is given to an actor again, alone. None is blamed if the node is lost, too. Another actor takes the place.
        """
        if "creation task" in str(error):
            raise ClusterError(reason(error)) from error
        node = lost_node(error, self.started.get(number), self.lost_nodes.nodes)
        ray.kill(self.actors.pop(number))
        calls = [call for call, (at, _) in self.flying.items() if at == number]
        waiting: list[Work] = []
        blamed = node is not None
        for call in calls:
            _, work = self.flying.pop(call)
            answer = _answer(call, seconds=END_SECONDS)
            if not isinstance(answer, UNANSWERED):
                yield from self._answered(number, work, answer)
                continue
            if blamed and work is not None:
                waiting.append(work)
            elif work is not None:
                yield from self._worker_died(work, answer)
            blamed = True
        self.started.pop(number, None)
        self._replace(node)
        self._put_back(waiting)

    def _worker_died(self, work: Work, death: Exception) -> Iterator[Done[Any, Any]]:
        try:
            self._put_back(self.deaths.lost(work))
        except GivenUpError as error:
            yield Done(work.shard, None, f"{error} ({reason(death)})")
        except InputError as error:
            yield Done(work.shard, None, f"{type(error).__name__}: {error}")

    def _replace(self, node: str | None) -> None:
        """Starts an actor in the place of one that has died, or was lost with its ``node``."""
        if node is None:
            self.lost += 1
        else:
            self.lost_nodes.add(node)
        if self.lost > len(self.actors) + LOST_WORKERS:
            raise ClusterError(
                f"{self.lost} workers died one after another without any result; see Ray's logs, and give "
                "them more memory"
            )
        self._add()

    def _put_back(self, works: Sequence[Work]) -> None:
        """Puts work at the front of the queue, and gives it to idle actors."""
        self.queue.put_back(works)
        self._feed_idle()

    def _feed_idle(self) -> None:
        for number in self.started.keys() & self.actors.keys():
            self._feed(number)

    def close(self) -> None:
        """Ends the actors. Busy ones end with Ray itself, so that it prints nothing about retries."""
        if not self.busy:
            for actor in self.actors.values():
                ray.kill(actor)


def _answer(call: Any, *, seconds: float | None = None) -> Any:
    """Result of a call, or its error; waits for ``seconds`` (None: until it ends)."""
    try:
        return ray.get(call, timeout=seconds)
    except ray.exceptions.RayError as error:
        return error
