"""Planning: the shards of a corpus, and the order in which they are handed out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from concord.schemas.columns import SchemaError
from concord.schemas.document import ScoreColumn
from concord.schemas.errors import CorpusError
from concord.schemas.run import SHARD_BYTES
from concord.schemas.settings import TextSettings
from concord.workers.corpus.chosen_rows import chosen_runs
from concord.workers.corpus.correction_file import NO_FILE, CorrectionFile, shards_with
from concord.workers.corpus.parquet import ParquetLocation, listed_files
from concord.workers.corpus.repeated_ids import repeated_ids
from concord.workers.corpus.run_table import RunTable
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard
from concord.workers.corpus.surveyed import SurveyedFile, surveyed_file


class Survey(NamedTuple):
    """What a corpus holds.

    - ``shards``: in the order of file names and rows.
    - ``damages``: errors of the parts that cannot be read.
    - ``columns``: token columns of each file that has rows.
    """

    shards: ShardTable
    damages: list[CorpusError]
    columns: Mapping[ParquetLocation, tuple[str, ...]]


def survey(
    uri: str | Path,
    *,
    text: TextSettings = DEFAULT_TEXT,
    shard_bytes: int = SHARD_BYTES,
    scores: ScoreColumn | None = None,
    only: Collection[str] | None = None,
    corrections: CorrectionFile = NO_FILE,
) -> Survey:
    """The shards of the corpus at ``uri``: a Parquet file, a folder or a `pyarrow.fs` URI.

    With ``only`` the shards hold the rows of the documents with these ids, and no others. ``corrections`` are of
    documents of the corpus.

    A shard is a run of consecutive rows of a file. Cuts between shards depend on the content of rows (`row_runs`).
    Shards come in the order of file names and rows.

    The id of a shard is a digest of the rows' content (the column ``scores`` included), and of which rows repeat the
    document id of an earlier row. It does not depend on workers, file names, row groups or compression.

    A damaged file or row group does not keep the others from being read. Raises `CorpusError` where nothing can be
    read, and `SchemaError`, which names the file, for a file with the wrong columns.
    """
    files = (surveyed_file(file, text, shard_bytes, scores) for file in listed_files(uri))
    return joined_survey(files, text=text, scores=scores, only=only, corrections=corrections)


def joined_survey(
    files: Iterable[SurveyedFile],
    *,
    text: TextSettings,
    scores: ScoreColumn | None,
    only: Collection[str] | None = None,
    corrections: CorrectionFile = NO_FILE,
) -> Survey:
    """The survey of a corpus of these files, in their order. Raises as `survey`, at the first file that is wrong."""
    runs: list[RunTable] = []
    damages: list[CorpusError] = []
    columns: dict[ParquetLocation, tuple[str, ...]] = {}
    first: SurveyedFile | None = None
    for file in files:
        if file.wrong is not None:
            raise file.wrong
        damages += file.damages
        if len(file.runs):
            runs.append(file.runs)
            columns[file.file.location] = file.columns
            first = first or file
            if file.kept_columns != first.kept_columns:
                raise SchemaError(
                    f"{file.file.location.path}: {', '.join(file.kept_columns)} are kept, but of "
                    f"{first.file.location.path} {', '.join(first.kept_columns)}; give a column one type in all files"
                )
    if damages and not runs:
        raise damages[0]
    if only is not None:
        runs = chosen_runs(runs, only, text, scores)
        columns = {table.file: columns[table.file] for table in runs}
    placed = shards_with(runs, corrections.of_documents(only), text, scores)
    return Survey(ShardTable.of(runs, repeated_ids(runs, text, scores), scores, placed), damages, columns)


def plan(
    uri: str | Path,
    *,
    text: TextSettings = DEFAULT_TEXT,
    shard_bytes: int = SHARD_BYTES,
    scores: ScoreColumn | None = None,
    only: Collection[str] | None = None,
    corrections: CorrectionFile = NO_FILE,
) -> ShardTable:
    """Shards of an undamaged corpus, see `survey`. Raises `CorpusError` for the first damaged part."""
    shards, damages, _ = survey(
        uri, text=text, shard_bytes=shard_bytes, scores=scores, only=only, corrections=corrections
    )
    if damages:
        raise damages[0]
    return shards


class Unit(Protocol):
    """Unit of work that a pool hands to one worker: a shard, or other work such as a trial."""

    @property
    def id(self) -> str:
        """Identifier of the unit."""
        ...

    @property
    def size(self) -> int:
        """Size of the unit, in bytes to read."""
        ...

    @property
    def place(self) -> str:
        """Description of the unit, for messages."""
        ...


U = TypeVar("U", bound=Unit)


def largest_first(shards: Sequence[U]) -> Iterator[U]:
    """Shards by size class, largest first, so that shards with huge documents do not end last.

    A size class is a factor of 2. Within a class, such as that of all ordinary shards, shards keep the order of rows,
    which is the cheapest to read in.
    """
    classes = np.fromiter(((shard.size // (2 * SHARD_BYTES)).bit_length() for shard in shards), np.int8, len(shards))
    return (shards[place] for place in np.argsort(-classes, kind="stable"))


def distinct(shards: Sequence[Shard]) -> list[Shard]:
    """Shards without duplicates: of shards with equal rows, whose output is equal, only one is kept."""
    return list({shard.id: shard for shard in shards}.values())
