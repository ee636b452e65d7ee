"""Places of inputs and outputs, and tags of runs, for all flows. Places are checked before any heavy import."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from concord.flows.errors import RunFolderError
from concord.flows.inputs.output_places import check_output_place
from concord.schemas.errors import CorpusError
from concord.schemas.folders import FolderKind
from concord.workers.models.folder import ModelError, check_model_folder
from concord.workers.storage.files import naming
from concord.workers.storage.folder_kinds import kind_of
from concord.workers.storage.storage import URI, storage_at


def source_place(given: str) -> str:
    """Place of a corpus or a file for workers anywhere: a URI unchanged, or an absolute path."""
    return given if "://" in given else str(Path(given).expanduser().absolute())


def run_place(out: str) -> str:
    """Place of a run's output: a URI of an object store unchanged, or an absolute path. Raises `StorageError`."""
    return storage_at(out).uri


def folder_place(out: str) -> str:
    """Absolute path of an output folder. Raises `RunFolderError` for a URI, also one that went through `Path`."""
    if URI.match(out):
        raise RunFolderError(f"--out {out}: give a folder that driver and workers share, not a URI")
    return str(Path(out).expanduser().absolute())


def _local(corpus: str) -> Path:
    """Path of a corpus that is given as a path or a ``file://`` URI."""
    if "://" not in corpus:
        return Path(corpus).expanduser().absolute()
    from concord.workers.corpus.parquet import resolve

    return Path(resolve(corpus)[1])


def check_sources(corpora: Iterable[str], *, model: str | None = None, files: Iterable[str] = ()) -> None:
    """Checks that paths exist. URIs and registries are not asked.

    Raises `CorpusError`, `ModelError` and `OSError`, as reading would, but seconds earlier.
    """
    for corpus in corpora:
        if "://" not in corpus and not _local(corpus).exists():
            raise CorpusError.missing(corpus)
    if model is not None and not URI.match(model):
        check_model_folder(Path(model).expanduser())
    for file in (Path(name) for name in files if URI.match(name) is None):
        with naming(file):
            file.expanduser().stat()


def checked_places(
    corpora: Sequence[str], out: str, *, makes: FolderKind, model: str | None = None, files: Sequence[str] = ()
) -> list[str]:
    """Places of corpora: all that is read is there, and the place ``out``, for a folder of the kind ``makes``, is apart
    from it.

    Raises the errors of `source_place`, `check_sources` and `check_output_place`.
    """
    places = [source_place(corpus) for corpus in corpora]
    check_sources(places, model=model, files=files)
    check_output_place(out, [*places, model, *files], makes=makes)
    return places


def check_model_place(out: Path) -> None:
    """Checks, before the work, that a model can be written there. Raises `ModelError` and `OSError`."""
    if out.exists() and not (out.is_dir() and (kind_of(out) is FolderKind.MODEL or not any(out.iterdir()))):
        raise ModelError(f"{out}: is there and is no model; give another --out")
    if out.is_symlink() and not out.exists():
        raise ModelError(f"{out}: is a link that leads nowhere; give another --out")
    # A folder can be made there; of that name, so that the next call removes what a killed one has left.
    tried = out.with_name(f".{out.name}.tried")
    tried.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):  # removed by another command for the same place
        tried.rmdir()


def run_tags(**tags: str) -> dict[str, str]:
    """Tags of a tracked run: the given ones, user, host, commit, and Prefect's id of the flow run if there is one."""
    found = tags | {"mlflow.user": user(), "mlflow.source.name": f"concord {tags['job']}", "host": socket.gethostname()}
    if head := commit():
        found["mlflow.source.git.commit"] = head
    if flow := flow_run_id():
        found["prefect.flow_run"] = flow
    return found


def flow_run_id() -> str | None:
    """Prefect's id of the present flow run; None outside of one."""
    if "prefect" not in sys.modules:
        return None
    from prefect.runtime import flow_run

    found = flow_run.get_id()
    return str(found) if found else None


def user() -> str:
    """Name of the user, or the number if the system knows no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def commit() -> str | None:
    """Git commit of the current folder, where users keep rules and settings; None without one."""
    if shutil.which("git") is None:
        return None
    asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return asked.stdout.strip() or None if asked.returncode == 0 else None
