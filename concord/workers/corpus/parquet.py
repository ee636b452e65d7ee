"""Finding, opening and reading Parquet files under a path or any `pyarrow.fs` URI, with errors that name the file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as fs
import pyarrow.parquet as pq

from concord.schemas.columns import Layout, check
from concord.schemas.errors import CorpusError
from concord.schemas.folders import FolderKind
from concord.workers.corpus.other_kinds import advice_for
from concord.workers.storage.folder_kinds import MANIFEST, kind_said

WRITE_OPTIONS: dict[str, Any] = {"compression": "zstd", "use_dictionary": True, "write_page_checksum": True}
"""Checksums let a reader tell a damaged page from a good one."""


T = TypeVar("T", pa.Table, pa.RecordBatch)


class ParquetLocation(NamedTuple):
    """Location of one Parquet file.

    - ``root``: URI under which it was found.
    - ``path``: its path in that file system.
    - ``name``: its name below the URI.
    """

    root: str
    path: str
    name: str


def resolve(uri: str | Path) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it of a local path or a URI such as ``s3://bucket/corpus``.

    Raises `CorpusError` for a URI of a kind that pyarrow does not know.
    """
    if isinstance(uri, str) and "://" in uri:
        try:
            system, path = fs.FileSystem.from_uri(uri)
        except (pa.ArrowException, OSError) as error:
            raise CorpusError(
                f"{uri}: cannot be opened ({error}); give a path or a file://, s3:// or gs:// URI"
            ) from error
        return system, path
    return fs.LocalFileSystem(), str(Path(uri).expanduser().absolute())


class ListedFile(NamedTuple):
    """A Parquet file as it was listed: another content differs in one of the last three.

    - ``location``: where it is.
    - ``size``: its bytes.
    - ``modified``: when its content was written, in nanoseconds since 1970.
    - ``changed``: when the disk was last told of a change of the file; 0 elsewhere than on a disk of this machine.
    """

    location: ParquetLocation
    size: int
    modified: int
    changed: int

    @property
    def id(self) -> str:
        """Its path, which is unique in a corpus; a file is a unit of work."""
        return self.location.path

    @property
    def place(self) -> str:
        """Its path, for messages."""
        return self.location.path


def parquet_files(uri: str | Path) -> list[ParquetLocation]:
    """The Parquet files at ``uri``, see `listed_files`."""
    return [file.location for file in listed_files(uri)]


def listed_files(uri: str | Path) -> list[ListedFile]:
    """The Parquet files at ``uri`` (a file, or a folder with all below it) in the order of their names.

    Names that start with ``_`` or ``.`` are side files and are left out. Raises `CorpusError`
    where nothing is found, and for a folder of another kind.
    """
    system, base = resolve(uri)
    try:
        info = system.get_file_info(base)
        entries = (
            system.get_file_info(fs.FileSelector(base, recursive=True)) if info.type == fs.FileType.Directory else []
        )
    except (pa.ArrowException, OSError) as error:
        raise CorpusError(f"{uri}: cannot be listed ({error}); check that it is there and may be read") from error
    if info.type == fs.FileType.NotFound:
        raise CorpusError.missing(uri)
    if info.type == fs.FileType.File:
        return [_listed(system, info, str(uri), info.base_name)]
    below = [(entry, entry.path[len(base.rstrip("/")) + 1 :]) for entry in entries if entry.is_file]
    _check_kind(uri, system, {name: entry.path for entry, name in below})
    files = [
        _listed(system, entry, str(uri), name)
        for entry, name in below
        if name.endswith(".parquet") and not any(part[0] in "_." for part in name.split("/"))
    ]
    if not files:
        raise CorpusError(f"{uri}: no .parquet files in this folder; make a corpus with `concord ingest`")
    return sorted(files, key=lambda file: file.location.name)


def _check_kind(uri: str | Path, system: fs.FileSystem, files: Mapping[str, str]) -> None:
    """Raises `CorpusError` for a folder of another kind, such as a run's; ``files``: path of each by its name."""
    if MANIFEST not in files:
        return
    with system.open_input_stream(files[MANIFEST]) as stream:
        kind = kind_said(stream.read())
    if kind is None or kind is FolderKind.CORPUS:
        return
    answers = (
        f"; `concord export predictions --run {uri} --form doccano --out FILE` and `concord ingest spans FILE --out "
        "FOLDER` make a corpus of its answers"
    )
    raise CorpusError(f"{uri}: this is {kind.phrase}, and no corpus{answers if kind is FolderKind.RUN else ''}")


def listed_file(location: ParquetLocation) -> ListedFile:
    """The file at a place as it stands now; of size 0 where it is gone."""
    system, _ = resolve(location.root)
    return _listed(system, system.get_file_info(location.path), location.root, location.name)


def _listed(system: fs.FileSystem, info: fs.FileInfo, root: str, name: str) -> ListedFile:
    changed = _changed(Path(info.path)) if isinstance(system, fs.LocalFileSystem) else 0
    return ListedFile(ParquetLocation(root, info.path, name), info.size or 0, info.mtime_ns or 0, changed)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_ctime_ns
    except FileNotFoundError:
        return 0  # gone since it was listed, which is said where it is opened


def open_parquet(file: ParquetLocation, *, buffer_bytes: int = 0) -> pq.ParquetFile:
    """Opens a file.

    A row group's bytes are fetched all at once, or ``buffer_bytes`` of a column at a time where this is not 0.
    Raises `CorpusError` where the file is missing, truncated or no Parquet file.
    """
    system, _ = resolve(file.root)
    try:
        return pq.ParquetFile(
            system.open_input_file(file.path),
            buffer_size=buffer_bytes,
            pre_buffer=not buffer_bytes,
            page_checksum_verification=True,
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if advice := advice_for(file.path):
            raise CorpusError(f"{file.path}: a corpus is Parquet, and this is none; {advice}") from None
        raise CorpusError(
            f"{file.path}: not a whole Parquet file ({error}); copy it again, or make the corpus anew with "
            "`concord ingest`"
        ) from error


def has_text_form(kind: pa.DataType) -> bool:
    """Is a value of the type written in one way only, so that it can be an id: a whole number, a date or a time?

    Fractions are not: 1 and 1.0 would be two ids.
    """
    types = pa.types
    return bool(types.is_integer(kind) or types.is_date(kind) or types.is_timestamp(kind))


def with_text_ids(schema: pa.Schema, name: str) -> pa.Schema:
    """The schema as rows are read under it: ids of a type that `has_text_form` are text; see `ids_as_text`."""
    place = schema.get_field_index(name)
    if place < 0 or not has_text_form(schema.field(place).type):
        return schema
    return schema.set(place, pa.field(name, pa.string()))


def row_ids(stem: str, first_row: int, count: int) -> pa.Array:
    """Ids of rows that have none: of the file's name and the row."""
    return pa.array([f"{stem}-{row:06d}" for row in range(first_row, first_row + count)], pa.string())


def ids_as_text(rows: T, name: str) -> T:
    """A table or batch whose column of ids is text, where it has that column and the type `has_text_form`."""
    place = rows.schema.get_field_index(name)
    if place < 0 or not has_text_form(rows.schema.field(place).type):
        return rows
    return rows.set_column(place, name, pc.cast(rows.column(place), pa.string()))


def read_row_group(parquet: pq.ParquetFile, file: ParquetLocation, row_group: int, columns: list[str]) -> pa.Table:
    """One row group's columns. Raises `CorpusError` where its bytes are damaged."""
    try:
        table = parquet.read_row_group(row_group, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise damaged(file, row_group, str(error)) from error
    for name in table.column_names:
        if not all(codes_are_known(chunk) for chunk in table[name].chunks):
            raise damaged(file, row_group, f"column {name!r} points outside its dictionary")
    return table


def damaged(file: ParquetLocation, row_group: int, what: str) -> CorpusError:
    """Makes the error for a row group whose bytes are damaged; ``what`` says how."""
    return CorpusError(
        f"{file.path}: row group {row_group} is damaged ({what}); the other row groups are not touched by this; "
        "copy the file again"
    )


def codes_are_known(column: pa.Array) -> bool:
    """Is every dictionary code of a column, or of its lists, in its dictionary?

    In a damaged file without checksums some may be outside.
    """
    values = column.flatten() if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) else column
    if not pa.types.is_dictionary(values.type):
        return True
    highest = pc.max(values.indices).as_py()
    return highest is None or highest < len(values.dictionary)


def read_tables(uri: str | Path, layout: Layout) -> Iterator[pa.Table]:
    """The files at ``uri``, one table a file, checked against ``layout``: predictions, times, rejects.

    Side files (``_rejects.parquet``) are read when named. Raises `CorpusError` and `SchemaError`.
    """
    for file in parquet_files(uri):
        parquet = open_parquet(file)
        check(parquet.schema_arrow, layout, source=file.path)
        try:
            table = parquet.read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise CorpusError(f"{file.path}: damaged ({error}); make it anew") from error
        yield table


def table_bytes(table: pa.Table) -> bytes:
    """The table as a Parquet file; equal tables give equal bytes."""
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, table.schema, **WRITE_OPTIONS) as writer:
        writer.write_table(table)
    return buffer.getvalue()
