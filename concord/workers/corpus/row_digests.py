"""Digests of the content of rows, which do not depend on file names, row groups or compression."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from concord.schemas.columns import raw_strings
from concord.workers.corpus.kept_columns import MOMENT, kept_type

DIGEST_BYTES = 16
COUNT_BYTES = 8
NULL = -1
"""Stands for a null, in place of a count or a length."""
NULL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)
"""Stands for a null, in place of the bits of a float: a NaN that no computation makes."""


def row_digests(table: pa.Table) -> list[bytes]:
    """Digest of each row: of its columns' names and of their decoded values.

    Columns may hold strings, numbers, booleans, dates, timestamps, lists of strings or lists of integers,
    dictionary-encoded or not, of any width, or lists of lists of floats.
    """
    columns = [_Stored.of(table[name]) for name in sorted(table.column_names)]
    names = "\0".join(sorted(table.column_names)).encode()
    return [
        hashlib.sha256(b"".join([names, *(part for column in columns for part in column.row(row))])).digest()[
            :DIGEST_BYTES
        ]
        for row in range(len(table))
    ]


def row_sizes(column: pa.ChunkedArray) -> list[int]:
    """Size of each row in bytes: those of its strings plus one per string, about the length of the text; 1 for null."""
    stored = _Stored.of(column)
    return [end - start + max(1, last - first) for first, last, start, end in stored.bounds]


def digest_of_rows(digests: Sequence[bytes]) -> str:
    """Hex digest of a run of rows, from the digests of its rows in order."""
    return hashlib.sha256(b"".join(digests)).hexdigest()[: 2 * DIGEST_BYTES]


class _Stored(NamedTuple):
    """A column as bytes: the count of each row (of its values), the length of each value, the values.

    ``bounds`` has for each row its first and last value and their first and last byte. Counts, lengths and bytes
    together say where each value ends, so different rows are different bytes.
    """

    counts: memoryview
    lengths: memoryview
    data: memoryview
    bounds: list[tuple[int, int, int, int]]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Stored:
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        if pa.types.is_nested(array.type):
            counts = pc.list_value_length(array).fill_null(NULL).to_numpy(zero_copy_only=False).astype(np.int64)
            values = array.flatten()
        else:
            counts, values = np.ones(len(array), np.int64), array
        places = np.concatenate([[0], np.cumsum(np.maximum(counts, 0))])
        lengths, offsets, data = _bytes_of(values)
        starts = offsets[places].tolist()
        values_at = places.tolist()
        bounds = list(zip(values_at[:-1], values_at[1:], starts[:-1], starts[1:], strict=True))
        return cls(memoryview(counts.tobytes()), memoryview(lengths.tobytes()), data, bounds)

    def row(self, row: int) -> tuple[memoryview, memoryview, memoryview]:
        """Bytes that represent a row in its digest."""
        first, last, start, end = self.bounds[row]
        counts = self.counts[COUNT_BYTES * row : COUNT_BYTES * (row + 1)]
        return counts, self.lengths[COUNT_BYTES * first : COUNT_BYTES * last], self.data[start:end]


_Values = tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]], memoryview]
"""Lengths (n,), offsets (n + 1,) into the data, data."""


def _bytes_of(values: pa.Array) -> _Values:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_nested(values.type):
        return _floats(values)
    kind = kept_type(values.type)
    if kind in (None, pa.string()):
        return _strings(values)
    if kind == pa.float64():
        return _strings(values.cast(kind).cast(pa.string()))
    if kind in (pa.date32(), MOMENT):
        values = values.cast(kind, safe=False)
        return _integers(values.view(pa.int32() if kind == pa.date32() else pa.int64()))
    return _integers(values)


def _floats(values: pa.Array) -> _Values:
    """Digest input of a column of lists of floats."""
    counts = pc.list_value_length(values).fill_null(NULL).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = values.flatten()
    null = numbers.is_null().to_numpy(zero_copy_only=False)
    bits = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.uint64)
    offsets = COUNT_BYTES * np.concatenate([[0], np.cumsum(np.maximum(counts, 0))])
    lengths = np.where(counts < 0, NULL, COUNT_BYTES * counts)
    return lengths, offsets, memoryview(np.where(null, NULL_BITS, bits).tobytes())


def _strings(values: pa.Array) -> _Values:
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(1, np.int64), memoryview(b"")
    plain = pa.concat_arrays(raw_strings(pa.chunked_array([values])).chunks)
    _, offsets_buffer, data = plain.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    lengths = np.where(plain.is_null().to_numpy(zero_copy_only=False), NULL, np.diff(offsets))
    return lengths, offsets, memoryview(b"" if data is None else data)


def _integers(values: pa.Array) -> _Values:
    null = values.is_null().to_numpy(zero_copy_only=False)
    numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    lengths = np.where(null, NULL, COUNT_BYTES).astype(np.int64)
    return lengths, COUNT_BYTES * np.arange(len(numbers) + 1, dtype=np.int64), memoryview(numbers.tobytes())
