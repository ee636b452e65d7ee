"""Does Ray still answer? Ray's own library ends the driver without a word, a minute after Ray has died."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from concord.flows.cluster.deaths import ClusterError

EVERY_SECONDS = 2.0
"""From knock to knock, and how long an answer may take."""

HEAD_KNOCKS = 10
"""How often in a row a head may not answer: about 20 seconds. One that is started anew in time may go on."""

NODE_KNOCKS = 3
"""The same of this machine's own node, which nobody starts anew; Ray ends its drivers 15 seconds after its death."""


def host_and_port(address: str) -> tuple[str, int] | None:
    """The parts of ``HOST:PORT``, ``[IPV6]:PORT`` or the same after ``ray://``; None where it is something else."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    return (host.strip("[]"), int(port)) if colon and port.isdecimal() else None


@dataclass
class Door:
    """Where a part of Ray listens: host and port, or the path of a Unix socket. ``missed`` knocks in a row so far."""

    name: str
    place: tuple[str, int] | str
    knocks: int
    missed: int = 0

    def knock(self) -> bool:
        """Has somebody answered, at the latest after `knocks` tries?"""
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
        """``shown`` is what people know this Ray by."""
        self._shown = shown
        self._doors = doors
        self._next = time.monotonic() + EVERY_SECONDS

    def check(self) -> None:
        """Knocks where that is due. Raises `ClusterError` where a part of Ray has died or cannot be reached."""
        if time.monotonic() >= self._next:
            self.answers()

    def answers(self) -> bool:
        """Knocks; do all doors answer this time? Raises `ClusterError` as `check` does."""
        self._next = time.monotonic() + EVERY_SECONDS
        for door in self._doors:
            if not door.knock():
                raise ClusterError(
                    f"Ray {self._shown} does not answer any more: its {door.name} has died or is out of reach; "
                    "the same command does what is not done yet"
                )
        return not any(door.missed for door in self._doors)
