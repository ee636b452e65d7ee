"""Watch of Ray: does it still answer? Ray's own library ends the driver silently, a minute after Ray has died."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from concord.flows.cluster.deaths import ClusterError

EVERY_SECONDS = 2.0
"""Seconds from one knock to the next, and longest time for an answer."""

HEAD_KNOCKS = 10
"""Number of knocks in a row without an answer after which a head counts as dead: 20 s. It may be restarted in time."""

NODE_KNOCKS = 3
"""The same for this machine's own node, which is never restarted; Ray ends its drivers 15 s after its death."""


def host_and_port(address: str) -> tuple[str, int] | None:
    """Host and port of ``HOST:PORT`` or ``[IPV6]:PORT``; None for another form."""
    host, colon, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if colon and port.isdecimal() else None


@dataclass
class Door:
    """A place where a part of Ray listens.

    - ``name``: name of the part.
    - ``place``: host and port, or path of a Unix socket.
    - ``knocks``: number of knocks in a row without an answer after which the part counts as dead.
    - ``missed``: number of these so far.
    """

    name: str
    place: tuple[str, int] | str
    knocks: int
    missed: int = 0

    def knock(self) -> bool:
        """Knocks once. Has the part answered one of the last ``knocks`` times?"""
        self.missed = 0 if _opens(self.place) else self.missed + 1
        return self.missed < self.knocks


def _opens(place: tuple[str, int] | str) -> bool:
    kind = socket.AF_UNIX if isinstance(place, str) else _family(place)
    with socket.socket(kind, socket.SOCK_STREAM) as knocking:
        knocking.settimeout(EVERY_SECONDS)
        try:
            knocking.connect(place)
        except BlockingIOError:
            return True  # a Unix socket with many callers before this one
        except OSError:
            return False
        return True


def _family(place: tuple[str, int]) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in place[0] else socket.AF_INET


class Watch:
    """Knocks at Ray's doors while a run waits for its workers."""

    def __init__(self, shown: str, doors: Sequence[Door]) -> None:
        """``shown``: name of this Ray for people."""
        self._shown = shown
        self._doors = doors
        self._next = time.monotonic() + EVERY_SECONDS

    def check(self) -> bool:
        """Knocks if it is time. Has it, and do all doors answer? Raises `ClusterError` if a part of Ray has died or is
        out of reach.
        """
        return time.monotonic() >= self._next and self.answers()

    def answers(self) -> bool:
        """Knocks. Do all doors answer this time? Raises `ClusterError` as `check` does."""
        self._next = time.monotonic() + EVERY_SECONDS
        for door in self._doors:
            if not door.knock():
                raise ClusterError(
                    f"Ray {self._shown} does not answer any more: its {door.name} has died or is out of reach; "
                    "the same command does what is not done yet"
                )
        return not any(door.missed for door in self._doors)
