"""Pictures of what an operator sees, for the docs: a night of each kind, on real servers of Prefect and MLflow.

    python -m tests.integration.operator_pages

Needs Chromium (``apt-get install chromium``).
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from concord.flows.cli.failures import Exit
from concord.flows.progress import say
from tests.integration.conftest import World, flow_runs, markers, new_world
from tests.integration.processes import wait_until
from tests.integration.servers import MlflowServer, mlflow_server, prefect_server

PICTURES = Path(__file__).parents[2] / "docs" / "images"

BROWSER = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
SIZE = (1280, 800)
"""Of a picture, in pixels."""
LOADING = 20_000
"""Milliseconds of the page's own clock until the picture is taken."""


def main() -> None:
    """Runs the nights and takes the pictures."""
    with tempfile.TemporaryDirectory(prefix="nights-") as place:
        world = new_world(Path(place))
        world.run("train", "--corpus", "train", "--features", "finkel", "--out", "model", "--json")
        with (
            prefect_server(world.folder, world.env, more=()) as server,
            mlflow_server(world.folder / "mlflow", world.env) as mlflow,
        ):
            watched = world.watched(server.api)
            watched = replace(watched, env=watched.env | {"MLFLOW_TRACKING_URI": mlflow.uri})
            nights(watched)
            pictures(watched, server.api.removesuffix("/api"), mlflow)


def nights(world: World) -> None:
    """A full night, one with nothing new, one with drift, one with a damaged file, and one that is cancelled."""
    night = ("reprocess", "--corpus", "test", "--model", "model", "--out", "news", "--workers", "2", "--json")
    world.run(*night)
    world.run(*night)
    world.run(*night, "--engine", "viterbi", "--fail-on-drift", code=Exit.DRIFT)
    shutil.copytree(world.folder / "test", world.folder / "hurt")
    path = world.folder / "hurt" / "part-00000.parquet"
    data = bytearray(path.read_bytes())
    data[pq.ParquetFile(path).metadata.row_group(3).column(1).data_page_offset + 40] ^= 0xFF
    path.write_bytes(data)
    hurt = ("reprocess", "--corpus", "hurt", "--model", "model", "--out", "hurt-news", "--json")
    world.run(*hurt, code=Exit.SHARDS)
    long = world.start(*world.reprocess_command("long", "--workers", "1"))
    wait_until(lambda: markers(world, "long") > 0, long)
    long.send_signal(signal.SIGTERM)
    long.communicate(timeout=60)


def pictures(world: World, prefect: str, mlflow: MlflowServer) -> None:
    """Of Prefect's list of runs, of a night that failed and one that did not, and of MLflow's list and a run."""
    runs = {run["state"]["message"].partition(" ")[0]: run["id"] for run in flow_runs(world)}
    shown = f"http://{mlflow.uri.rpartition('@')[2]}"
    full = mlflow.runs(world.folder / "news")
    experiment = mlflow.query("select run_uuid, experiment_id from runs where run_uuid = ?", next(iter(full)))
    (number,) = experiment.values()
    take("prefect-runs", f"{prefect}/runs")
    take("prefect-labelled", f"{prefect}/runs/flow-run/{runs['labelled']}?tab=Artifacts")
    take("prefect-failed", f"{prefect}/runs/flow-run/{runs['1']}")
    take("mlflow-runs", f"{shown}/#/experiments/{number}")
    take("mlflow-run", f"{shown}/#/experiments/{number}/runs/{next(iter(full))}")


def take(name: str, url: str) -> None:
    """A picture of a page, in few colours."""
    path = PICTURES / f"{name}.png"
    with tempfile.TemporaryDirectory(prefix="chromium-") as own:
        typed = [
            *(*BROWSER, f"--user-data-dir={own}", f"--window-size={SIZE[0]},{SIZE[1]}"),
            *(f"--virtual-time-budget={LOADING}", f"--screenshot={path}", url),
        ]
        subprocess.run(typed, check=True, capture_output=True, timeout=180)
    say(f"{path}: {url}")


if __name__ == "__main__":
    main()
