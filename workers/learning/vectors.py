"""Reads word vectors that others have learned: text and binary of word2vec and GloVe, NumPy, Parquet."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from schemas.errors import InputError
from schemas.potentials import Floats


class VectorError(InputError):
    """A file of word vectors that is missing or damaged; the message names the file, the place and the fault."""


class Vectors(NamedTuple):
    """Distinct words (V), in the order of the file, and their vectors (V, d)."""

    words: list[str]
    points: Floats


Entry = tuple[str, NDArray[np.float64]]


def read_vectors(path: Path, most: int) -> Vectors:
    """The first ``most`` words of a file, told apart by its name; files list the most frequent words first.

    ``.npy`` is an array (V, d) with the words beside it in a ``.txt``, a line each; ``.parquet`` has a column of
    strings and one of lists; ``.bin`` is word2vec's binary form; anything else is text, maybe ``.gz``: a word and its
    numbers a line, with or without a line of two counts first. Raises `VectorError`, and `OSError`.
    """
    if not path.is_file():
        raise VectorError(f"{path}: there is no such file")
    read = READERS.get(path.suffix, _text)
    return _checked(path, islice(read(path), most))


def _checked(path: Path, entries: Iterator[Entry]) -> Vectors:
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


def _text(path: Path) -> Iterator[Entry]:
    size = None
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            parts = line.split()
            if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                size = int(parts[1])
            elif parts:
                size = len(parts) - 1 if size is None else size
                yield _line(path, number, line, size)


def _opened(path: Path) -> gzip.GzipFile | IO[bytes]:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _line(path: Path, number: int, line: bytes, size: int) -> Entry:
    """A word, which may hold spaces, and ``size`` numbers."""
    parts = line.rstrip().rsplit(b" ", size)
    try:
        word, point = parts[0].decode(), np.array(parts[1:], np.float64)
    except ValueError as error:
        raise VectorError(f"{path}: line {number}: not a word in UTF-8 and {size} numbers ({error})") from error
    if len(point) != size:
        raise VectorError(f"{path}: line {number}: {len(point)} numbers after {word!r}, want {size}")
    return word, point


def _binary(path: Path) -> Iterator[Entry]:
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


def _numpy(path: Path) -> Iterator[Entry]:
    names = path.with_suffix(".txt")
    if not names.is_file():
        raise VectorError(f"{names}: not there; it has the words of {path.name}, a line each")
    try:
        points = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise VectorError(f"{path}: not an array of NumPy ({error})") from error
    words = names.read_text(encoding="utf-8").splitlines()
    if points.ndim != 2 or points.dtype.kind != "f" or len(points) != len(words):
        raise VectorError(f"{path}: {points.dtype} of shape {points.shape} for the {len(words)} words of {names.name}")
    for word, point in zip(words, points, strict=True):
        yield word, np.asarray(point, np.float64)


def _parquet(path: Path) -> Iterator[Entry]:
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise VectorError(f"{path}: not a Parquet file ({error})") from error
    schema = file.schema_arrow
    words = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    lists = [f.name for f in schema if pa.types.is_list(f.type) or pa.types.is_fixed_size_list(f.type)]
    if len(words) != 1 or len(lists) != 1:
        raise VectorError(f"{path}: wants one column of strings and one of lists of numbers, has {schema.names}")
    for batch in file.iter_batches(columns=[*words, *lists]):
        table = batch.to_pydict()
        for word, point in zip(table[words[0]], table[lists[0]], strict=True):
            if word is None or point is None or None in point:
                raise VectorError(f"{path}: a word or number is missing near {word!r}")
            yield word, np.array(point, np.float64)


READERS: dict[str, Callable[[Path], Iterator[Entry]]] = {".npy": _numpy, ".parquet": _parquet, ".bin": _binary}
"""By the end of the file's name; others are text."""
