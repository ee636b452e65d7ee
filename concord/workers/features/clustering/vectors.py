"""Reads word vectors that others have learned: text and binary of word2vec and GloVe, NumPy, Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.errors import InputError
from concord.workers.features.clustering.packed import unpacked


class VectorError(InputError):
    """A file of word vectors that is missing or damaged; the message names the file, the place and the fault."""


class Vectors(NamedTuple):
    """Distinct words (V), in the order of the file, and their vectors (V, d)."""

    words: list[str]
    points: Floats


VectorEntry = tuple[str, NDArray[np.float64]]


def read_vectors(path: Path, most: int, *, words: Path | None = None, words_option: str = "--words FILE") -> Vectors:
    """The first ``most`` words of a file and their vectors; files list the most frequent words first.

    The file's extension decides its form:

    - ``.npy``: array (V, d). Its words are in the file ``words``, or in one of the same name beside it, see `_listed`;
      ``words_option`` is how a message says to name it.
    - ``.parquet``: a column of strings and one of lists.
    - ``.bin``: binary form of word2vec.
    - others: text, maybe ``.gz``; each line is a word and its numbers. A first line of two counts is allowed.

    Raises `VectorError`, and `OSError`.
    """
    for needed in filter(None, (path, words)):
        if not needed.is_file():
            raise VectorError(f"{needed}: there is no such file")
    if path.suffix == NUMPY:
        return _checked(path, islice(_numpy(path, words or _beside(path, words_option)), most))
    if words is not None:
        raise VectorError(f"{path}: its words stand in it; a file of words goes with a {NUMPY} array alone")
    return _checked(path, islice(VECTOR_READERS.get(path.suffix, _text)(path), most))


def _checked(path: Path, entries: Iterator[VectorEntry]) -> Vectors:
    """All entries; of a word that comes again the first counts."""
    found: dict[str, NDArray[np.float64]] = {}
    size = None
    for number, (word, point) in enumerate(entries, 1):
        size = len(point) if size is None else size
        if len(point) != size or size == 0:
            raise VectorError(f"{path}: entry {number}, {word!r}: {len(point)} numbers, the first has {size}")
        if not np.isfinite(point).all():
            raise VectorError(f"{path}: entry {number}, {word!r}: a number is not finite")
        found.setdefault(word, point)
    if not found:
        raise VectorError(f"{path}: there are no vectors in it")
    return Vectors(list(found), np.stack(list(found.values())))


def _text(path: Path) -> Iterator[VectorEntry]:
    size = None
    with unpacked(path, VectorError) as file:
        for number, line in enumerate(file, 1):
            parts = line.split()
            if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                size = int(parts[1])
            elif parts:
                size = len(parts) - 1 if size is None else size
                yield _line(path, number, line, size)


def _line(path: Path, number: int, line: bytes, size: int) -> VectorEntry:
    """A word, which may hold spaces, and ``size`` numbers."""
    parts = line.rstrip().rsplit(b" ", size)
    try:
        word, point = parts[0].decode(), np.array(parts[1:], np.float64)
    except ValueError as error:
        raise VectorError(f"{path}: line {number}: not a word in UTF-8 and {size} numbers ({error})") from error
    if len(point) != size:
        hint = "; for a tree of words there is `concord clusters paths`" if line.count(b"\t") == 2 else ""
        raise VectorError(f"{path}: line {number}: {len(point)} numbers after {word!r}, want {size}{hint}")
    return word, point


def _binary(path: Path) -> Iterator[VectorEntry]:
    with path.open("rb") as file:
        header = file.readline(100).split()
        if len(header) != 2 or not all(part.isdigit() for part in header):
            raise VectorError(f"{path}: does not start with the numbers of words and dimensions; is it word2vec's?")
        count, size = map(int, header)
        for number in range(1, count + 1):
            word = _until_space(file)
            data = file.read(4 * size)
            if len(data) < 4 * size:
                raise VectorError(f"{path}: ends in entry {number} of {count}; was the file cut?")
            try:
                yield word.decode(), np.frombuffer(data, "<f4").astype(np.float64)
            except UnicodeDecodeError as error:
                raise VectorError(f"{path}: entry {number}: the word {word!r} is not UTF-8") from error


def _until_space(file: IO[bytes]) -> bytes:
    """A word; some writers end each vector with a line feed."""
    letters = bytearray()
    while (letter := file.read(1)) not in (b" ", b""):
        letters += letter
    return bytes(letters).lstrip(b"\n")


def _beside(path: Path, option: str) -> Path:
    """The file with the words of an array: of its name, or the only list beside it.

    Raises `VectorError`, which names the option for another place.
    """
    for suffix in WORD_LISTS:
        if (found := path.with_suffix(suffix)).is_file():
            return found
    lists = [file for file in path.parent.iterdir() if file.suffix in WORD_LISTS]
    if len(lists) == 1:
        return lists[0]
    names = " or ".join(path.with_suffix(suffix).name for suffix in WORD_LISTS)
    raise VectorError(
        f"{path}: an array has no words; name the file with them, one a row, by {option}, or have it beside as {names}"
    )


def _numpy(path: Path, names: Path) -> Iterator[VectorEntry]:
    try:
        points = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise VectorError(f"{path}: not an array of NumPy ({error})") from error
    words = _listed(names)
    if points.ndim != 2 or points.dtype.kind != "f" or len(points) != len(words):
        raise VectorError(f"{path}: {points.dtype} of shape {points.shape} for the {len(words)} words of {names}")
    for word, point in zip(words, points, strict=True):
        yield word, np.asarray(point, np.float64)


def _listed(path: Path) -> list[str]:
    """Words of an array, in the order of its rows.

    A text has a word on each line. Parquet has one column of strings; if a column of whole numbers has each of 0 to
    V − 1 once, these are the rows, otherwise the words are in order.
    """
    if path.suffix != PARQUET:
        try:
            return path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise VectorError(f"{path}: a list of words has to be text in UTF-8 ({error})") from error
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise VectorError(f"{path}: not a Parquet file ({error})") from error
    names = [field.name for field in table.schema if _is_text(field.type)]
    if len(names) != 1 or table[names[0]].null_count:
        raise VectorError(f"{path}: wants one column of strings without gaps, has {table.schema.names}")
    words: list[str] = table[names[0]].to_pylist()
    rows = [column.to_numpy() for column in table.columns if pa.types.is_integer(column.type) and not column.null_count]
    rows = [column for column in rows if np.array_equal(np.sort(column), np.arange(len(words)))]
    if any(not np.array_equal(column, rows[0]) for column in rows):
        raise VectorError(f"{path}: two columns could be the rows of the array; keep one")
    return [words[i] for i in np.argsort(rows[0]).tolist()] if rows else words


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _parquet(path: Path) -> Iterator[VectorEntry]:
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise VectorError(f"{path}: not a Parquet file ({error})") from error
    schema = file.schema_arrow
    words = [f.name for f in schema if _is_text(f.type)]
    lists = [f.name for f in schema if pa.types.is_list(f.type) or pa.types.is_fixed_size_list(f.type)]
    if len(words) != 1 or len(lists) != 1:
        raise VectorError(f"{path}: wants one column of strings and one of lists of numbers, has {schema.names}")
    for batch in file.iter_batches(columns=[*words, *lists]):
        table = batch.to_pydict()
        for word, point in zip(table[words[0]], table[lists[0]], strict=True):
            if word is None or point is None or None in point:
                raise VectorError(f"{path}: a word or number is missing near {word!r}")
            yield word, np.array(point, np.float64)


NUMPY, PARQUET = ".npy", ".parquet"
WORD_LISTS = (".txt", PARQUET)
"""Forms of the words of an array, in the order in which they are looked for."""

VECTOR_READERS: dict[str, Callable[[Path], Iterator[VectorEntry]]] = {PARQUET: _parquet, ".bin": _binary}
"""By the end of the file's name; an array has words in a file of their own, others are text."""
