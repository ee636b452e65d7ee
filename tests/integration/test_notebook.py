"""An analyst's notebook on a cluster of two nodes: that of the docs, cells that are interrupted, a node that dies."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.integration.conftest import World, markers, new_world
from tests.integration.kernels import Kernel, kernel
from tests.integration.notebooks import NOTEBOOK, clean_environment, executed
from tests.integration.ray_heads import ray_head, submission
from tests.integration.servers import free_port
from tests.integration.two_nodes import TwoNodes, two_nodes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OTHERWISE = re.compile(r"\b[0-9a-f]{32,64}\b|[+-]?\d[\d.,]*(e-?\d+)?")
"""What no two machines show alike: ids of runs, and figures: other processors train other last digits."""

CELL = """
from concord.flows.reprocess import reprocess
settings = {{"engine": "gibbs", "options": {{"sweeps": 2000}}}}
report = reprocess("test", "model", "{out}", settings=settings, shard_bytes=3072, ray="auto")
report
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A model, a corpus, and the output of a run on this machine without a cluster, in ``reference``."""
    made = new_world(tmp_path_factory.mktemp("analyst"))
    made.run("train", "--corpus", "train", "--features", "finkel", "--out", "model", "--json")
    made.reprocess("reference", "--workers", "1")
    return made


@pytest.fixture
def nodes(alone: World) -> Iterator[TwoNodes]:
    with two_nodes(alone.env) as made:
        yield made


@pytest.fixture
def cells(alone: World, nodes: TwoNodes) -> Iterator[Kernel]:
    with kernel(alone.folder, {**alone.env, **nodes.environment, "RAY_ADDRESS": nodes.address}) as made:
        yield made


def test_an_interrupted_cell_leaves_no_worker_and_goes_on(alone: World, nodes: TwoNodes, cells: Kernel) -> None:
    cell = CELL.format(out="interrupted")
    shown = cells.run(cell, when=lambda: markers(alone, "interrupted") >= 2, then=cells.manager.interrupt_kernel)
    assert shown.error == ["FlowInterrupt: reprocess was interrupted; the same call does what is not done yet"]
    assert "<progress" in shown
    alive, every = nodes.actors()
    assert alive == 0
    assert every >= 2, "two at work, and those that the growing run had asked for by then"

    done = markers(alone, "interrupted")
    assert 2 <= done < markers(alone, "reference")
    again = cells.run(cell)
    assert again.error == []
    shards = markers(alone, "reference")
    assert f"({done}, {shards - done})" in cells.run("report.shards_skipped, report.shards_done")
    assert nodes.actors()[0] == 0
    assert alone.content("interrupted") == alone.content("reference")


def test_a_node_that_dies_under_a_cell_changes_nothing(alone: World, nodes: TwoNodes, cells: Kernel) -> None:
    shown = cells.run(CELL.format(out="lost"), when=lambda: markers(alone, "lost") >= 2, then=nodes.kill_node)
    assert shown.error == []
    assert "labelled 48 of 48 documents" in shown
    assert nodes.actors()[0] == 0
    assert alone.content("lost") == alone.content("reference")


def test_a_mistake_in_a_cell_is_a_line(alone: World, cells: Kernel) -> None:
    cells.run("import concord")
    (line,) = cells.run('concord.reprocess("nowhere", model="model", out="out", ray="auto")').error
    assert line.startswith("CorpusError: ")
    (line,) = cells.run('concord.reprocess("test", model="model", out="out", ray="ray://head:10001")').error
    assert line.startswith("ClusterError: ray://head:10001")
    cells.run("import os; os.environ['RAY_AUTH_TOKEN'] = 'b' * 64")
    (line,) = cells.run('concord.reprocess("test", model="model", out="out", ray="auto")').error
    assert line.startswith("ClusterError: the Ray cluster at auto does not take this token")
    assert "Traceback (most recent call last)" in "\n".join(cells.run("%tb").error)
    assert not (alone.folder / "out" / "manifest.json").exists()


def as_script(notebook: Any) -> str:
    """The cells as a script, but for what only shows how an error looks."""
    lines = []
    for source in (cell.source for cell in notebook.cells if cell.cell_type == "code"):
        magic, _, rest = source.partition("\n")
        if magic.startswith("%%writefile "):
            lines.append(f"open({magic.split()[1]!r}, 'w').write({rest!r})")
        elif "ray://" not in source:
            lines.append(source)
    return "\n".join(lines)


def test_its_cells_are_handed_in_as_a_job_to_a_cluster_without_a_token(alone: World, tmp_path: Path) -> None:
    """From a machine that is no node of it; each node sees the folder."""
    script, port = tmp_path / "cells.py", free_port()
    script.write_text(f"import os\nos.chdir({str(tmp_path)!r})\n{as_script(nbformat.read(NOTEBOOK, as_version=4))}\n")
    with ray_head(alone.env, cpus=2, dashboard=port, token=False) as head:
        job = subprocess.run(
            submission(port, sys.executable, str(script)),
            env=alone.env | head.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("labelling: 100 of 100 documents") == 2
    assert (tmp_path / "out" / "sweep" / "cells.parquet").is_file()
    there = replace(alone, folder=tmp_path)
    there.run("reprocess", "--corpus", "corpora/rest", "--model", "models/citations", "--out", "out/here", "--json")
    assert there.content("out/alone") == there.content("out/here")


def told(notebook: Any) -> list[list[str]]:
    """The words of the outputs of each cell; of a picture, that there is one."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[word for output in cell.outputs for word in _words(output)] for cell in code]


def _words(output: Any) -> list[str]:
    data = output.get("data", {})
    if "image/png" in data:
        return ["picture"]
    text = "\n".join(map(str, (*data.values(), output.get("text", ""), *output.get("traceback", ()))))
    return OTHERWISE.sub("#", text).split()


def test_the_notebook_of_the_docs_shows_what_it_keeps(tmp_path: Path) -> None:
    env = clean_environment() | {"PYTHONPATH": str(ROOT)}
    kept = nbformat.read(NOTEBOOK, as_version=4)
    assert told(executed(NOTEBOOK, tmp_path, env)) == told(kept)
