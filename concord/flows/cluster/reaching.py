"""Check of an address: is there a Ray cluster, and does it want a token? Ray itself may take minutes to find out.

A client that shows a token where none is wanted is let in; one without a token where one is wanted may abort its
process. So another process asks, first without a token, which is secret and not sent needlessly.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Literal

from concord.flows.cluster.deaths import ClusterError
from concord.flows.cluster.ray_watch import host_and_port

Mode = Literal["disabled", "token"]
"""Values of `RAY_AUTH_MODE`."""

KNOCK_SECONDS = 5.0
"""Longest time for a cluster to open a connection, and then to greet."""

ASK_SECONDS = 30.0
"""Longest time for its answer, including the start of Python on this machine."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""First bytes of a client of HTTP/2, such as gRPC (RFC 9113, section 3.4): a preface and a frame of settings."""

FRAME_HEAD, SETTINGS = 9, 4
"""Bytes before the content of a frame, and the type of the frame that a server begins with."""

ASK = "import sys; from concord.flows.cluster.ray_internals import ask; ask(sys.argv[1])"
NO_TOKEN, NO_CLUSTER = "NoToken", "NoCluster"
"""Messages of the other process on standard error: it has no token to show; there is no cluster on this machine."""

_REFUSED = (b"InvalidAuthToken", b"AuthenticationError", b"Unauthenticated")
_HOW = "give it in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"


def reach(address: str) -> Mode:
    """Authentication that the cluster at ``address`` wants, within seconds.

    ``RAY_AUTH_MODE`` decides if it is set. Raises `ClusterError` if no Ray cluster answers or lets this process in, and
    for an address of Ray's client, which is not maintained (ray-project/kuberay#1687).
    """
    if "://" in address:
        raise ClusterError(
            f"{address}: only addresses HOST:PORT, auto and local are taken, and of ray:// none: run on a node of the "
            "cluster, or as a job (ray job submit)"
        )
    _knock(address)
    given = os.environ.get("RAY_AUTH_MODE", "").lower()
    if given:
        return _asked(address, "token" if given == "token" else "disabled", given=True)
    return _asked(address, "disabled", given=False)


def _asked(address: str, mode: Mode, *, given: bool) -> Mode:
    """Mode in which the cluster answers: the first one, or, if that was not ``given``, the one with a token."""
    said = _ask(address, mode)
    if said is None:
        return mode
    if NO_CLUSTER.encode() in said:
        raise ClusterError("no Ray cluster runs on this machine; give its address, or take --ray local")
    if NO_TOKEN.encode() in said:
        raise ClusterError(f"the Ray cluster at {address} wants a token: {_HOW}")
    if not any(word in said for word in _REFUSED):
        raise ClusterError(_strange(address))
    if mode == "token":
        raise ClusterError(f"the Ray cluster at {address} does not take this token; it wants its own: {_HOW}")
    if given:
        raise ClusterError(f"the Ray cluster at {address} wants a token, and RAY_AUTH_MODE={mode} sends none; unset it")
    return _asked(address, "token", given=given)


def _ask(address: str, mode: Mode) -> bytes | None:
    """Complaint of another process that asks in this mode; None if it gets an answer."""
    command = (sys.executable, "-c", ASK, address)
    env = os.environ | {"RAY_AUTH_MODE": mode}
    try:
        asked = subprocess.run(command, env=env, capture_output=True, timeout=ASK_SECONDS, check=False)  # noqa: S603 — our own
    except subprocess.TimeoutExpired as expired:
        return expired.stderr or b""
    return asked.stderr if asked.returncode else None


def _knock(address: str) -> None:
    """Raises `ClusterError` if nothing answers at HOST:PORT, or something that is not Ray."""
    place = host_and_port(address)
    if place is None:
        return  # "auto": the cluster of this node
    try:
        with socket.create_connection(place, timeout=KNOCK_SECONDS) as connection:
            greeted = os.environ.get("RAY_USE_TLS", "0") != "0" or _greets(connection)
    except OSError as error:
        raise ClusterError(f"no Ray cluster at {address}: {error}; check the address, or take --ray local") from error
    if not greeted:
        raise ClusterError(_strange(address))


def _greets(connection: socket.socket) -> bool:
    """Does the other side begin like a server of HTTP/2?"""
    said = b""
    try:
        connection.sendall(GREETING)
        while len(said) < FRAME_HEAD and (more := connection.recv(FRAME_HEAD - len(said))):
            said += more
    except OSError:
        return False
    return len(said) == FRAME_HEAD and said[3] == SETTINGS


def _strange(address: str) -> str:
    return f"what listens at {address} does not answer as a Ray cluster; check the address"
