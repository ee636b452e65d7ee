"""Runs three commands with the lowest versions that `pyproject.toml` allows: what it says of them is true.

    python infra/lowest.py --environment build/lowest

The environment is made anew by uv, from wheels alone, as users without a compiler have it. Extras that commands use are
in it, too. Kernels are compiled for its versions, so that it takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = (sys.executable, "-m", "uv")
EXTRAS = ("delta", "memory", "plot", "spacy")
COMMANDS = (
    ("synthesize", "--documents", "12", "--out", "corpus"),
    ("train", "--corpus", "corpus", "--features", "core", "--out", "model"),
    ("reprocess", "--corpus", "corpus", "--model", "model", "--out", "out"),
)


def main() -> None:
    """Makes the environment, says what is in it, and runs the commands. Raises `CalledProcessError` where one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "lowest", help="folder to make anew")
    environment = parser.parse_args().environment.absolute()
    install(environment)
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            print("$ concord", *command, flush=True)  # noqa: T201
            subprocess.run([environment / "bin" / "concord", *command], cwd=folder, env=apart(folder), check=True)


def install(environment: Path) -> None:
    """Installs the lowest versions, and concord on top of them."""
    subprocess.run([*UV, "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
    into = [*UV, "pip", "install", "--quiet", "--python", environment / "bin" / "python"]
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    lowest = ("--resolution", "lowest-direct", "--no-build")
    subprocess.run([*into, *lowest, *extras, "-r", ROOT / "pyproject.toml"], check=True)
    subprocess.run([*into, "--no-deps", "--editable", ROOT], check=True)
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    subprocess.run([*UV, "pip", "show", "--python", environment / "bin" / "python", name], check=True)


def apart(folder: str) -> dict[str, str]:
    """This environment without what leads to other versions, to servers and to kernels of others."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PYTHON", "PREFECT_", "MLFLOW_", "RAY_", "NUMBA_", "VIRTUAL_ENV"))
    }
    return kept | {"CONCORD_HOME": f"{folder}/home", "NUMBA_CACHE_DIR": f"{folder}/kernels"}


if __name__ == "__main__":
    main()
