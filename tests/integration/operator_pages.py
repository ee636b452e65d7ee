"""Pictures of what an operator sees, for the docs: a night of each kind, on real servers of Prefect and MLflow.

    python -m tests.integration.operator_pages

Needs Chromium (``apt-get install chromium``).
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from PIL import Image

from concord.flows.cli.failures import Exit
from concord.flows.screen.progress import say
from tests.integration.conftest import World, asked, damage_a_copy, flow_runs, markers, new_world
from tests.integration.processes import wait_until
from tests.integration.servers import mlflow_server, prefect_server

PICTURES = Path(__file__).parents[2] / "docs" / "images"

BROWSER = (
    *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
WIDTH = 1280
"""Of a picture, in pixels."""
COLOURS = 48
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
            pictures(watched, server.api.removesuffix("/api"), f"http://{mlflow.uri.rpartition('@')[2]}")


def nights(world: World) -> None:
    """A full night, one with nothing new, one with drift, one with a damaged file, and one that is cancelled."""
    night = ("reprocess", "--corpus", "test", "--model", "model", "--out", "news", "--workers", "2", "--json")
    world.run(*night)
    world.run(*night)
    world.run(*night, "--engine", "viterbi", "--fail-on-drift", code=Exit.DRIFT)
    damage_a_copy(world)
    hurt = ("reprocess", "--corpus", "hurt", "--model", "model", "--out", "hurt-news", "--json")
    world.run(*hurt, code=Exit.SHARDS)
    long = world.start(*world.reprocess_command("long", "--workers", "1"))
    wait_until(lambda: markers(world, "long") > 0, long)
    long.send_signal(signal.SIGTERM)
    long.communicate(timeout=60)


def pictures(world: World, prefect: str, mlflow: str) -> None:
    """Of Prefect's list of runs, of a night that failed, of the page of one with drift, and of MLflow's list."""
    runs = {tag: run for run in flow_runs(world) for tag in run["tags"]}
    (page,) = (found for found in asked(world, "artifacts", runs["drift"]["id"]) if found["type"] == "markdown")
    take("prefect-runs", f"{prefect}/runs", height=1160)
    take("prefect-failed", f"{prefect}/runs/flow-run/{runs['failed shards']['id']}", height=830)
    take("prefect-drift", f"{prefect}/artifacts/artifact/{page['id']}", height=1160)
    take("mlflow-runs", f"{mlflow}/#/experiments/1/runs?workflowType=machine_learning", height=600)


def take(name: str, url: str, *, height: int) -> None:
    """A picture of a page, in few colours."""
    path = PICTURES / f"{name}.png"
    with tempfile.TemporaryDirectory(prefix="chromium-") as own:
        typed = [
            *(*BROWSER, f"--user-data-dir={own}", f"--window-size={WIDTH},{height}"),
            *(f"--virtual-time-budget={LOADING}", f"--screenshot={path}", url),
        ]
        subprocess.run(typed, check=True, capture_output=True, timeout=180)
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLOURS)
    few.save(path, optimize=True)
    say(f"{path}: {url}")


if __name__ == "__main__":
    main()
