"""Which MLflow run has the figures of what a folder holds: the same call needs MLflow no more."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from schemas.run import Figures
from schemas.secrets import place_of
from workers.storage.files import write_whole

TRACKED = ".tracked.json"


class Tracked(Figures):
    """The id of a run, the place of the MLflow that has it, and a digest of all that it was told of."""

    run: str
    place: str
    digest: str


def keep_tracked(out: Path, run: str, *, uri: str, digest: str) -> None:
    """Keeps in ``out`` that the run has it all. Raises `OutputError`."""
    kept = Tracked(run=run, place=place_of(uri), digest=digest)
    write_whole(out / TRACKED, kept.model_dump_json(indent=1).encode() + b"\n")


def tracked_run(out: Path, *, uri: str, digest: str) -> str | None:
    """The id of the run that has it all; None where no run at ``uri`` has."""
    try:
        kept = Tracked.model_validate_json((out / TRACKED).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return kept.run if (kept.place, kept.digest) == (place_of(uri), digest) else None
