"""What the flows have in common: places that hold wherever a worker runs, and what a tracked run belongs to."""

from __future__ import annotations

import re
from pathlib import Path

from prefect.runtime import flow_run

from flows.runfolder import RunFolderError


def corpus_place(corpus: str) -> str:
    """A URI as it is, a path as an absolute one."""
    return corpus if "://" in corpus else str(Path(corpus).expanduser().absolute())


def folder_place(out: str) -> str:
    """An absolute path. Raises `RunFolderError` for a URI, also one that went through `Path`."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", out):
        raise RunFolderError(f"--out {out}: give a folder that driver and workers share, not a URI")
    return str(Path(out).expanduser().absolute())


def run_tags(**tags: str) -> dict[str, str]:
    """The tags of a tracked run, with Prefect's id of the flow run where there is one."""
    found = flow_run.get_id()
    return tags | ({"prefect.flow_run": str(found)} if found else {})
