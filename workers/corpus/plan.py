"""Which shards a corpus has, and in which order they are handed out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from concord.schemas.document import ScoreColumn
from concord.schemas.errors import CorpusError
from concord.schemas.run import SHARD_BYTES
from concord.schemas.settings import TextSettings
from concord.workers.corpus.parquet import parquet_files
from concord.workers.corpus.repeated_ids import Repeats, repeated_ids
from concord.workers.corpus.row_runs import RowRun, row_runs
from concord.workers.corpus.shards import DEFAULT_TEXT, Shard


class Survey(NamedTuple):
    """The shards of a corpus, and why other parts of it cannot be read."""

    shards: list[Shard]
    damages: list[CorpusError]


def survey(
    uri: str | Path,
    *,
    text: TextSettings = DEFAULT_TEXT,
    shard_bytes: int = SHARD_BYTES,
    scores: ScoreColumn | None = None,
) -> Survey:
    """The shards of the corpus at ``uri``: a Parquet file, a folder or a `pyarrow.fs` URI.

    A shard is a run of rows of a file, cut by what they hold (`row_runs`), in the order of file names and
    rows. Its id is made of the rows and of which have an id that an earlier row has, so it depends neither on
    workers nor on file names, row groups or compression. The column ``scores`` counts as theirs. A file or row
    group that is damaged leaves the others. Raises `CorpusError` where nothing can be read, and `SchemaError` for
    a file with the wrong columns, naming it.
    """
    found = [part for file in parquet_files(uri) for part in row_runs(file, text, shard_bytes, scores)]
    runs = [part for part in found if isinstance(part, RowRun)]
    damages = [part for part in found if isinstance(part, CorpusError)]
    if damages and not runs:
        raise damages[0]
    repeats = repeated_ids(runs, text, scores)
    return Survey([_shard(run, here, scores) for run, here in zip(runs, repeats, strict=True)], damages)


def plan(
    uri: str | Path,
    *,
    text: TextSettings = DEFAULT_TEXT,
    shard_bytes: int = SHARD_BYTES,
    scores: ScoreColumn | None = None,
) -> list[Shard]:
    """The shards of a corpus that is whole, see `survey`. Raises `CorpusError` for the first part that is damaged."""
    found = survey(uri, text=text, shard_bytes=shard_bytes, scores=scores)
    if found.damages:
        raise found.damages[0]
    return found.shards


class Unit(Protocol):
    """What a pool hands out: a shard, or other work that one worker does at once. ``size`` says how much it is."""

    @property
    def id(self) -> str:
        """Which one it is."""
        ...

    @property
    def size(self) -> int:
        """Bytes that are read."""
        ...

    @property
    def place(self) -> str:
        """What it is, for messages."""
        ...


U = TypeVar("U", bound=Unit)


def largest_first(shards: Sequence[U]) -> list[U]:
    """The shards by falling size in steps of a factor of 2, so that those with huge documents are not the last to end.

    Within a step, such as that of all ordinary shards, they keep the order of rows, the cheap one to read in.
    """
    return sorted(shards, key=lambda shard: -(shard.size // (2 * SHARD_BYTES)).bit_length())


def distinct(shards: Sequence[Shard]) -> list[Shard]:
    """The shards without those whose rows another one has: what is done of equal rows is equal."""
    return list({shard.id: shard for shard in shards}.values())


def _shard(run: RowRun, repeats: Repeats, scores: ScoreColumn | None) -> Shard:
    """What is a repeat depends on rows elsewhere, so a change there makes the shard another one."""
    state = f"{run.digest} {[row for row, _ in repeats]}"
    name = hashlib.sha256(state.encode()).hexdigest()[:32]
    return Shard(name, run.file, run.first_row, run.rows, run.size, run.digest, repeats, scores=scores)
