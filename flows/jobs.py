"""What the flows have in common: places that hold wherever a worker runs, and what a tracked run belongs to."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from prefect.runtime import flow_run

from flows.cluster.counting import failed_message
from flows.runfolder.runfolder import RunFolderError
from schemas.errors import InputError, ServiceError, ShardsError
from schemas.run import RunReport
from schemas.secrets import place_of
from workers.corpus.parquet import resolve
from workers.models.folder import MANIFEST, ModelError


class ShardsFailedError(ShardsError):
    """Some shards failed; the others are done, and the same call tries the failed ones again.

    ``report`` is of the whole run; its ``errors`` say of each failed shard which rows it has and why it failed.
    """

    def __init__(self, report: RunReport) -> None:
        every = report.shards_done + report.shards_skipped + report.shards_failed
        super().__init__(failed_message(report.errors, every))
        self.report = report


class NothingLabelledError(InputError):
    """A corpus of rejects alone. They are published with their reasons; ``report`` is of the run."""

    def __init__(self, reason: str, report: RunReport) -> None:
        super().__init__(f"none of the {report.rejected} documents could be labelled: {reason}")
        self.report = report


class UntrackedError(ServiceError):
    """MLflow went away during the run. The output is finished; the same call logs what MLflow has missed."""

    def __init__(self, reason: str, report: RunReport) -> None:
        super().__init__(reason)
        self.report = report


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


def check_apart(out: str, corpus: str) -> None:
    """Raises `RunFolderError` where the folder for output is the corpus, in it or around it; see `folder_place`."""
    if "://" in corpus and not corpus.startswith("file://"):
        return
    folder, source = Path(out).resolve(), Path(resolve(corpus)[1]).resolve()
    if folder == source or folder in source.parents or source in folder.parents:
        raise RunFolderError(f"--out {out}: the corpus is at {source}; give a folder apart from it")


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
    """The tags of a tracked run, with Prefect's id of the flow run where there is one."""
    found = flow_run.get_id()
    return tags | ({"prefect.flow_run": str(found)} if found else {})
