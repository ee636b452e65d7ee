"""Ray, started or reached in the one place, and left in good order."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import ray
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # not in its stubs
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from flows.cluster.deaths import ClusterError
from flows.cluster.interrupts import Interrupts, noted_interrupts
from flows.cluster.pool import Done, Order, Pool, reason
from flows.cluster.ray_folder import RayFolder, ray_folder
from flows.cluster.ray_watch import EVERY_SECONDS, HEAD_KNOCKS, NODE_KNOCKS, Door, Watch, host_and_port
from flows.cluster.room import check_room, working
from flows.environment import RAY, applied
from flows.progress import explained, say
from workers.compiling.code import workers_digest
from workers.corpus.plan import U
from workers.remote.actor import warm_node
from workers.remote.memory import memory_of
from workers.remote.task import Parts, Task

KNOCK_SECONDS = 10.0
"""How long a cluster may take to open a connection."""

PROBE_SECONDS = 30.0
"""How long it may take then to answer as a cluster does, the start of Python on this machine included."""

PROBE = """
import sys
from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
from ray._raylet import GcsClient
ensure_token_if_auth_enabled(None, create_token_if_missing=False)
GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10)
"""

STARTING = "starting workers; kernels are compiled once a machine and version, which takes about a minute"
"""What is said where that takes long."""

AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""What Ray reads of the environment to find its token."""

P = TypeVar("P", bound=Parts)
R = TypeVar("R")


class Cluster(NamedTuple):
    """A running Ray: how many actors fit, the signals that have come meanwhile, and who sees that it lives."""

    workers: int
    interrupts: Interrupts
    watch: Watch

    def run(self, task: Task[U, P, R], shards: Sequence[U], parts: P) -> Iterator[Done[U, R]]:
        """Does a task of `TASKS` on shards, on a pool of actors, largest first; gives each as it ends, in any order.

        A shard that fails is given with its error and the rest goes on. A document that ends whoever works on it is
        a reject of its shard, see `flows.cluster.deaths`. Raises `ClusterError` where no node has the memory that a
        worker needs, where the workers run other code than the driver or die one after another, and where Ray dies;
        and what Ctrl-C and SIGTERM raise.
        """
        with self.pool(task, parts, most=len(shards)) as work:
            yield from work(shards)

    @contextmanager
    def pool(
        self, task: Task[U, P, R], parts: P, *, most: int
    ) -> Iterator[Callable[[Sequence[U]], Iterator[Done[U, R]]]]:
        """`run` for shards that come in several goes, of at most so many each, to one pool of actors."""
        count, memory = min(self.workers, most), memory_of(task, parts)
        check_room(ray.nodes(), count, memory)
        order = Order(task.name, [ray.put(parts)], workers_digest(), parts.text, memory)
        pool = Pool.of(order, insist=self.insist)

        def work(shards: Sequence[U]) -> Iterator[Done[U, R]]:
            pool.add(shards)
            while pool.busy:
                yield from pool.answers(self.wait(list(pool.flying)))

        try:
            pool.fill(count)
            with explained(STARTING):
                self._warm_nodes(order)  # while the actors start; none has a shard yet
            yield work
        finally:
            pool.close()

    def wait(self, calls: list[Any]) -> list[Any]:
        """The first of the calls that end; signals are handled here, and Ray's death is seen."""
        while True:
            ready, _ = ray.wait(calls, num_returns=1, timeout=0.5)
            self.interrupts.check()
            self.watch.check()
            if ready:
                return list(ready)

    def insist(self) -> None:
        """Waits until all of Ray answers. Raises `ClusterError` where it has died."""
        while not self.watch.answers():
            time.sleep(EVERY_SECONDS)
            self.interrupts.check()

    def _warm_nodes(self, order: Order) -> None:
        """One process a node compiles first: numba's caches race when many processes start cold.

        One that dies of it is not the end: its shard is what meets the document again.
        """
        warm: Any = ray.remote(num_cpus=0, max_retries=0)(warm_node)
        there = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in working(ray.nodes())]
        given = (order.task, order.code, order.shared)
        for call in [warm.options(scheduling_strategy=node).remote(*given) for node in there]:
            try:
                ray.get(self.wait([call]))
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
                self.insist()
                say("a process died in the warm-up; the workers start without it")
            except ray.exceptions.RayError as error:
                raise ClusterError(reason(error)) from error


@contextmanager
def cluster(address: str | None, *, workers: int | None) -> Iterator[Cluster]:
    """Ray for the length of the block: on this machine, or at ``address``.

    Leaving the block, however it is left, ends this run's actors within seconds. Raises `ClusterError`.
    """
    with ExitStack() as stack:
        stack.enter_context(applied(RAY))
        folder = stack.enter_context(ray_folder())
        if address is None:
            stack.enter_context(_token(folder.token))
        # Ray's messages go where all messages go: standard output is for answers.
        stack.enter_context(redirect_stdout(sys.stderr))
        # Ray's own handler of SIGTERM aborts the process after 3 s, before all has ended in good order.
        interrupts = stack.enter_context(noted_interrupts(lambda: _start(address, workers, folder)))
        stack.callback(ray.shutdown, wait_for_processes=True)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        yield Cluster(workers or max(1, cpus), interrupts, _watch(address))


@contextmanager
def _token(path: Path) -> Iterator[None]:
    """Only who knows the token in the file can talk to the Ray that is started in the block.

    Ray's ports take code to execute from everybody who is let in, other users of this machine included.
    """
    former = {name: os.environ.pop(name, None) for name in AUTHENTICATION}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}
    _read_authentication()
    try:
        yield
    finally:
        for name in AUTHENTICATION:
            os.environ.pop(name, None)
        os.environ |= {name: value for name, value in former.items() if value is not None}
        _read_authentication()


def _read_authentication() -> None:
    """Ray reads these variables once a process; this makes it read them again."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _start(address: str | None, workers: int | None, folder: RayFolder) -> None:
    # On this machine: the loopback interface only, no dashboard, as many CPUs as workers.
    local: dict[str, Any] = {
        "address": "local",
        "num_cpus": workers or len(os.sched_getaffinity(0)),
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "_temp_dir": str(folder.sessions),
    }
    where: dict[str, Any] = local if address is None else {"address": address}
    # Without a working directory Ray puts the current folder on the workers' path, where a
    # user's own `workers/` would win over ours. The code is the one installed on each node.
    runtime = {"working_dir": str(folder.empty)}
    if address is not None:
        _knock(address)
        _probe(address)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, runtime_env=runtime, **where)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
        place = "on this machine" if address is None else f"at {address}"
        raise ClusterError(f"Ray does not start {place}: {error}") from error


def _watch(address: str | None) -> Watch:
    """Of the Ray that has been started: the head, and this machine's node, which is one of its own or the head's."""
    if address is not None and address.startswith("ray://"):
        head, node = address, None  # all else is behind that door
    else:
        started = ray._private.worker.global_worker.node
        assert started is not None
        head, node = started.gcs_address, started.raylet_socket_name
    place = host_and_port(head)
    doors = [] if place is None else [Door("head", place, HEAD_KNOCKS)]
    doors += [] if node is None else [Door("node on this machine", node, NODE_KNOCKS)]
    return Watch(f"at {head}", doors)


def _knock(address: str) -> None:
    """Raises `ClusterError` where nobody answers at HOST:PORT: Ray itself would try for many minutes."""
    place = host_and_port(address)
    if place is None:
        return  # "auto": the cluster of this node
    try:
        socket.create_connection(place, timeout=KNOCK_SECONDS).close()
    except OSError as error:
        raise ClusterError(f"no Ray cluster at {address}: {error}; check the address, or leave --ray out") from error


def _probe(address: str) -> None:
    """Raises `ClusterError` where no Ray cluster that takes this process's token answers at HOST:PORT.

    Another process asks: Ray tries for minutes where another service listens, and aborts where the token is wrong.
    """
    if ":" not in address or "://" in address:
        return  # "auto" is for Ray to find, and its client has time limits of its own
    command = (sys.executable, "-c", PROBE, address)
    try:
        asked = subprocess.run(command, capture_output=True, timeout=PROBE_SECONDS, check=False)  # noqa: S603 — our own
        said = asked.stderr
    except subprocess.TimeoutExpired as expired:
        asked, said = None, expired.stderr or b""
    if b"InvalidAuthToken" in said or b"AuthenticationError" in said:
        raise ClusterError(
            f"the Ray cluster at {address} wants its own token: give it in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
        )
    if asked is None or asked.returncode:
        raise ClusterError(f"what listens at {address} does not answer as a Ray cluster; check the address")
