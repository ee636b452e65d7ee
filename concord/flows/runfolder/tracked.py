"""Which MLflow run has the figures of what a folder holds: the same call needs MLflow no more."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import ValidationError

from concord.flows.environment import home
from concord.schemas.secrets import place_of
from concord.schemas.shown import Report
from concord.workers.storage.files import write_whole
from concord.workers.storage.storage import Storage

FOLDER = "tracked"
"""In `home`: a file an output folder, whose own files are the same however the run went."""


class Tracked(Report):
    """The id of a run, the place of the MLflow that has it, and a digest of all that it was told of."""

    run: str
    place: str
    digest: str


def keep_tracked(out: Storage, run: str, *, uri: str, digest: str) -> None:
    """Keeps that the run has all of ``out``. Raises `OutputError`."""
    kept = Tracked(run=run, place=place_of(uri), digest=digest)
    write_whole(_file_of(out), kept.model_dump_json(indent=1).encode() + b"\n")


def tracked_run(out: Storage, *, uri: str, digest: str) -> str | None:
    """The id of the run that has it all; None where no run at ``uri`` has."""
    try:
        kept = Tracked.model_validate_json(_file_of(out).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return kept.run if (kept.place, kept.digest) == (place_of(uri), digest) else None


def _file_of(out: Storage) -> Path:
    name = hashlib.sha256(place_of(out.uri).encode()).hexdigest()[:16]
    return home() / FOLDER / f"{name}.json"
