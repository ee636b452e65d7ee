"""Deployments of `infra/prefect.yaml` on a real server, work pool and worker, by a schedule that fires."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import PYTHON, World, markers
from tests.integration.processes import descendants, gone, workers_of

pytestmark = pytest.mark.slow

DEPLOYMENT = Path(__file__).parents[2] / "infra" / "prefect.yaml"
SECONDS = 480
"""Two runs of the schedule, one after the other, on a busy machine."""


def call(world: World, path: str, body: Any = None, *, method: str = "POST") -> Any:
    """An answer of Prefect's API, which says 503 where its SQLite is busy; Prefect's own client tries again too."""
    data = None if method == "GET" else json.dumps(body or {}).encode()
    request = urllib.request.Request(
        f"{world.prefect}/{path}", data, {"Content-Type": "application/json"}, method=method
    )
    for _ in range(20):
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            time.sleep(0.5)
        else:
            return json.loads(text) if text else None
    raise AssertionError(f"Prefect's API is busy for too long: {path}")


def prefect(world: World, *arguments: str) -> None:
    done = subprocess.run(
        [PYTHON, "-m", "prefect", *arguments],
        cwd=world.folder,
        env=world.env | {"CONCORD_ROOT": str(world.folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True)
class Deployed:
    """Ids of the nightly and the monthly deployment, and the worker that runs what they schedule."""

    id: str
    monthly: str
    worker: int


@pytest.fixture(scope="module")
def deployed(world: World, trained: Any) -> Iterator[Deployed]:
    """Deployments as they are shipped, but for their parameters and a schedule of every 45 seconds at night."""
    assert trained["registered"] == "models:/news@champion"
    shipped = yaml.safe_load(DEPLOYMENT.read_text())
    news, _, month = shipped["deployments"]
    shipped["deployments"] = [news, month]
    news["schedules"] = [{"interval": 45, "timezone": "Etc/UTC", "active": True}]
    news["parameters"] |= {"corpus": "test", "out": "scheduled", "workers": 1}
    month["parameters"] |= {"out": "scheduled"}
    changed = world.folder / "prefect.yaml"
    changed.write_text(yaml.safe_dump(shipped))
    prefect(world, "work-pool", "create", "--type", "process", news["work_pool"]["name"])
    prefect(world, "--no-prompt", "deploy", "--prefect-file", str(changed), "--all")
    with (world.folder / "worker.log").open("w") as log:
        worker = subprocess.Popen(
            [PYTHON, "-m", "prefect", "worker", "start", "--pool", news["work_pool"]["name"]],
            cwd=world.folder,
            env=world.env | {"PREFECT_WORKER_QUERY_SECONDS": "2"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            night = call(world, "deployments/name/reprocess/news", method="GET")["id"]
            monthly = call(world, "deployments/name/monthly/news-monthly", method="GET")["id"]
            yield Deployed(night, monthly, worker.pid)
        finally:
            # A worker that is asked to end waits for the run that it has begun.
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait(60)


def runs_of(world: World, deployment: str) -> list[Any]:
    """The deployment's runs that have begun, in that order."""
    found = call(world, "flow_runs/filter", {"deployments": {"id": {"any_": [deployment]}}})
    return sorted((run for run in found if run["start_time"]), key=lambda run: run["start_time"])


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def test_a_schedule_fires_twice_and_runs_keep_out_of_each_others_way(world: World, deployed: Deployed) -> None:
    """The first run labels, the others find everything done; one that is started meanwhile waits for its turn."""
    deployment = deployed.id
    deadline = time.monotonic() + SECONDS
    extra: str | None = None
    waited: set[str] = set()
    active = True
    while True:
        runs = runs_of(world, deployment)
        if extra is None and any(run["state_type"] == "RUNNING" for run in runs):
            extra = call(world, f"deployments/{deployment}/create_flow_run", {"state": {"type": "SCHEDULED"}})["id"]
        if extra is not None:
            waited.add(call(world, f"flow_runs/{extra}", method="GET")["state_name"])
        if active and sum(run["auto_scheduled"] for run in runs) >= 2:
            # Otherwise runs pile up on a machine that takes longer for one than the schedule gives it.
            call(world, f"deployments/{deployment}/pause_deployment")
            active = False
        ended = [run for run in runs if run["state_type"] in ("COMPLETED", "FAILED", "CRASHED")]
        if extra in {run["id"] for run in ended} and sum(run["id"] != extra for run in ended) >= 2:
            break
        log = (world.folder / "worker.log").read_text()
        assert time.monotonic() < deadline, f"{[(r['name'], r['state_name']) for r in runs]}\n{log}"
        assert all(run["state_type"] == "COMPLETED" for run in ended), log
        time.sleep(0.5)
    assert {run["state_type"] for run in ended} == {"COMPLETED"}, (world.folder / "worker.log").read_text()
    assert all(run["auto_scheduled"] for run in ended if run["id"] != extra)
    assert "AwaitingConcurrencySlot" in waited
    for first, second in pairwise(ended):
        assert seconds(first["end_time"]) <= seconds(second["start_time"])
    manifest = world.folder / "scheduled" / "manifest.json"
    assert json.loads(manifest.read_text())["totals"]["documents"] == 48
    written = [p.stat().st_mtime for p in (world.folder / "scheduled" / "predictions").iterdir()]
    assert written
    assert max(written) < seconds(ended[0]["end_time"]), "a later run did again what was done"


def test_a_month_is_reported(world: World, deployed: Deployed) -> None:
    """After the nights above."""
    nights = (world.folder / "scheduled" / ".nights.jsonl").read_text().splitlines()
    month = json.loads(nights[-1])["time"][:7]
    body = {"state": {"type": "SCHEDULED"}, "parameters": {"month": month}}
    run = call(world, f"deployments/{deployed.monthly}/create_flow_run", body)["id"]
    ended = ("Completed", "Failed", "Crashed")
    wait(world, lambda: call(world, f"flow_runs/{run}", method="GET")["state_name"] in ended)
    found = call(world, f"flow_runs/{run}", method="GET")
    assert found["state_name"] == "Completed", (world.folder / "worker.log").read_text()
    assert found["state"]["message"].startswith(f"{month}: ")
    assert (world.folder / "reports" / f"scheduled-{month}.html").is_file()


def test_a_run_that_is_cancelled_at_work_ends_as_cancelled_and_leaves_nothing_running(
    world: World, deployed: Deployed
) -> None:
    """As "Cancelled", not "Crashed"; the next run does what is left."""
    parameters = {
        "out": "cancelled",
        "shard_bytes": 3072,
        "settings": {"engine": "gibbs", "options": {"sweeps": 20_000}},
    }
    body = {"state": {"type": "SCHEDULED"}, "parameters": parameters}
    call(world, f"deployments/{deployed.id}/pause_deployment")
    run = call(world, f"deployments/{deployed.id}/create_flow_run", body)["id"]

    def state() -> str:
        return str(call(world, f"flow_runs/{run}", method="GET")["state_name"])

    wait(world, lambda: markers(world, "cancelled") >= 1 and bool(workers_of(deployed.worker)))
    below = descendants(deployed.worker)
    # What `prefect flow-run cancel` asks for, which takes longer to start than a run may take.
    call(world, f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING", "name": "Cancelling"}})
    wait(world, lambda: state() not in ("Running", "Cancelling"))
    assert state() == "Cancelled", (world.folder / "worker.log").read_text()
    assert gone(below, seconds=60) == []
    assert not (world.folder / "cancelled" / "manifest.json").exists()
    ended = call(world, f"flow_runs/{run}", method="GET")
    assert "cancelled" in ended["tags"]
    artifacts = call(world, "artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run]}}})
    (page,) = (artifact for artifact in artifacts if artifact["type"] == "markdown")
    assert page["description"].startswith("cancelled: ")
    (night,) = world.run("history", "--run", "cancelled", "--json")["nights"]
    assert night["line"]["cancelled"]
    assert night["line"]["flow_run"] == run

    done = markers(world, "cancelled")
    run = call(world, f"deployments/{deployed.id}/create_flow_run", body)["id"]
    wait(world, lambda: state() in ("Completed", "Failed", "Crashed"))
    assert state() == "Completed", (world.folder / "worker.log").read_text()
    assert markers(world, "cancelled") > done
    manifest = json.loads((world.folder / "cancelled" / "manifest.json").read_text())
    assert manifest["totals"]["documents"] == 48


def wait(world: World, condition: Callable[[], bool]) -> None:
    """Until the worker has brought something about."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, (world.folder / "worker.log").read_text()
        time.sleep(0.2)
