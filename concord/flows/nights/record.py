"""The record of an output folder: a line a run, added at its end, the oldest of very many left out.

The record is `RECORD` in the output, a JSON object a line. A run writes it anew with its line added, whole or not at
all. Once there are `MOST_NIGHTS` lines, the last `KEPT_NIGHTS` are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import ValidationError

from concord.flows.errors import TakenBackError
from concord.flows.inputs.jobs import run_tags
from concord.flows.runfolder.layout import MANIFEST, staged_prefix
from concord.flows.screen.progress import say
from concord.schemas.changes import AddedChanges
from concord.schemas.drift import NightBefore
from concord.schemas.nights import NightLine
from concord.schemas.run import ShardReport
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import redact
from concord.workers.drift.chart import NightScore
from concord.workers.storage.files import OutputError
from concord.workers.storage.storage import Storage

RECORD = ".nights.jsonl"
CONTENT = "dataset"
"""Digest of the corpus, which differs most nights; what it changed is told by documents that differ."""

KEPT_NIGHTS = 1_000
MOST_NIGHTS = 1_200


class Record(NamedTuple):
    """The lines of a record, oldest first, and how many could not be read."""

    nights: tuple[NightLine, ...] = ()
    unread: int = 0

    @property
    def last(self) -> int:
        """Number of the last night; 0 for none."""
        return self.nights[-1].night if self.nights else 0

    @property
    def published(self) -> NightLine | None:
        """The night that readers have; None before the first one."""
        return next((night for night in reversed(self.nights) if night.published), None)

    @property
    def number_published(self) -> int:
        """Its number; 0 for none."""
        return 0 if self.published is None else self.published.night

    def charts(self) -> list[dict[str, NightScore]]:
        """The scores of all nights that have some, oldest first; none of a night that a rollback took back."""
        back = [(line.rolled_back_to, line.night) for line in self.nights if line.rolled_back_to]
        nights = (n for n in self.nights if n.chart and not any(first < n.night < last for first, last in back))
        return [{name: NightScore(*score) for name, score in night.chart.items()} for night in nights]

    def with_manifest(self, manifest: bytes) -> NightLine | None:
        """The last run that published a manifest; None where no line has it."""
        key = staged_prefix(manifest)
        runs = (night for night in reversed(self.nights) if night.rolled_back_to is None)
        return next((night for night in runs if night.manifest == key), None)


def read_record(storage: Storage) -> Record:
    """The record of a run's output, which may have none.

    Raises `OSError` and `OutputError` where it cannot be read.
    """
    lines = (storage.read(RECORD) or b"").splitlines()
    read = [night for night in map(_night, lines) if night is not None]
    return Record(tuple(read), len(lines) - len(read))


def _night(line: bytes) -> NightLine | None:
    try:
        return NightLine.model_validate_json(line)
    except ValidationError:
        return None  # of another version, or edited


def night_before(storage: Storage, request: Mapping[str, object]) -> NightBefore | None:
    """The night that readers have of an output, beside what a run asks for; None where none is recorded."""
    try:
        last = read_record(storage).published
    except (OSError, OutputError):
        return None  # `keep_night` tells it
    if last is None:
        return None
    return NightBefore(night=last.night, time=last.time, otherwise=asked_otherwise(last.asked, _recorded(request)))


def asked_otherwise(last: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """What was asked for otherwise, before and now; None where it was not given."""
    names = sorted((last.keys() | now.keys()) - {CONTENT})
    return {name: (last.get(name), now.get(name)) for name in names if last.get(name) != now.get(name)}


def _recorded(request: Mapping[str, object]) -> dict[str, str]:
    """What was asked for, as the record has it."""
    return {name: redact(str(value)) for name, value in request.items() if value is not None}


def keep_night(
    storage: Storage,
    report: RunReport,
    *,
    tags: Mapping[str, str],
    asked: Mapping[str, object],
    chart: Mapping[str, NightScore] | None = None,
) -> None:
    """Adds a run to the record: how it ended, the tags and parameters of its MLflow run, and its scores.

    A record that cannot be read or written is told, and ends nothing: the output is what was asked for.
    """
    try:
        _add(storage, report, tags, asked, chart or {})
    except (OSError, OutputError) as error:
        say(f"this run is missing in the folder's record: {error}", style="yellow")


def _add(
    storage: Storage,
    report: RunReport,
    tags: Mapping[str, str],
    asked: Mapping[str, object],
    chart: Mapping[str, NightScore],
) -> None:
    record = read_record(storage)
    line = NightLine.of(record.last + 1, _now(), report, tags=dict(tags), asked=_recorded(asked))
    scores = {name: (round(score.z, 4), round(score.size, 4)) for name, score in chart.items()}
    # MLflow has the other movements.
    drift = None if line.drift is None else line.drift.model_copy(update={"movements": line.drift.breaches})
    _append(storage, record, line.model_copy(update={"chart": scores, "drift": drift}))


def keep_stopped(storage: Storage, error: BaseException, *, tags: Mapping[str, str]) -> None:
    """Adds a run to the record that ended before it labelled, by what was raised.

    A record that cannot be read or written is told, and ends nothing.
    """
    try:
        record = read_record(storage)
        line = NightLine.of_stopped(
            record.last + 1,
            _now(),
            redact(str(error)),
            tags=tags,
            withheld=isinstance(error, TakenBackError),
            cancelled=not isinstance(error, Exception),
        )
        _append(storage, record, line)
    except (OSError, OutputError) as unwritten:
        say(f"this run is missing in the folder's record: {unwritten}", style="yellow")


def keep_rollback(
    storage: Storage, again: NightLine | None, totals: ShardReport, *, changes: AddedChanges | None, seconds: float
) -> None:
    """Adds a rollback to the record: to the run with these counts, and with that line, if it has one.

    A record that cannot be read or written is told, and ends nothing.
    """
    try:
        record = read_record(storage)
        tags = run_tags(job="rollback")
        line = NightLine.of_rollback(
            record.last + 1, _now(), again, totals, changes=changes, tags=tags, seconds=seconds
        )
        _append(storage, record, line)
    except (OSError, OutputError) as error:
        say(f"this rollback is missing in the folder's record: {error}", style="yellow")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _append(storage: Storage, record: Record, line: NightLine) -> None:
    """Adds a line, with the key of the manifest that readers have now."""
    manifest = storage.read(MANIFEST) if line.published else None
    data = _line(line.model_copy(update={"manifest": "" if manifest is None else staged_prefix(manifest)}))
    if len(record.nights) + record.unread + 1 >= MOST_NIGHTS:
        earlier = b"".join(map(_line, record.nights[1 - KEPT_NIGHTS :]))
    else:
        earlier = b"".join(line + b"\n" for line in (storage.read(RECORD) or b"").splitlines())
    storage.write(RECORD, earlier + data)


def _line(night: NightLine) -> bytes:
    return night.model_dump_json().encode() + b"\n"
