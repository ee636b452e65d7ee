"""What MLflow could not be told at the end of a run, kept beside the output until it answers again."""

from __future__ import annotations

from pydantic import ValidationError

from concord.flows.errors import TrackingError
from concord.flows.screen.progress import say
from concord.flows.tracking.tracking import Outcome, Run, Tracking
from concord.schemas.secrets import place_of
from concord.schemas.shown import Report
from concord.workers.storage.storage import Storage

FOLDER = ".untracked"
"""In the output folder: a file a run."""


class Untracked(Report):
    """A run's outcome and the place of the MLflow that waits for it."""

    place: str
    run: str
    outcome: Outcome


def end_or_keep(run: Run, tracking: Tracking, outcome: Outcome, out: Storage) -> None:
    """Ends the run with its outcome. Where MLflow is gone, keeps it in ``out`` and raises `TrackingError`."""
    try:
        run.end(outcome)
    except TrackingError as error:
        kept = Untracked(place=place_of(tracking.uri), run=run.id, outcome=outcome)
        out.write(f"{FOLDER}/{run.id}.json", kept.model_dump_json(indent=1).encode() + b"\n")
        raise TrackingError(
            f"{error}; the output in {place_of(out.uri)} is finished, and the same command logs what MLflow has missed"
        ) from None


def catch_up(tracking: Tracking, out: Storage) -> None:
    """Tells MLflow what earlier runs into ``out`` could not. Raises `TrackingError`."""
    for name in sorted(out.names(FOLDER)):
        path = f"{FOLDER}/{name}"
        kept = _read(out.read(path))
        if kept is None:
            say(
                f"{place_of(out.uri)}: {path} cannot be read, so MLflow does not get the figures in it; delete the file"
            )
            continue
        if kept.place != place_of(tracking.uri):
            continue
        if tracking.finish(kept.run, kept.outcome):
            say(f"MLflow has now the figures of its run {kept.run}")
        else:
            say(f"MLflow no longer knows run {kept.run}, whose figures it had missed")
        out.remove([path])


def _read(data: bytes | None) -> Untracked | None:
    try:
        return Untracked.model_validate_json(data or b"")
    except ValidationError:
        return None  # of another version, or cut off by a full disk
