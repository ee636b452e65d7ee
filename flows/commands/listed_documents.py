"""Documents that a file lists by their ids: a text with an id a line, or a Parquet table, such as rejects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.columns import DOC_ID, raw_strings
from concord.schemas.errors import InputError
from concord.schemas.names import nearest
from concord.workers.storage.files import naming

PARQUET = ".parquet"


class ListError(InputError):
    """A file that lists no documents."""


def documents_asked_for(docs: Sequence[str], file: Path | None) -> tuple[str, ...] | None:
    """The ids that are given and those in a file; None where neither is there. Raises as `listed_documents`."""
    if not docs and file is None:
        return None
    return tuple(dict.fromkeys([*docs, *(() if file is None else listed_documents(file))]))


def listed_documents(path: Path) -> tuple[str, ...]:
    """The ids in a file, each once, in its order. Raises `ListError` and `OSError`."""
    with naming(path):
        found = _of_table(path) if path.suffix == PARQUET else _of_text(path)
    if not found:
        raise ListError(f"{path}: there is no id in it; give each document's id a line of its own")
    return tuple(dict.fromkeys(found))


def _of_text(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise ListError(f"{path}: is no text in UTF-8; give a file with an id a line, or a Parquet table") from error


def _of_table(path: Path) -> list[str]:
    try:
        schema = pq.read_schema(path)
        if DOC_ID not in schema.names:
            there = nearest(DOC_ID, dict.fromkeys(schema.names))
            raise ListError(f"{path}: there is no column {DOC_ID!r}{there}; ids are read from that")
        column = raw_strings(pq.read_table(path, columns=[DOC_ID])[DOC_ID])
        return [value.decode() for value in column.to_pylist() if value is not None]
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise ListError(f"{path}: is no Parquet file, or a damaged one ({reason})") from error
