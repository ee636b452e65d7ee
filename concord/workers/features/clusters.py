"""Word clusters as features: the cluster of each word, from a table that was learned without labels.

The idea is of Miller, Guinness & Zamanian (2004) and Ratinov & Roth (2009) §6.1. The cluster of a word is a function of
that one word, so with the scorer's word tables it costs nothing per token. The table is data: one Parquet file with the
column ``word`` and a column of cluster numbers for each clustering. A model may read several such files, whose
clusterings may have the same names. Its folder keeps copies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from concord.schemas.errors import InputError
from concord.workers.features.extractors import Extractor, same
from concord.workers.storage.files import write_whole
from concord.workers.storage.tables import TableFileError, read_table

WORD_FIELD = "word"
VECTOR = "vector"
"""Name of the only clustering of a table of word vectors, in which each word is a cluster of its own: its row."""
UNKNOWN = "?"
"""The value of a word that is in no cluster; numbers are the values of the others."""
MOST_CLUSTERINGS = 32
WORD_TABLE = Path(__file__).with_name("shipped") / "glove.parquet"
"""Clusters of the 150,000 most frequent words of GloVe's vectors (Pennington, Socher & Manning 2014), which are in the
public domain; ``glove.json`` beside it says where they are from, and `benchmarks/word_table.py` makes it."""
_DIGIT = re.compile(r"\d")


class ClusterFileError(InputError):
    """A cluster file that is missing or damaged; the message names the file and the fault."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Table of word clusters: V words in G clusterings.

    - ``words`` (V,): the words.
    - ``names`` (G,): names of the clusterings.
    - ``codes`` (V, G): cluster of each word in each clustering.
    - ``file``: which of the files that features read it is from, counted from 1; 0 for the words of vectors.

    A word that is not among them is looked up with digits as 0, in lower case, and both, in this order.
    """

    words: pa.StringArray
    names: tuple[str, ...]
    codes: NDArray[np.int32]
    file: int = 1

    @cached_property
    def extractors(self) -> dict[str, Extractor]:
        """Extractors of a word's cluster, each process's own: ``cluster-NAME`` of the first file, ``cluster2-NAME``.

        Of vectors' words it is ``vector``.
        """
        prefix = {0: "", 1: "cluster-"}.get(self.file, f"cluster{self.file}-")
        return {prefix + name: Extractor(partial(self._value, g)) for g, name in enumerate(self.names)}

    @cached_property
    def _places(self) -> dict[str, int]:
        words: list[str] = self.words.to_pylist()
        return dict(zip(words, range(len(words)), strict=True))

    def place(self, word: str) -> int:
        """Row of a word in the table; −1 where it is not there."""
        places = self._places
        for form in (same, zeros, str.lower, lower_zeros):
            place = places.get(form(word))
            if place is not None:
                return place
        return -1

    def _value(self, clustering: int, word: str) -> str:
        place = self.place(word)
        return UNKNOWN if place < 0 else str(self.codes[place, clustering])

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("words", "names", "codes", "file")}


def zeros(word: str) -> str:
    """The word with every digit as 0."""
    return _DIGIT.sub("0", word)


def lower_zeros(word: str) -> str:
    """The word in lower case with every digit as 0."""
    return zeros(word.lower())


def write_clusters(path: Path, clusters: Clusters) -> None:
    """Writes the table in one step; equal tables give equal bytes. Raises `OutputError`."""
    columns = {WORD_FIELD: clusters.words} | {name: clusters.codes[:, g] for g, name in enumerate(clusters.names)}
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table(columns),
        sink,
        compression="zstd",
        use_dictionary=list(clusters.names),
        column_encoding={WORD_FIELD: "DELTA_BYTE_ARRAY"},  # a sorted table's words share their beginnings
        write_statistics=False,
    )
    write_whole(path, sink.getvalue().to_pybytes())


def read_clusters(path: Path, *, file: int = 1) -> Clusters:
    """Table of a cluster file, the ``file``-th of those that features read.

    Raises `ClusterFileError` where it is not a valid one, and `OSError`.
    """
    if not path.is_file():
        raise ClusterFileError(f"{path}: there is no such cluster file; make one with `concord clusters`")
    try:
        table = read_table(path)
    except TableFileError as error:
        raise ClusterFileError(f"{path}: {error}") from error
    names = [name for name in table.column_names if name != WORD_FIELD]
    if table.column_names[:1] != [WORD_FIELD] or table.schema.field(WORD_FIELD).type != pa.string():
        raise ClusterFileError(
            f"{path}: its first column is not {WORD_FIELD!r} of type string; is this a cluster file?"
        )
    if not 1 <= len(names) <= MOST_CLUSTERINGS or any(table.schema.field(n).type != pa.int32() for n in names):
        raise ClusterFileError(f"{path}: it wants 1 to {MOST_CLUSTERINGS} columns of type int32 after {WORD_FIELD!r}")
    if any(column.null_count for column in table.columns) or table.num_rows == 0:
        raise ClusterFileError(f"{path}: it has no words, or words without a cluster")
    words = table[WORD_FIELD].combine_chunks()
    if len(words.unique()) != len(words):
        raise ClusterFileError(f"{path}: a word is there twice")
    codes = np.stack([table[name].to_numpy() for name in names], axis=1)
    return Clusters(words, tuple(names), codes, file)
