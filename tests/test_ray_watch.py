"""Knocking at Ray's doors, without a Ray."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from concord.flows.cluster import ray_watch
from concord.flows.cluster.deaths import ClusterError
from concord.flows.cluster.ray_watch import Door, Watch, host_and_port


@pytest.fixture(params=["tcp", "unix"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    if request.param == "tcp":
        listening = socket.create_server(("127.0.0.1", 0))
    else:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(tmp_path / "s"))
        listening.listen(1)
    with listening:
        yield listening


def test_a_door_counts_the_knocks_in_a_row_that_nobody_answers(server: socket.socket) -> None:
    door = Door("head", server.getsockname(), 3)
    assert [door.knock() for _ in range(5)] == [True] * 5
    server.close()
    assert [door.knock() for _ in range(3)] == [True, True, False]


def test_an_answer_in_between_begins_the_count_anew() -> None:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))  # nobody listens yet
        door = Door("head", listening.getsockname(), 3)
        assert [door.knock() for _ in range(2)] == [True, True]
        listening.listen()
        assert door.knock()
        assert door.missed == 0


def test_a_watch_knocks_when_it_is_due_and_names_what_has_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = 0.0
    monkeypatch.setattr("concord.flows.cluster.ray_watch.time.monotonic", lambda: now)
    watch = Watch("at 10.0.0.1:6379", [Door("head", str(tmp_path / "nowhere"), 2)])
    watch.check()
    now = ray_watch.EVERY_SECONDS
    watch.check()
    watch.check()  # not due
    now = 2 * ray_watch.EVERY_SECONDS
    with pytest.raises(ClusterError, match=r"Ray at 10\.0\.0\.1:6379 does not answer any more: its head has died"):
        watch.check()


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.1:6379", ("10.0.0.1", 6379)),
        ("[::1]:6379", ("::1", 6379)),
        ("auto", None),
        ("head:port", None),
    ],
)
def test_addresses_are_taken_apart(address: str, parts: tuple[str, int] | None) -> None:
    assert host_and_port(address) == parts
