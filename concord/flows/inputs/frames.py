"""A table in memory as a corpus: a Parquet file beside the output, which workers and later nights read."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.folders import FolderKind
from concord.workers.corpus.parquet import table_bytes
from concord.workers.storage.files import write_whole
from concord.workers.storage.folder_kinds import check_kind

if TYPE_CHECKING:
    import pandas as pd

Corpus: TypeAlias = "str | PathLike[str] | pa.Table | pd.DataFrame"
"""Place of a corpus, or a table of documents."""

FOLDER_END, FILE = "-corpus", "frame.parquet"
"""End of the name of the folder, which begins with that of the output, and the file in it."""


def place_of_corpus(corpus: Corpus, out: str) -> str:
    """The place of a corpus; a table is written to the folder ``OUT-corpus``, where the last one of it is replaced.

    Equal tables give equal files, so the same call again does only what is not done yet. Raises `UsageError` for an
    output in an object store, `CorpusError` for a table that Parquet cannot hold, and `OutputError` where that folder
    is something else.
    """
    if isinstance(corpus, str | PathLike):
        return fspath(corpus)
    if "://" in out:
        raise UsageError(f"{out}: a table in memory is kept beside an output on a disk; write it to Parquet yourself")
    folder = Path(out).expanduser()
    place = folder.with_name(folder.name + FOLDER_END)
    check_kind(place, FolderKind.CORPUS)
    write_whole(place / FILE, table_bytes(_table(corpus)))
    return str(place)


def _table(frame: pa.Table | pd.DataFrame) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    except (pa.ArrowException, TypeError) as error:
        raise CorpusError(f"the frame cannot be a table: {error}; give columns of one type each") from None
