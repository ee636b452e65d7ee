"""What a survey finds in a file of a corpus."""

from __future__ import annotations

from typing import NamedTuple

from concord.schemas.columns import SchemaError
from concord.schemas.document import ScoreColumn
from concord.schemas.errors import CorpusError
from concord.schemas.settings import TextSettings
from concord.workers.corpus.parquet import ListedFile
from concord.workers.corpus.row_runs import RowRun, row_runs
from concord.workers.corpus.run_table import RunTable
from concord.workers.corpus.shards import file_columns, kept_columns_of


class SurveyedFile(NamedTuple):
    """A file that was read.

    - ``file``: the file as it was listed.
    - ``columns``: token columns that its documents have; none where the file cannot be opened.
    - ``runs``: in the order of its rows.
    - ``damages``: errors of its parts that cannot be read.
    - ``wrong``: the error of a file with the wrong columns, of which nothing can be read.
    - ``kept_columns``: columns that predictions have, too, each with its type.
    """

    file: ListedFile
    columns: tuple[str, ...]
    runs: RunTable
    damages: tuple[CorpusError, ...] = ()
    wrong: SchemaError | None = None
    kept_columns: tuple[str, ...] = ()

    @classmethod
    def unread(cls, file: ListedFile, damage: CorpusError) -> SurveyedFile:
        """A file of which nothing can be read."""
        return cls(file, (), RunTable.of(file.location, ()), damages=(damage,))

    @property
    def is_whole(self) -> bool:
        """Could all of it be read?"""
        return self.wrong is None and not self.damages


def surveyed_file(file: ListedFile, text: TextSettings, run_bytes: int, scores: ScoreColumn | None) -> SurveyedFile:
    """Reads a file, and cuts it into runs of about ``run_bytes`` bytes of text, see `workers.corpus.row_runs`."""
    try:
        columns, kept_columns = tuple(file_columns(file.location, text)), kept_columns_of(file.location, text)
        parts = list(row_runs(file.location, text, run_bytes, scores))
    except CorpusError as error:
        return SurveyedFile.unread(file, error)
    except SchemaError as error:
        return SurveyedFile(file, (), RunTable.of(file.location, ()), wrong=error)
    runs = RunTable.of(file.location, [part for part in parts if isinstance(part, RowRun)])
    damages = tuple(part for part in parts if isinstance(part, CorpusError))
    return SurveyedFile(file, columns, runs, damages, kept_columns=kept_columns)
