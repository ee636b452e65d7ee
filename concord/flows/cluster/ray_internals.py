"""Private names of Ray, for things that have no public way. No other module of the project uses any.

Ray may move them in any release. So its version is pinned to one minor release, and `tests/test_internals.py` fails
when one has moved.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray._private import ray_constants as constants
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray._raylet import (  # type: ignore[attr-defined]  # not in its stubs
    AuthenticationMode,
    AuthenticationTokenLoader,
    Config,
    GcsClient,
    get_authentication_mode,
)
from ray.job_config import JobConfig

from concord.flows.cluster.reaching import NO_CLUSTER, NO_TOKEN

ANSWER_SECONDS = 10
"""Longest time for a cluster to list its nodes."""


class OwnPathJob(JobConfig):
    """A job whose workers have no folder of the driver on their path, as of one with a working directory."""

    def _runtime_env_has_working_dir(self) -> bool:
        return True


@contextmanager
def constants_of(address: str | None) -> Iterator[None]:
    """Sets, for the length of the block, the constants that Ray read from the environment when it was imported, maybe
    by other code; see `RAY`."""
    former = constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV, constants.ENABLE_RAY_CLUSTER
    constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = False
    constants.ENABLE_RAY_CLUSTER = former[1] and address is not None
    try:
        yield
    finally:
        constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV, constants.ENABLE_RAY_CLUSTER = former


def read_environment() -> None:
    """Makes Ray read its environment variables again; it does so once in a process."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def head_and_node() -> tuple[str, str]:
    """Address of the head and socket of this machine's node, of the Ray that this process has started or joined."""
    started = ray._private.worker.global_worker.node
    assert started is not None
    return started.gcs_address, started.raylet_socket_name


def ask(address: str) -> None:
    """Asks the cluster at ``address`` for its nodes, as a driver does; exits with a message if it cannot.

    An address with a port is used unchanged: Ray would turn a loopback address into that of an outside interface, where
    a cluster on loopback does not listen. Only for a process of its own, since Ray's client may abort it.
    """
    wanted = get_authentication_mode() == AuthenticationMode.TOKEN
    if wanted and not AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True):
        sys.exit(NO_TOKEN)
    if ":" not in address:
        try:
            address = canonicalize_bootstrap_address_or_die(address)
        except ConnectionError:
            sys.exit(NO_CLUSTER)
    GcsClient(address=address).get_all_node_info(timeout=ANSWER_SECONDS)
