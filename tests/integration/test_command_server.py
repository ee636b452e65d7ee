"""A command that is a fork says and does what a process of its own does."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_server import REAL, SERVER, CommandServers

pytestmark = [pytest.mark.slow, pytest.mark.about("tests/support/command_server.py")]


@pytest.fixture(scope="module")
def served() -> Iterator[dict[str, str]]:
    with CommandServers() as servers:
        yield servers.within(os.environ)


def ended(words: list[str], folder: Path, env: dict[str, str], text: str = "") -> tuple[int, str, str]:
    done = subprocess.run(words, cwd=folder, env=env, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_it_ends_and_prints_like_a_process(served: dict[str, str], tmp_path: Path) -> None:
    plain = {name: text for name, text in served.items() if name != SERVER}
    codes = set()
    for arguments in (
        ["--version"],
        ["list", "engines"],
        ["evaluate", "--run", "nothing", "--corpus", "nowhere"],
        ["no-such"],
        ["ingest", "conll", "given.txt", "--out", "corpus", "--overwrite", "--json"],
        ["corpus", "stats", "--corpus", "corpus"],
    ):
        (tmp_path / "given.txt").write_text("Ada NNP I-NP B-PER\n\nwrote VBD I-VP O\n")
        fork, process = ended(["concord", *arguments], tmp_path, served), ended([*REAL, *arguments], tmp_path, plain)
        assert [text.replace("-c", "concord") for text in process[1:]] == list(fork[1:])
        assert fork[0] == process[0], arguments
        codes.add(fork[0])
    assert codes == {0, 2, 3}


def test_forks_do_not_see_each_other(served: dict[str, str], tmp_path: Path) -> None:
    """Folder, variables and standard input are those of who asks, and two run beside each other."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    make = ["concord", "synthesize", "--documents", "3", "--out", "here"]
    both = [subprocess.Popen(make, cwd=tmp_path / name, env=served, stderr=subprocess.DEVNULL) for name in ("a", "b")]
    assert [process.wait(100) for process in both] == [0, 0]
    made = [next((tmp_path / name / "here").glob("part*")).read_bytes() for name in ("a", "b")]
    assert made[0] == made[1]


def server_of(env: dict[str, str]) -> int:
    """The process that serves in an environment."""
    (found,) = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and env[SERVER].encode() in _command_line(entry)
    ]
    return found


def _command_line(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""


def forks(server: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]


def wait_for(server: int, count: int) -> list[int]:
    deadline = time.monotonic() + 60
    while len(found := forks(server)) != count:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


LONG = ["concord", "synthesize", "--documents", "200000", "--out", "long"]


def test_a_killed_fork_is_told_by_its_signal(served: dict[str, str], tmp_path: Path) -> None:
    server = server_of(served)
    with subprocess.Popen(LONG, cwd=tmp_path, env=served, stderr=subprocess.DEVNULL) as asking:
        (fork,) = wait_for(server, 1)
        os.kill(fork, signal.SIGKILL)
        assert asking.wait(60) == -signal.SIGKILL
    wait_for(server, 0)


def test_nobody_asks_any_more_so_the_fork_ends(served: dict[str, str], tmp_path: Path) -> None:
    server = server_of(served)
    with subprocess.Popen(LONG, cwd=tmp_path, env=served, stderr=subprocess.DEVNULL) as asking:
        wait_for(server, 1)
        asking.kill()
    wait_for(server, 0)


def test_another_environment_is_a_process_of_its_own(served: dict[str, str], tmp_path: Path) -> None:
    """Modules read such variables when they are imported."""
    server = server_of(served)
    other = served | {"NUMBA_DISABLE_JIT": "1"}
    with subprocess.Popen(LONG, cwd=tmp_path, env=other, stderr=subprocess.DEVNULL) as asking:
        deadline = time.monotonic() + 60
        while REAL[2].encode() not in _command_line(Path(f"/proc/{asking.pid}")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert forks(server) == []
        asking.kill()
