"""How a tracked run ends in MLflow, and its SQLite file, whoever is killed while it is made."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from concord.flows.nights.causes import NightSources, causes
from concord.flows.runfolder.runfolder import Sources
from concord.flows.tracking.tracking import Tracking, ui_command
from concord.schemas.run import ReportSum, RunKey, RunManifest, RunSettings
from tests.integration.processes import descendants
from tests.integration.servers import free_port, wait_for


# MLflow itself uses what SQLAlchemy gives up.
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
def test_a_run_ends_as_what_ended_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    tracking = Tracking(f"sqlite:///{tmp_path / 'runs.db'}")
    with tracking.run("well", tags={}):
        pass
    with pytest.raises(ValueError, match="a bug"), tracking.run("badly", tags={}):
        raise ValueError("a bug")
    with pytest.raises(KeyboardInterrupt), tracking.run("early", tags={}):
        raise KeyboardInterrupt
    with closing(sqlite3.connect(tmp_path / "runs.db")) as store:
        found = dict(store.execute("select name, status from runs").fetchall())
    assert found == {"well": "FINISHED", "badly · failed": "FAILED", "early · cancelled": "KILLED"}


FIRST_RUNS = """
import os, signal, sys, time
from pathlib import Path
from concord.flows.tracking.tracking import Tracking  # imported once, so that a first run below is a fork

home = Path(os.environ["CONCORD_HOME"])

def first_run():
    child = os.fork()
    if not child:
        try:
            Tracking()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child

def bytes_made():
    sizes = []
    for path in home.glob("*mlflow.db*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:
            pass  # SQLite's journal comes and goes
    return max(sizes, default=-1)

for limit in (-1, 0, 100_000, 300_000, 600_000):
    child = first_run()
    while bytes_made() < limit:
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "ended before it was killed"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
children = [first_run() for _ in range(3)]
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def test_the_first_runs_file_is_made_whole_whoever_is_killed_or_comes_at_the_same_time(tmp_path: Path) -> None:
    """Five first runs are killed at different moments of the making; then three at once all work."""
    home = tmp_path / "home"
    script = [sys.executable, "-c", FIRST_RUNS]
    env = os.environ | {"CONCORD_HOME": str(home)}
    done = subprocess.run(script, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stderr
    with closing(sqlite3.connect(home / "mlflow.db")) as store:
        assert store.execute("select count(*) from experiments where name = 'concord'").fetchone() == (1,)
        assert store.execute("pragma integrity_check").fetchone() == ("ok",)
    assert {p.name for p in home.iterdir()} == {"mlflow.db", ".mlflow.db.lock"}


def test_the_command_that_shows_the_runs_starts_a_few_processes(tmp_path: Path) -> None:
    """Without its environment variable MLflow starts some fifteen, for a queue of jobs that nobody uses."""
    port = free_port()
    typed = f"{ui_command(f'sqlite:///{tmp_path}/runs.db')} --port {port}"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    with (tmp_path / "log").open("wb") as log:
        shell = subprocess.Popen(["sh", "-c", typed], env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", shell)
        assert len(descendants(shell.pid)) <= 4
    finally:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait(30)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
def test_the_command_that_a_rollback_proposes_brings_the_alias_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    client = MlflowClient(uri)
    client.create_registered_model("news")
    for _ in range(2):
        version = client.create_model_version("news", source=str(tmp_path)).version
    client.set_registered_model_alias("news", "champion", version)
    named = Sources(corpus="c", model="models:/news@champion", constraints=(), consistency=True)
    before, after = (NightSources(named, {"model_version": f"news v{number}"}) for number in (1, 2))
    there, gone = (manifest_of(digest) for digest in ("one", "two"))
    (cause,) = causes(there, gone, before, after, "out")
    assert subprocess.run(["bash", "-c", f"PATH={Path(sys.executable).parent}:$PATH; {cause.remedy}"], check=True)
    assert int(client.get_model_version_by_alias("news", "champion").version) == 1
    (cause,) = causes(there, gone, NightSources(named, {}), after, "out")
    assert "set_registered_model_alias" not in cause.remedy, "the version of then is not known"


def manifest_of(model: str) -> RunManifest:
    key = RunKey(settings=RunSettings(), model=model, constraints="", code="")
    return RunManifest(dataset="d", run=key, totals=ReportSum().report(), shards=0, lists={})
