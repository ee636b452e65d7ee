"""Ray, started in the one place, and the pool of actors that labels shards."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.interrupts import Interrupts, noted_interrupts
from flows.shards import largest_first
from schemas.document import Document
from schemas.errors import ServiceError
from schemas.run import RunKey, ShardResult
from workers.constraints.constraint_set import ConstraintSet
from workers.models.model import Model
from workers.remote import actor_class, warm_node
from workers.shard_io import Shard

IN_FLIGHT = 2
"""Shards an actor has at once, but for the last ones: the next one is there when the last one ends."""

ATTEMPTS = 3
"""How often a shard may lose its worker before it counts as failed."""

KNOCK_SECONDS = 10.0
"""How long a cluster may take to answer."""

LOST_WORKERS = 8
"""How many workers a run may lose for good before it gives up."""

WORKER_MEMORY = 500 << 20
"""Bytes an actor asks Ray for; what it really uses depends on the model and the shard's size."""


class ClusterError(ServiceError):
    """Ray could not be started or reached, or its workers cannot run this code."""


class Job(NamedTuple):
    """What every worker needs, put into Ray's object store once by the driver."""

    model: Model
    constraints: ConstraintSet
    key: RunKey
    out: Path
    sample: Document | None = None
    """Any document of the corpus, to compile the numba kernels on."""


class Done(NamedTuple):
    """A shard came back: with a result, or with the reason why it failed."""

    shard: Shard
    result: ShardResult | None
    error: str | None = None


class Cluster(NamedTuple):
    """A running Ray: how many actors fit, and the signals that have come meanwhile."""

    workers: int
    interrupts: Interrupts

    def label_shards(self, shards: Sequence[Shard], job: Job, *, memory: int = WORKER_MEMORY) -> Iterator[Done]:
        """Labels shards on a pool of actors, the largest first; gives each as it ends, in any order.

        A shard that fails is given with its error and the rest goes on. Raises `ClusterError` where
        the workers run other code than the driver, and what Ctrl-C and SIGTERM raise.
        """
        shared = [ray.put(part) for part in (job.model, job.constraints, job.key, job.out.absolute())]
        pool = _Pool(deque(largest_first(shards)), shared, job.key.code, memory)
        try:
            pool.fill(min(self.workers, len(shards)))
            if job.sample is not None:
                self._warm_nodes(shared, job.sample)  # while the actors start; none has a shard yet
            while pool.flying:
                yield from pool.answers(self.wait(list(pool.flying)))
        finally:
            pool.close()

    def wait(self, calls: list[Any]) -> list[Any]:
        """The first of the calls that end; signals are handled here."""
        while True:
            ready, _ = ray.wait(calls, num_returns=1, timeout=0.5)
            self.interrupts.check()
            if ready:
                return list(ready)

    def _warm_nodes(self, shared: list[Any], sample: Document) -> None:
        """One process a node compiles first: numba's caches race when many processes start cold."""
        task: Any = ray.remote(num_cpus=0, max_retries=1)(warm_node)
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        there = [NodeAffinitySchedulingStrategy(node, soft=False) for node in alive]
        calls = [task.options(scheduling_strategy=node).remote(*shared[:3], sample) for node in there]
        for call in calls:
            try:
                ray.get(self.wait([call]))
            except ray.exceptions.RayError as error:
                raise ClusterError(_reason(error)) from error


@contextmanager
def cluster(address: str | None, *, workers: int | None) -> Iterator[Cluster]:
    """Ray for the length of the block: on this machine, or at ``address``.

    Leaving the block, however it is left, ends this run's actors within seconds. Raises `ClusterError`.
    """
    # Ray 2.60 checks tokens by default. On the loopback interface they only get in the way.
    os.environ.setdefault("RAY_AUTH_MODE", "disabled" if address is None else "token")
    with tempfile.TemporaryDirectory(prefix="concord-ray-") as empty:
        # Without a working directory Ray puts the current folder on the workers' path, where a
        # user's own `workers/` would win over ours. The code is the one installed on each node.
        runtime = {"working_dir": empty}
        # Ray's own handler of SIGTERM aborts the process after 3 s, before all has ended in good order.
        # Ray's messages go where all messages go: standard output is for answers.
        with redirect_stdout(sys.stderr), noted_interrupts(lambda: _start(address, workers, runtime)) as interrupts:
            try:
                yield Cluster(workers or max(1, int(ray.cluster_resources().get("CPU", 1))), interrupts)
            finally:
                ray.shutdown()


def _start(address: str | None, workers: int | None, runtime: dict[str, Any]) -> None:
    # On this machine: the loopback interface only, no dashboard, as many CPUs as workers.
    local: dict[str, Any] = {
        "address": "local",
        "num_cpus": workers or len(os.sched_getaffinity(0)),
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
    }
    where: dict[str, Any] = local if address is None else {"address": address}
    if address is not None:
        _knock(address)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, runtime_env=runtime, **where)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
        place = "on this machine" if address is None else f"at {address}"
        raise ClusterError(f"Ray does not start {place}: {error}") from error


def _knock(address: str) -> None:
    """Raises `ClusterError` where nobody answers at HOST:PORT: Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return  # "auto": the cluster of this node
    try:
        socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster at {address}: {error}; check the address, or leave --ray out") from error


@dataclass
class _Pool:
    """Actors, the queue that feeds them, and the calls in flight: of a shard, or (None) an actor's start."""

    queue: deque[Shard]
    shared: list[Any]
    code: str
    memory: int
    actors: dict[int, Any] = field(default_factory=dict)
    flying: dict[Any, tuple[int, Shard | None]] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    made: int = 0
    limit: int = 0

    def fill(self, count: int) -> None:
        """Starts ``count`` actors; a lost one is replaced, but not without end."""
        self.limit = count + LOST_WORKERS
        for _ in range(count):
            self._add()

    def _add(self) -> None:
        if self.made >= self.limit:
            raise ClusterError(f"{LOST_WORKERS} workers died; see Ray's logs, and give them more memory")
        actor = actor_class(memory=self.memory).remote(self.code)
        self.flying[actor.ready.options(max_task_retries=0).remote(self.shared)] = self.made, None
        self.actors[self.made] = actor
        self.made += 1

    def _feed(self, number: int) -> None:
        busy = sum(1 for at, _ in self.flying.values() if at == number)
        # Near the end a shard that waits behind another would be begun sooner by an actor that is idle.
        while self.queue and busy < (IN_FLIGHT if len(self.queue) >= IN_FLIGHT * len(self.actors) else 1):
            shard = self.queue.popleft()
            self.flying[self.actors[number].label.remote(shard, self.shared)] = number, shard
            busy += 1

    def answers(self, calls: list[Any]) -> Iterator[Done]:
        """What calls that have ended brought, and new calls in their place."""
        for call in calls:
            number, shard = self.flying.pop(call)
            try:
                answer = ray.get(call)
            except ray.exceptions.RayActorError as error:
                yield from self._worker_lost(number, shard, error)
            except ray.exceptions.RayError as error:
                assert shard is not None
                yield Done(shard, None, _reason(error))
            else:
                if shard is not None:
                    yield Done(shard, answer)
            if number in self.actors:
                self._feed(number)

    def _worker_lost(self, number: int, shard: Shard | None, error: Exception) -> Iterator[Done]:
        """Ray has used up the actor's restarts or the call's retries: another actor takes over."""
        if shard is None and "creation task" in str(error):
            raise ClusterError(_reason(error)) from error
        if number in self.actors:
            ray.kill(self.actors.pop(number))
            self._add()
        if shard is None:
            return
        self.lost[shard.id] = self.lost.get(shard.id, 0) + 1
        if self.lost[shard.id] >= ATTEMPTS:
            yield Done(
                shard, None, f"its worker died {ATTEMPTS} times, most often for lack of memory ({_reason(error)})"
            )
        else:
            self.queue.append(shard)

    def close(self) -> None:
        """Ends the actors. Those that are at work end with Ray itself, without talk of retries."""
        if not self.flying:
            for actor in self.actors.values():
                ray.kill(actor)


def _reason(error: BaseException) -> str:
    """The worker's own error in one line, without Ray's wrapping and traceback."""
    cause = getattr(error, "cause", None)
    if cause is not None:
        return f"{type(cause).__name__}: {' '.join(str(cause).split())}"
    # Of a dead actor Ray tells the whole traceback; its last line says what happened.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"
