"""The only place where Ray is started or reached, and where it is left in good order."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from concord.flows.cluster.aside import Aside, aside, python_takes_signals
from concord.flows.cluster.deaths import ClusterError
from concord.flows.cluster.guard import guarded
from concord.flows.cluster.pool import Order, Pool
from concord.flows.cluster.ray_folder import RayFolder, ray_folder
from concord.flows.cluster.ray_internals import OwnPathJob, constants_of, head_and_node, read_environment
from concord.flows.cluster.ray_watch import EVERY_SECONDS, HEAD_KNOCKS, NODE_KNOCKS, Door, Watch, host_and_port
from concord.flows.cluster.reaching import Mode, reach
from concord.flows.cluster.room import check_room
from concord.flows.cluster.warming import Warming
from concord.flows.environment import ANY_PROCESSOR, LOCAL_RAY, RAY, applied, ray_address
from concord.flows.inputs.left_ray import left_ray
from concord.flows.screen.progress import explained
from concord.flows.work.done import After, Done, PoolWork, Workers, no_more
from concord.flows.work.in_process import InProcess
from concord.workers.compiling.kept_digests import workers_digest
from concord.workers.corpus.plan import U
from concord.workers.remote.actor import warm_node
from concord.workers.remote.memory import memory_of
from concord.workers.remote.task import Parts, Task, nothing

STARTING = "starting workers"
"""Notice if the start takes long."""

P = TypeVar("P", bound=Parts)
R = TypeVar("R")


class Cluster(NamedTuple):
    """A running Ray.

    - ``workers``: number of actors, at the start if it ``grows``.
    - ``aside``: the thread that calls Ray.
    - ``watch``: checks that Ray is alive.
    - ``grows``: are there as many actors as work and the cluster's nodes allow at each moment?
    """

    workers: int
    aside: Aside
    watch: Watch
    grows: bool = False

    def run(self, task: Task[U, P, R], shards: Sequence[U], parts: P) -> Iterator[Done[U, R]]:
        """Does a task of `TASKS` on shards, on a pool of actors, the largest first. Yields each when it ends.

        A shard that fails is yielded with its error, and the others go on. A document that kills its workers is a
        reject of its shard, see `flows.cluster.deaths`. Raises `ClusterError` if no node has the memory that a worker
        needs, if workers run other code than the driver or die one after another, and if Ray dies; and the exceptions
        of Ctrl-C and SIGTERM.
        """
        with self.pool(task, parts, most=len(shards)) as work:
            yield from work(shards)

    @contextmanager
    def pool(self, task: Task[U, P, R], parts: P, *, most: int) -> Iterator[PoolWork[U, R]]:
        """`run` for several groups of shards (of at most ``most`` each) on one pool of actors."""
        do = self.aside.do

        def work(shards: Sequence[U], after: After[U, R] = no_more) -> Iterator[Done[U, R]]:
            do(partial(pool.add, shards))
            while pool.busy:
                for done in do(lambda: self._turn(pool)):
                    yield done
                    if more := after(done):
                        do(partial(pool.add, more))

        with ExitStack() as stack:
            pool = do(lambda: self._opened(task, parts, most, stack))
            yield work

    def _opened(self, task: Task[U, P, R], parts: P, most: int, stack: ExitStack) -> Pool:
        """A pool on nodes with compiled kernels; it ends with the ``stack``."""
        count, memory = min(self.workers, most), memory_of(task, parts)
        check_room(ray.nodes(), count, memory)
        order = Order(task.name, [ray.put(parts)], workers_digest(), parts.text, memory)
        warming = Warming(None if task.warm is nothing else partial(_warm, order), self.insist)
        pool = Pool.of(order, insist=self.insist, warming=warming, grows=self.grows)
        stack.callback(self.aside.do, pool.close)
        pool.fill(count)
        with explained(STARTING):
            self._warm_nodes(warming)  # while the actors start; none has a shard yet
        return pool

    def _turn(self, pool: Pool) -> list[Done[Any, Any]]:
        """Units that came back within half a second, maybe none."""
        if self.watch.check():
            pool.tend()  # a Ray that has died would block it
        return list(pool.answers(self.wait(pool.calls)))

    def wait(self, calls: list[Any]) -> list[Any]:
        """The calls that have ended within half a second, maybe none. Interruptions end the wait."""
        ready, _ = ray.wait(calls, num_returns=1, timeout=0.5)
        self.aside.check()
        return list(ready)

    def insist(self) -> None:
        """Waits until all of Ray answers. Raises `ClusterError` if it has died."""
        while not self.watch.answers():
            time.sleep(EVERY_SECONDS)
            self.aside.check()

    def _warm_nodes(self, warming: Warming) -> None:
        """Warms up the nodes that are there."""
        warming.look()
        while warming.calls:
            self.watch.check()
            for call in self.wait(list(warming.calls)):
                warming.hear(call)


def _warm(order: Order, node: str) -> Any:
    """The call that warms up a node."""
    remote: Any = ray.remote(num_cpus=0, max_retries=0)(warm_node)
    there = remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
    return there.remote(order.task, order.code, order.shared)


@contextmanager
def cluster(address: str | None, *, workers: int | None) -> Iterator[Workers]:
    """Ray for the length of the block: that of `ray_address`, or within `one_ray` that which the last run has left.

    With no ``workers`` it is this process. At the end of the block, also by an error, this run's actors end within
    seconds. Raises `ClusterError`.
    """
    if workers == 0:
        yield InProcess()
        return
    place = ray_address(address)
    left, own = left_ray(), partial(_own_cluster, place, workers)
    # Ray's messages go where all messages go: standard output is for answers.
    with own() if left is None else left.at_work((place, workers), own) as running, redirect_stdout(sys.stderr):
        yield running


@contextmanager
def _own_cluster(address: str | None, workers: int | None) -> Iterator[Cluster]:
    """Ray that starts with the block and ends with it. Raises `ClusterError`."""
    if ray.is_initialized():
        raise ClusterError("this process is connected to Ray already; end that with ray.shutdown() before a run")
    mode = None if address is None else reach(address)
    with ExitStack() as stack:
        folder = stack.enter_context(ray_folder())
        stack.callback(read_environment)
        stack.enter_context(applied(RAY))
        if address is None:
            stack.enter_context(applied(LOCAL_RAY))
            stack.enter_context(guarded(folder.sessions))
        stack.enter_context(_authentication(mode, folder.token if address is None else None))
        stack.enter_context(constants_of(address))
        read_environment()
        thread = stack.enter_context(aside())
        stack.callback(thread.do, _end)
        with redirect_stdout(sys.stderr):
            started = thread.do(lambda: _started(address, workers, folder, thread))
        python_takes_signals()
        yield started


def _end() -> None:
    with redirect_stdout(sys.stderr):
        ray.shutdown(wait_for_processes=True)


@contextmanager
def _authentication(mode: Mode | None, token: Path | None) -> Iterator[None]:
    """Sets the authentication with Ray for the length of the block; with a file of a ``token``, by that token only.

    Ray's ports execute code of everybody who is let in, other users of this machine included.
    """
    variables = {} if mode is None else {"RAY_AUTH_MODE": str(mode)}
    if token is not None:
        variables = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_AUTH_TOKEN": ""}
    former = {name: os.environ.pop(name, None) for name in variables}
    os.environ |= {name: value for name, value in variables.items() if value}
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ |= {name: value for name, value in former.items() if value is not None}


def _started(address: str | None, workers: int | None, folder: RayFolder, thread: Aside) -> Cluster:
    _start(address, workers, folder)
    cpus = int(ray.cluster_resources().get("CPU", 1))
    return Cluster(workers or max(1, cpus), thread, _watch(), grows=address is not None and workers is None)


def _start(address: str | None, workers: int | None, folder: RayFolder) -> None:
    # On this machine: the loopback interface only, no dashboard, as many CPUs as workers. They have the variables of
    # this process as it starts Ray: workers that need others would start two seconds later, beside those that wait.
    local: dict[str, Any] = {
        "address": "local",
        "num_cpus": workers or len(os.sched_getaffinity(0)),
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": str(folder.sessions),
        "job_config": OwnPathJob(),
    }
    # Without a working directory Ray puts the current folder on the workers' path, where a
    # user's own `workers/` would win over ours. The code is the one installed on each node.
    kernels = {name: os.environ.get(name, text) for name, text in ANY_PROCESSOR.items()}
    there = {"address": address, "runtime_env": {"working_dir": str(folder.empty), "env_vars": kernels}}
    where = local if address is None else there
    try:
        with applied(ANY_PROCESSOR):
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
    except Exception as error:  # of no narrower kind where a busy machine is late to start it
        place = "on this machine" if address is None else f"at {address}"
        raise ClusterError(f"Ray does not start {place}: {error}") from error


def _watch() -> Watch:
    """Watch of a Ray that has been started: its head, and this machine's node (its own, or that of the head)."""
    head, node = head_and_node()
    place = host_and_port(head)
    doors = [] if place is None else [Door("head", place, HEAD_KNOCKS)]
    doors.append(Door("node on this machine", node, NODE_KNOCKS))
    return Watch(f"at {head}", doors)
