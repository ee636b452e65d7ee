"""An MLflow server that stops answering, or dies, while documents of an object store are labelled with keys."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.parse import quote

import pytest

from concord.flows.cluster.cluster import STARTING
from concord.flows.screen.progress import COMPILING
from concord.flows.tracking.tracking import TRACKER_SECONDS
from tests.integration.conftest import SHARDS, World, markers
from tests.integration.servers import SECRET, MlflowServer, mlflow_server
from tests.support.s3 import KEYS, s3_server, upload, uri

pytestmark = pytest.mark.slow

TRACES = (b"S3CRET", b"AKIAOURS")
PROGRESS = ("reading:", "plan:", "labelling:", STARTING, COMPILING)
"""Beginnings of lines that tell how far a run is, as many as it has time for."""


ENDS = {"hangs": signal.SIGSTOP, "dies": signal.SIGKILL}
"""What becomes of the server of each of two runs."""


@contextmanager
def running(world: World, arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A command that does not go on when the test is over."""
    with world.start(*arguments) as process:
        try:
            yield process
        finally:
            process.kill()


class Ended(NamedTuple):
    """A command that has ended: exit code, all that it wrote, its last line for people, seconds since it labelled."""

    code: int
    wrote: str
    said: str
    waited: float


def ended(world: World, out: str, process: subprocess.Popen[str]) -> Ended:
    answer, said = process.communicate(timeout=300)
    written = [p.stat().st_mtime for p in (world.folder / out / ".shards" / "predictions").glob("*.parquet")]
    lines = [line for line in said.splitlines() if not line.startswith(PROGRESS)]
    assert len(lines) == 1, said
    return Ended(process.returncode, answer + said, lines[0], time.time() - max(written))


def traces(folder: Path) -> dict[str, bytes]:
    """The files below that hold a secret, with what stands around it."""
    found: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "environ":
            data = path.read_bytes()
            found |= {str(path): data[max(0, at - 80) : at + 40] for t in TRACES if (at := data.find(t)) >= 0}
    return found


@pytest.fixture
def temporary() -> Iterator[Path]:
    """For Ray's files, whose sockets need a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="t", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_mlflow_dies_and_the_same_command_logs_what_it_missed_and_no_secret_stays(
    world: World, trained: Any, temporary: Path
) -> None:
    """Two runs at once: the server of one is stopped (it hangs), that of the other is killed (it refuses)."""
    assert trained["documents"] == 80
    private = replace(world, env=world.env | {"TMPDIR": str(temporary)})
    with (
        mlflow_server(world.folder / "mlflow-hangs", world.env) as hangs,
        mlflow_server(world.folder / "mlflow-dies", world.env) as dies,
        s3_server() as host,
        ExitStack() as stack,
    ):
        stack.enter_context(patch.dict(os.environ, KEYS))
        upload(world.folder / "test", uri(host, "corpus"))

        def command(name: str, server: MlflowServer, *, key: str) -> list[str]:
            place = uri(host, "corpus").replace("s3://", f"s3://{key}:{quote(SECRET, safe='')}@")
            given = world.reprocess_command(name, "--workers", "1", "--tracking", server.uri)
            given[given.index("test")] = place
            return given

        servers = {"hangs": hangs, "dies": dies}
        first = {
            name: stack.enter_context(running(private, command(name, servers[name], key="AKIAOURS1"))) for name in ENDS
        }
        waiting = dict(ENDS)
        deadline = time.monotonic() + 600  # on a busy machine both compile first
        while waiting:
            assert time.monotonic() < deadline
            # Each at once, and not when the other has come as far: a run lasts a few seconds.
            for name in [name for name in waiting if markers(world, name)]:
                servers[name].signal(waiting.pop(name))
            for name in waiting:
                assert first[name].poll() is None, first[name].communicate()
            time.sleep(0.02)
        assert list(temporary.rglob("*.log"))
        assert traces(temporary) == {}
        left = {name: ended(world, name, process) for name, process in first.items()}
        for name, server in servers.items():
            assert left[name].code == 5
            assert left[name].said.startswith(f"concord: MLflow at {server.shown}")
            assert "the same command logs what MLflow has missed" in left[name].said
            assert left[name].waited < TRACKER_SECONDS + 60  # on a busy machine; MLflow's own limit is 8 minutes
            assert (world.folder / name / "manifest.json").is_file()
            assert markers(world, name) == SHARDS

        # The same commands, with another key: one goes to the server that answers again, one to that which is gone.
        hangs.signal(signal.SIGCONT)
        before = world.content("dies")
        started = time.monotonic()
        refused = stack.enter_context(running(private, command("dies", dies, key="AKIAOURS2")))
        again = private.run(*command("hangs", hangs, key="AKIAOURS2"))
        gone = ended(world, "dies", refused)
        assert gone.code == 5
        assert gone.said.startswith(f"concord: MLflow at {dies.shown}")
        assert time.monotonic() - started < 240
        assert world.content("dies") == before, "a run that could not begin has changed the output"

        assert (again["shards_done"], again["shards_skipped"]) == (0, SHARDS)
        runs = hangs.runs(world.folder / "hangs")
        assert list(runs.values()) == ["FINISHED", "FINISHED"]
        late = hangs.query("select key, value from latest_metrics where run_uuid = ?", next(iter(runs)))
        assert late["documents"] == again["documents"] == 48
        assert (late["shards/done"], late["shards/skipped"]) == (SHARDS, 0)
        assert not list((world.folder / "hangs" / ".untracked").iterdir())

        for name in ("hangs", "dies", "mlflow-hangs", "mlflow-dies", "home", "prefect"):
            assert traces(world.folder / name) == {}
        assert traces(temporary) == {}
        for run in (*left.values(), gone):
            assert not any(trace.decode() in run.wrote for trace in TRACES)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "postgresql://u:S3CRET@127.0.0.1:9/mlflow"])
def test_no_mlflow_at_the_start_is_one_line_within_seconds(world: World, trained: Any, uri: str) -> None:
    assert trained["documents"] == 80
    _, said = (process := world.start(*world.reprocess_command("never", "--tracking", uri))).communicate(timeout=120)
    assert process.returncode == 5
    assert said.startswith("concord: MLflow at ")
    assert said.count("\n") == 1
    assert "S3CRET" not in said
    assert not (world.folder / "never" / ".shards").exists()
