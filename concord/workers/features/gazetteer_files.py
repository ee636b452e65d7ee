"""Gazetteer files: phrases with types, as text or Parquet from users, or as Parquet in a model folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.errors import InputError
from concord.workers.features.gazetteers import LONGEST, Gazetteer, PhraseEntry
from concord.workers.storage.files import write_whole
from concord.workers.storage.tables import TableFileError, read_table

PHRASE, TYPE = COLUMNS = ("phrase", "type")


class GazetteerFileError(InputError):
    """A file of phrases that is missing or damaged; the message names the file, the row, the field and the fault."""


def read_entries(path: Path) -> Iterator[PhraseEntry]:
    """Phrases of a file and their types, in order.

    A ``.parquet`` file has the columns ``phrase`` (a text or a list of words) and ``type``. Any other file is text in
    UTF-8; each line has a phrase, a tab and a type. Spaces separate the words of a text. Raises `GazetteerFileError`,
    and `OSError`.
    """
    if not path.is_file():
        raise GazetteerFileError(f"{path}: there is no such file of phrases")
    for place, phrase, kind in _parquet(path) if path.suffix == ".parquet" else _text(path):
        yield _entry(f"{path}: {place}", phrase, kind)


def _entry(place: str, phrase: Any, kind: Any) -> PhraseEntry:
    words = tuple(phrase.split() if isinstance(phrase, str) else phrase or ())
    if not words or None in words:
        raise GazetteerFileError(f"{place}: the {PHRASE} is missing")
    if len(words) > LONGEST:
        raise GazetteerFileError(f"{place}: the {PHRASE} has {len(words)} words, at most {LONGEST} can be looked up")
    if not kind:
        raise GazetteerFileError(f"{place}: the {TYPE} of {' '.join(words)!r} is missing")
    return words, kind


def _text(path: Path) -> Iterator[tuple[str, str, str]]:
    """Place, phrase and type of each line that is not empty."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                fields = line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r\n").split("\t")
            except UnicodeDecodeError as error:
                raise GazetteerFileError(f"{path}: line {number}: not UTF-8 ({error})") from error
            if fields == [""]:
                continue
            if len(fields) != len(COLUMNS):
                raise GazetteerFileError(
                    f"{path}: line {number}: want a phrase, a tab and its type, found {len(fields) - 1} tabs"
                )
            yield f"line {number}", fields[0], fields[1].strip()


def _parquet(path: Path) -> Iterator[tuple[str, Any, Any]]:
    """Place, phrase and type of each row."""
    try:
        table = read_table(path)
    except TableFileError as error:
        raise GazetteerFileError(f"{path}: {error}") from error
    kinds = {field.name: field.type for field in table.schema}
    if not _is_text(kinds.get(TYPE)) or not (_is_text(kinds.get(PHRASE)) or _is_words(kinds.get(PHRASE))):
        raise GazetteerFileError(
            f"{path}: wants a column {PHRASE!r} of strings or of lists of strings and a column {TYPE!r} of strings, "
            f"has {', '.join(f'{name!r} ({kind})' for name, kind in kinds.items())}"
        )
    for row, (phrase, kind) in enumerate(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True), 1):
        yield f"row {row}", phrase, kind


def _is_text(kind: pa.DataType | None) -> bool:
    return kind is not None and bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_words(kind: pa.DataType | None) -> bool:
    return (
        kind is not None and bool(pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_text(kind.value_type)
    )


def write_phrases(path: Path, entries: Sequence[PhraseEntry]) -> None:
    """Writes a file that `read_entries` reads: Parquet by its ending, otherwise text. Raises `OutputError`."""
    if path.suffix == ".parquet":
        write_gazetteer(path, Gazetteer.of((entry, None) for entry in entries))
        return
    write_whole(path, "".join(f"{' '.join(words)}\t{kind}\n" for words, kind in entries).encode())


def read_gazetteer(path: Path) -> Gazetteer:
    """The list of a file. Raises as `read_entries` does."""
    return Gazetteer.of((entry, None) for entry in read_entries(path))


def write_gazetteer(path: Path, gazetteer: Gazetteer) -> None:
    """Writes phrases and types in one step, without the documents they come from; equal lists give equal bytes.

    Raises `OutputError`.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({PHRASE: gazetteer.phrases, TYPE: gazetteer.types}), sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())
