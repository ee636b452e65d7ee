"""The pool of Ray actors that do a task on shards. It feeds the actors, and replaces those that die."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

import ray

from concord.flows.cluster.deaths import ClusterError, Deaths, GivenUpError, Work
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
    - ``actors``: the actors by number.
    - ``started``: numbers of the actors that have started.
    - ``flying``: number of the actor, and its work, by call; None for the call of an actor's start. An actor does its
      calls in this order.
    - ``made``: number of actors made so far.
    - ``lost``, ``limit``: deaths in a row without a result, and their limit.
    """

    queue: WorkQueue
    order: Order
    insist: Callable[[], None]
    deaths: Deaths
    actors: dict[int, Any] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    flying: dict[Any, tuple[int, Work | None]] = field(default_factory=dict)
    made: int = 0
    lost: int = 0
    limit: int = 0

    @classmethod
    def of(cls, order: Order, *, insist: Callable[[], None]) -> Pool:
        """A pool without actors and without work."""
        return cls(WorkQueue(), order, insist, Deaths(partial(split, text=order.text)))

    @property
    def busy(self) -> bool:
        """Is there work that has not come back? Actors for which Ray has no place yet do not count."""
        return bool(self.queue) or any(work is not None for _, work in self.flying.values())

    def add(self, units: Sequence[Unit]) -> None:
        """Adds units to the end of the queue, the largest first."""
        self.queue.add(units)
        self._feed_idle()

    def fill(self, count: int) -> None:
        """Starts ``count`` actors."""
        self.limit = count + LOST_WORKERS
        for _ in range(count):
            self._add()

    def _add(self) -> None:
        actor = actor_class(memory=self.order.memory).remote(self.order.task, self.order.code)
        self.flying[actor.ready.remote(self.order.shared)] = self.made, None
        self.actors[self.made] = actor
        self.made += 1

    def _feed(self, number: int) -> None:
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
            self.started.add(number)
            return
        self.lost = 0
        if work.rehearsal:
            self._put_back(self.deaths.survived(work))  # what fails in a rehearsal fails in earnest too
        elif failed:
            yield Done(work.shard, None, reason(answer))
        else:
            yield Done(work.shard, answer)

    def _actor_lost(self, number: int, error: Exception) -> Iterator[Done[Any, Any]]:
        """Units that came back with the death of an actor, for which the first call without an answer is blamed.

        The second call may have killed it, and the answer to the first one been lost; then the first one survives when
        it is given to an actor again, alone. Another actor takes the place.
        """
        if "creation task" in str(error):
            raise ClusterError(reason(error)) from error
        ray.kill(self.actors.pop(number))
        calls = [call for call, (at, _) in self.flying.items() if at == number]
        waiting: list[Work] = []
        blamed = False
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
        self._replace()
        self._put_back(waiting)

    def _worker_died(self, work: Work, death: Exception) -> Iterator[Done[Any, Any]]:
        try:
            self._put_back(self.deaths.lost(work))
        except GivenUpError as error:
            yield Done(work.shard, None, f"{error} ({reason(death)})")
        except InputError as error:
            yield Done(work.shard, None, f"{type(error).__name__}: {error}")

    def _replace(self) -> None:
        self.lost += 1
        if self.lost >= self.limit:
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
        for number in self.started & self.actors.keys():
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
