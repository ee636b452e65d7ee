"""Builds the wheel with compiled kernels, for this version of Python on any processor of this machine's family.

    python infra/wheel.py --out build/dist

Where it is installed with the versions of `requirements.lock`, nothing is compiled. Elsewhere the kernels do not fit:
each is known by the digest of its code and of the compiler, so they are left alone, and a run compiles what it needs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from concord.flows.environment import ANY_PROCESSOR

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "concord"
FILES = ("LICENSE", "README.md", "pyproject.toml")


def main() -> None:
    """Compiles what is not yet compiled, and builds the wheel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "dist", help="folder for the wheel")
    out = parser.parse_args().out.absolute()
    os.environ |= ANY_PROCESSOR
    subprocess.run([sys.executable, ROOT / "infra" / "warm.py"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_source(tree)
        copy_kernels(tree)
        build(tree, out)


def copy_source(tree: Path) -> None:
    """Copies what the package is made of into the folder ``tree``."""
    shutil.copytree(ROOT / PACKAGE, tree / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, tree)


def copy_kernels(tree: Path) -> None:
    """Copies the compiled kernels of this code into the source in ``tree``."""
    # Numba reads the environment when it is imported.
    from concord.workers.compiling.kernel_folder import OF_THE_WHEEL, current_files, kernel_folder

    to = tree / OF_THE_WHEEL.relative_to(ROOT) / kernel_folder().name
    to.mkdir(parents=True)
    for path in current_files(kernel_folder()):
        shutil.copy(path, to)


def build(tree: Path, out: Path) -> None:
    """Builds the wheel of the source in ``tree`` into the folder ``out``."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    options = [
        f"--config-settings=--build-option={text}" for text in (f"--python-tag={python}", f"--plat-name={platform}")
    ]
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, *options, "--wheel-dir", out, tree], check=True)


if __name__ == "__main__":
    main()
