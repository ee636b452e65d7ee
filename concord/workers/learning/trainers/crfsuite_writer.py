"""Writer of CRFsuite's binary model files, so that its tagger can use a model trained by concord.

The format is that of `workers.models.crfsuite_file`: a header, the features, two databases of names, and for each label
and attribute the features that start from it. A database finds a name in one of 256 open hash tables, by Jenkins's
public-domain hash "lookup3" (2006) of the name's bytes and a final NUL.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.workers.compiling.kernel import inlined, kernel_in_place
from concord.workers.models.crfsuite_file import (
    BYTE_ORDER,
    CHUNK_HEAD,
    DATABASE,
    FEATURE,
    FILE_HEAD,
    STATE_FEATURE,
    TRANSITION_FEATURE,
    CrfsuiteWeights,
)
from concord.workers.storage.files import write_whole

TableHashes = NDArray[np.uint32]

TABLES = 256
BUCKET = np.dtype([("hash", "<u4"), ("offset", "<u4")])


def write_crfsuite(path: Path, weights: CrfsuiteWeights) -> None:
    """Writes a model file that CRFsuite and `read_crfsuite` read. Raises `OutputError`."""
    order = np.argsort(weights.source, kind="stable")
    states = np.zeros(len(order), FEATURE)
    states["type"], states["source"], states["target"] = STATE_FEATURE, weights.source[order], weights.target[order]
    states["weight"] = weights.weight[order]
    size = len(weights.labels)
    before, after = np.divmod(np.arange(size * size), size)
    edges = np.zeros(size * size, FEATURE)
    edges["type"], edges["source"], edges["target"] = TRANSITION_FEATURE, before, after
    edges["weight"] = weights.transition.ravel()
    features = np.concatenate([states, edges])

    parts = [
        CHUNK_HEAD.pack(b"FEAT", CHUNK_HEAD.size + features.nbytes, len(features)) + features.tobytes(),
        _database(weights.labels),
        _database(weights.attributes),
    ]
    places = np.cumsum([FILE_HEAD.size, *map(len, parts)]).tolist()
    parts.append(_references(b"LFRF", places[3], edges["source"], size, len(states)))
    places.append(places[3] + len(parts[3]))
    parts.append(_references(b"AFRF", places[4], states["source"], len(weights.attributes), 0))
    total = places[4] + len(parts[4])
    counts = len(features), size, len(weights.attributes)
    header = FILE_HEAD.pack(b"lCRF", total, b"FOMC", 100, *counts, *places)
    write_whole(path, b"".join([header, *parts]))


def _references(magic: bytes, place: int, sources: NDArray[np.uint32], count: int, first: int) -> bytes:
    """Chunk with the feature ids of each of ``count`` sources.

    - ``magic``: name of the chunk.
    - ``place``: offset of the chunk in the file, in bytes.
    - ``sources``: source of each feature, ascending.
    - ``first``: id of the first feature; the others follow.
    """
    lengths = np.bincount(sources, minlength=count)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    table = CHUNK_HEAD.size + 4 * count
    offsets = place + table + 4 * (starts + np.arange(count))
    body = np.zeros(count + len(sources), "<u4")
    at = starts + np.arange(count)
    body[at] = lengths
    is_id = np.ones(len(body), np.bool_)
    is_id[at] = False
    body[is_id] = first + np.arange(len(sources))
    return CHUNK_HEAD.pack(magic, table + body.nbytes, count) + offsets.astype("<u4").tobytes() + body.tobytes()


def _database(names: Sequence[str]) -> bytes:
    """Database chunk that finds names by id and ids by name."""
    keys = [name.encode() + b"\0" for name in names]
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    first = DATABASE.size + 8 * TABLES
    offsets = first + np.cumsum(lengths + 8) - lengths - 8
    records = b"".join(struct.pack("<II", i, len(key)) + key for i, key in enumerate(keys))
    hashes = np.zeros(len(keys), np.uint32)
    _hash_keys(np.frombuffer(b"".join(keys), np.uint8), np.cumsum(lengths), hashes)
    tables = [_table(hashes[chosen], offsets[chosen]) for chosen in _split(hashes % TABLES)]
    sizes = np.array([len(table) for table in tables])
    starts = first + len(records) + BUCKET.itemsize * (np.cumsum(sizes) - sizes)
    references = np.stack([np.where(sizes > 0, starts, 0), sizes], axis=1).astype("<u4")
    backward = first + len(records) + BUCKET.itemsize * int(sizes.sum())
    size = backward + 4 * len(keys)
    header = DATABASE.pack(b"CQDB", size, 0, BYTE_ORDER, len(keys), backward)
    tail = [*(table.tobytes() for table in tables), offsets.astype("<u4").tobytes()]
    return b"".join([header, references.tobytes(), records, *tail])


def _split(table_of: NDArray[Any]) -> list[NDArray[np.int64]]:
    order = np.argsort(table_of, kind="stable")
    return np.split(order, np.cumsum(np.bincount(table_of, minlength=TABLES))[:-1])


def _table(hashes: TableHashes, offsets: NDArray[np.int64]) -> NDArray[np.void]:
    """An open hash table with twice as many places as entries; free places have the offset 0."""
    table = np.zeros(2 * len(hashes), BUCKET)
    found, places = np.zeros(len(table), np.uint32), np.zeros(len(table), np.int64)
    _place(hashes, offsets, found, places)
    table["hash"], table["offset"] = found, places
    return table


@kernel_in_place
def _place(hashes: TableHashes, offsets: NDArray[np.int64], found: TableHashes, places: NDArray[np.int64]) -> None:
    for i in range(len(hashes)):
        at = np.int64(hashes[i] >> np.uint32(8)) % len(found)
        while places[at]:
            at = (at + 1) % len(found)
        found[at], places[at] = hashes[i], offsets[i]


Three = tuple[np.uint32, np.uint32, np.uint32]


@inlined
def _turned(x: np.uint32, bits: int) -> np.uint32:
    return ((x << np.uint32(bits)) | (x >> np.uint32(32 - bits))) & np.uint32(0xFFFFFFFF)


@inlined
def _word(text: NDArray[np.uint8], at: int, end: int) -> np.uint32:
    """Four bytes as a number, the lowest first; bytes beyond ``end`` are 0."""
    word = np.uint32(0)
    for k in range(4):
        if at + k < end:
            word |= np.uint32(text[at + k]) << np.uint32(8 * k)
    return np.uint32(word)


@inlined
def _with_words(a: np.uint32, b: np.uint32, c: np.uint32, text: NDArray[np.uint8], at: int, end: int) -> Three:
    """The three numbers, with the next three words added to them."""
    a = np.uint32(a + _word(text, at, end))
    b = np.uint32(b + _word(text, at + 4, end))
    c = np.uint32(c + _word(text, at + 8, end))
    return a, b, c


@kernel_in_place
def _hash_keys(text: NDArray[np.uint8], ends: NDArray[np.int64], hashes: TableHashes) -> None:
    """Writes the lookup3 hash of each key, with seed 0, to ``hashes``; key i ends at ends[i]."""
    begin = 0
    for i in range(len(ends)):
        end = ends[i]
        start = np.uint32(0xDEADBEEF + (end - begin))
        a, b, c = start, start, start
        at = begin
        while end - at > 12:
            a, b, c = _with_words(a, b, c, text, at, end)
            a = np.uint32(np.uint32(a - c) ^ _turned(c, 4))
            c = np.uint32(c + b)
            b = np.uint32(np.uint32(b - a) ^ _turned(a, 6))
            a = np.uint32(a + c)
            c = np.uint32(np.uint32(c - b) ^ _turned(b, 8))
            b = np.uint32(b + a)
            a = np.uint32(np.uint32(a - c) ^ _turned(c, 16))
            c = np.uint32(c + b)
            b = np.uint32(np.uint32(b - a) ^ _turned(a, 19))
            a = np.uint32(a + c)
            c = np.uint32(np.uint32(c - b) ^ _turned(b, 4))
            b = np.uint32(b + a)
            at += 12
        if at < end:
            a, b, c = _with_words(a, b, c, text, at, end)
            c = np.uint32(np.uint32(c ^ b) - _turned(b, 14))
            a = np.uint32(np.uint32(a ^ c) - _turned(c, 11))
            b = np.uint32(np.uint32(b ^ a) - _turned(a, 25))
            c = np.uint32(np.uint32(c ^ b) - _turned(b, 16))
            a = np.uint32(np.uint32(a ^ c) - _turned(c, 4))
            b = np.uint32(np.uint32(b ^ a) - _turned(a, 14))
            c = np.uint32(np.uint32(c ^ b) - _turned(b, 24))
        hashes[i] = c
        begin = end
