"""Documents that a file lists by their ids: a text with an id a line, or a Parquet table, such as rejects."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from concord.schemas.columns import DOC_ID, raw_strings
from concord.schemas.errors import InputError
from concord.schemas.names import nearest
from concord.schemas.secrets import place_of, short_name
from concord.workers.storage.storage import file_bytes
from concord.workers.storage.tables import unthreaded_file

PARQUET = ".parquet"


class ListError(InputError):
    """A file that lists no documents."""


def documents_asked_for(docs: Sequence[str], file: str | None) -> tuple[str, ...] | None:
    """The ids that are given and those in a file; None where neither is there. Raises as `listed_documents`."""
    if not docs and file is None:
        return None
    return tuple(dict.fromkeys([*docs, *(() if file is None else listed_documents(file))]))


def listed_documents(place: str) -> tuple[str, ...]:
    """The ids in a file at a path or a URI, each once, in its order. Raises `ListError` and `OSError`."""
    data, named = file_bytes(place), place_of(place)
    found = _of_table(data, named) if short_name(place).endswith(PARQUET) else _of_text(data, named)
    if not found:
        raise ListError(f"{named}: there is no id in it; give each document's id a line of its own")
    return tuple(dict.fromkeys(found))


def _of_text(data: bytes, named: str) -> list[str]:
    try:
        return [line for line in data.decode().splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise ListError(f"{named}: is no text in UTF-8; give a file with an id a line, or a Parquet table") from error


def _of_table(data: bytes, named: str) -> list[str]:
    try:
        file = unthreaded_file(data)
        if DOC_ID not in file.schema_arrow.names:
            there = nearest(DOC_ID, dict.fromkeys(file.schema_arrow.names))
            raise ListError(f"{named}: there is no column {DOC_ID!r}{there}; ids are read from that")
        column = raw_strings(file.read(columns=[DOC_ID], use_threads=False)[DOC_ID])
        return [value.decode() for value in column.to_pylist() if value is not None]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise ListError(f"{named}: is no Parquet file, or a damaged one ({reason})") from error
