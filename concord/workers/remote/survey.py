"""Task of a survey: where a file of a corpus is cut into shards, see `workers.corpus.row_runs`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from concord.schemas.document import ScoreColumn
from concord.schemas.run import SHARD_BYTES
from concord.schemas.settings import TextSettings
from concord.workers.corpus.parquet import ListedFile
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.corpus.surveyed import SurveyedFile, surveyed_file
from concord.workers.remote.task import Task, nothing


class SurveyParts(NamedTuple):
    """What cuts depend on besides the rows: settings of raw text, size of a shard in bytes, column of scores."""

    text: TextSettings = DEFAULT_TEXT
    shard_bytes: int = SHARD_BYTES
    scores: ScoreColumn | None = None


def survey_file(file: ListedFile, parts: SurveyParts) -> SurveyedFile:
    """Reads a file and cuts it."""
    return surveyed_file(file, parts.text, parts.shard_bytes, parts.scores)


class FileCounts(NamedTuple):
    """Numbers of rows in runs, and of parts of files that cannot be read."""

    rows: int
    damages: int

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """The counts of all files together."""
        every = list(parts)
        return cls(sum(part.rows for part in every), sum(part.damages for part in every))


def _counts(file: SurveyedFile) -> FileCounts:
    return FileCounts(int(file.runs.rows.sum()), len(file.damages))


SURVEY = Task("survey", SurveyParts, run=survey_file, counts=_counts, rehearse=survey_file, warm=nothing)
