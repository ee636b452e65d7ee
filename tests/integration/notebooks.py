"""`docs/notebook.ipynb`, run on a cluster of two nodes. As a program: with its outputs kept, as ``make notebook``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.integration.two_nodes import two_nodes

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
FORMATS = ("image/png", "text/html", "text/plain")
"""Formats of an output, best first; the file keeps one of each."""

NOT_KEPT = ("compiling kernels", "starting workers", "sweep: ")
"""Beginnings of notices that another run does not show alike: a sweep names the cell that was done last."""


def executed(notebook: Path, folder: Path, env: Mapping[str, str]) -> Any:
    """The notebook with outputs, run in an empty folder. Raises `nbclient.exceptions.CellExecutionError`."""
    found = nbformat.read(notebook, as_version=4)
    places = {"metadata": {"path": str(folder)}}
    client = NotebookClient(found, timeout=600, kernel_name="python3", resources=places, record_timing=False)
    with two_nodes(env) as nodes:
        client.execute(env={**env, **nodes.environment, "RAY_ADDRESS": nodes.address})
    for cell in found.cells:
        if cell.cell_type == "code":
            cell.outputs = [kept(output, folder) for output in cell.outputs if not _of_this_machine(output)]
    return found


def kept(output: Any, folder: Path) -> Any:
    """An output in its best format, without the folder that it was made in."""
    if "data" in output:
        best = next(kind for kind in FORMATS if kind in output.data)
        output.data = {best: output.data[best].replace(f"{folder}/", "")}
        output.metadata = {}
    if "text" in output:
        output.text = output.text.replace(f"{folder}/", "")
    return output


def _of_this_machine(output: Any) -> bool:
    return "data" in output and output.data.get("text/plain", "").startswith(NOT_KEPT)


def clean_environment() -> dict[str, str]:
    """This process's environment without settings of Ray, Prefect and MLflow."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "PREFECT_", "MLFLOW_"))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        nbformat.write(executed(NOTEBOOK, Path(made), clean_environment()), NOTEBOOK)
