"""What flows have in common: places that hold wherever a worker runs, looked at before anything heavy is imported."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from concord.flows.errors import RunFolderError
from concord.schemas.errors import CorpusError
from concord.schemas.run import REGISTRY
from concord.schemas.secrets import place_of
from concord.workers.models.folder import MANIFEST, ModelError, check_model_folder
from concord.workers.storage.files import naming


def corpus_place(corpus: str) -> str:
    """A URI as it is, a path as an absolute one."""
    return corpus if "://" in corpus else str(Path(corpus).expanduser().absolute())


def corpus_name(corpus: str) -> str:
    """The last part of its place, for people."""
    return Path(place_of(corpus).partition("?")[0]).name


def folder_place(out: str) -> str:
    """An absolute path. Raises `RunFolderError` for a URI, also one that went through `Path`."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", out):
        raise RunFolderError(f"--out {out}: give a folder that driver and workers share, not a URI")
    return str(Path(out).expanduser().absolute())


def _local(corpus: str) -> Path:
    """The path of a corpus that is no more than one, or a ``file://`` URI."""
    if "://" not in corpus:
        return Path(corpus).expanduser().absolute()
    from concord.workers.corpus.parquet import resolve

    return Path(resolve(corpus)[1])


def check_sources(corpora: Iterable[str], *, model: str | None = None, files: Iterable[str] = ()) -> None:
    """Looks whether paths lead anywhere; what stands behind a URI or in a registry is for those to say.

    Raises `CorpusError`, `ModelError` and `OSError`, as reading them would, but seconds earlier.
    """
    for corpus in corpora:
        if "://" not in corpus and not _local(corpus).exists():
            raise CorpusError.missing(corpus)
    if model is not None and not model.startswith(REGISTRY):
        check_model_folder(Path(model).expanduser())
    for file in map(Path, files):
        with naming(file):
            file.expanduser().stat()


def check_model_place(out: Path) -> None:
    """Looks before the work, not after it, whether a model can be put there. Raises `ModelError` and `OSError`."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file()):
        raise ModelError(f"{out}: is there and is no model; give another --out")
    if out.is_symlink() and not out.exists():
        raise ModelError(f"{out}: is a link that leads nowhere; give another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent):
        pass  # a folder can be made there


def run_tags(**tags: str) -> dict[str, str]:
    """The tags of a tracked run: who asked, by which commit, and Prefect's id of the flow run where there is one."""
    found = tags | {"mlflow.user": user(), "mlflow.source.name": f"concord {tags['job']}", "host": socket.gethostname()}
    if head := commit():
        found["mlflow.source.git.commit"] = head
    if flow := flow_run_id():
        found["prefect.flow_run"] = flow
    return found


def flow_run_id() -> str | None:
    """Prefect's id of the flow run that this is, if it is one."""
    if "prefect" not in sys.modules:
        return None
    from prefect.runtime import flow_run

    found = flow_run.get_id()
    return str(found) if found else None


def user() -> str:
    """Who runs this; the number where the system knows no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def commit() -> str | None:
    """The commit of the current folder, where rules and settings are kept; None where git knows none."""
    if shutil.which("git") is None:
        return None
    asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return asked.stdout.strip() or None if asked.returncode == 0 else None
