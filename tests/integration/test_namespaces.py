"""A local run seen from another host: two network namespaces and a cable between them. Needs root and iproute2."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.conftest import PYTHON
from tests.integration.processes import descendants
from tests.support.ray_scripts import DRIVER, LISTENS

HERE, THERE = "192.0.2.1", "192.0.2.2"

KNOCKS = """
import socket, sys
for port in map(int, sys.argv[2:]):
    try:
        socket.create_connection((sys.argv[1], port), timeout=2).close()
        print("open", port)
    except ConnectionRefusedError:
        print("refused", port)
"""
"""Says of every port whether it is open. A host that cannot be reached at all would be neither."""


def ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


class Hosts(NamedTuple):
    """Names of two namespaces that reach each other."""

    mine: str
    other: str


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    if os.getuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    names = Hosts(f"cm{os.getpid()}", f"co{os.getpid()}")
    try:
        for name in names:
            if (made := ip("netns", "add", name)).returncode:
                pytest.skip(f"network namespaces are not to be had here: {made.stderr.strip()}")
        cable = ip("link", "add", "c0", "netns", names.mine, "type", "veth", "peer", "name", "c0", "netns", names.other)
        if cable.returncode:
            pytest.skip(f"no cable between network namespaces here: {cable.stderr.strip()}")
        for name, address in zip(names, (HERE, THERE), strict=True):
            for command in (("addr", "add", f"{address}/24", "dev", "c0"), ("link", "set", "c0", "up")):
                assert ip("-n", name, *command).returncode == 0
            assert ip("-n", name, "link", "set", "lo", "up").returncode == 0
            assert ip("-n", name, "route", "add", "default", "dev", "c0").returncode == 0
        yield names
    finally:
        for name in names:
            ip("netns", "del", name)


def within(name: str, *command: str) -> list[str]:
    """The command, run on one of the hosts."""
    return ["ip", "netns", "exec", name, *command]


def ports_of(pids: list[int]) -> list[str]:
    """On which the processes of the first one's namespace listen."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pids[0]}/net/{table}").read_text().splitlines()[1:]:
            row = line.split()
            if row[3] == LISTENS:
                found.add(str(int(row[1].rpartition(":")[2], 16)))
    return sorted(found)


@pytest.mark.slow
def test_another_host_finds_every_port_closed_and_cannot_join(hosts: Hosts) -> None:
    base = Path(tempfile.mkdtemp(prefix="n", dir="/tmp"))  # short, so that Ray's sockets fit into it
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env |= {"TMPDIR": str(base), "PYTHONPATH": str(Path(__file__).parents[2])}
    driver = subprocess.Popen(
        within(hosts.mine, PYTHON, "-c", DRIVER),
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert driver.stdout is not None
        said = driver.stdout.readline()
        assert said, driver.communicate()[1]
        _, _, head = json.loads(said)["gcs"].rpartition(":")
        ports = ports_of([driver.pid, *descendants(driver.pid)])
        assert head in ports
        knocked = subprocess.run(
            within(hosts.other, sys.executable, "-c", KNOCKS, HERE, *ports), capture_output=True, text=True, check=True
        )
        assert sorted(knocked.stdout.splitlines()) == sorted(f"refused {port}" for port in ports)
        ray = ("-m", "ray.scripts.scripts", "start", "--address", f"{HERE}:{head}", "--temp-dir", str(base / "other"))
        joined = subprocess.run(
            within(hosts.other, "timeout", "15", PYTHON, *ray, "--num-cpus", "1", "--disable-usage-stats"),
            env=env | {"RAY_AUTH_MODE": "disabled"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert joined.returncode != 0, joined.stdout
        assert "Ray runtime started" not in joined.stdout + joined.stderr
        _, said = driver.communicate("\n", timeout=60)
        assert driver.returncode == 0, said
    finally:
        driver.kill()
        driver.communicate(timeout=60)
        shutil.rmtree(base, ignore_errors=True)
