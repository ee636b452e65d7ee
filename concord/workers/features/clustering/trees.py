"""Trees of word clusters: the first bits of a word's path from the root name larger clusters. Reads those of others.

Brown et al. (1992) make such trees; their prefixes as features are of Miller, Guinness & Zamanian (2004).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from concord.schemas.errors import InputError
from concord.workers.features.clustering.packed import unpacked
from concord.workers.features.clusters import Clusters
from concord.workers.features.settings import TreeSettings

TABLES = (".json", ".json.gz")
"""Ends of the names of spaCy's tables of clusters."""
SHOWN_LETTERS = 60
"""Letters of a wrong line that a message shows."""


class TreeError(InputError):
    """A file of a tree of words that is missing or damaged; the message names the file, the place and the fault."""


class WordPath(NamedTuple):
    """A word, and the bits of its path from the root of the tree."""

    word: str
    bits: str


def prefix_clusters(paths: Sequence[WordPath], prefixes: Sequence[int]) -> Clusters:
    """One clustering for each length of prefix: words are together whose paths begin with the same bits.

    Shorter paths count as they are.
    """
    codes = [[_prefix(path.bits, length) for path in paths] for length in prefixes]
    words = pa.array([path.word for path in paths], pa.string())
    return Clusters(words, tuple(f"brown-{length}" for length in prefixes), np.array(codes, np.int32).T)


def _prefix(bits: str, length: int) -> int:
    """The first bits as a number; a leading 1 keeps prefixes of different lengths apart."""
    return int("1" + bits[:length], 2)


def read_tree(file: Path, settings: TreeSettings) -> Clusters:
    """Clusters of the most frequent words of a tree that others have learned.

    The file's name decides its form:

    - ``.json``, ``.json.gz``: spaCy's table of clusters, an object of words and numbers, the most frequent words first.
      A number's bits, the lowest first, are the path; 0 is no cluster.
    - others: text, maybe ``.gz``; each line has a path of 0 and 1, a word and its count, with tabs between them.

    Raises `TreeError`, and `OSError`.
    """
    if not file.is_file():
        raise TreeError(f"{file}: there is no such file")
    paths = list(islice((_table if file.name.endswith(TABLES) else _text)(file), settings.words))
    if not paths:
        raise TreeError(f"{file}: there are no words with a path in it")
    return prefix_clusters(paths, settings.prefixes)


def _table(file: Path) -> Iterator[WordPath]:
    with unpacked(file, TreeError) as content:
        data = content.read()
    try:
        table = json.loads(data)
    except ValueError as error:
        raise TreeError(f"{file}: not JSON ({error}); was the file cut?") from error
    if not isinstance(table, dict):
        raise TreeError(f"{file}: not an object of words and numbers; is this spaCy's table of clusters?")
    for word, number in table.items():
        if type(number) is not int or number < 0:
            raise TreeError(f"{file}: {word!r}: {number!r} is no number of a cluster, which is a whole one from 0")
        if number:
            yield WordPath(word, f"{number:b}"[::-1])


def _text(file: Path) -> Iterator[WordPath]:
    """The most frequent words first, equals in the order of the file."""
    counted = dict[str, tuple[WordPath, int]]()
    with unpacked(file, TreeError) as content:
        for number, line in enumerate(content, 1):
            path, count = _line(file, number, line.rstrip(b"\r\n"))
            if path.word in counted:
                raise TreeError(f"{file}: line {number}: the word {path.word!r} is there twice")
            counted[path.word] = path, count
    yield from (path for path, _ in sorted(counted.values(), key=lambda own: -own[1]))


def _line(file: Path, number: int, line: bytes) -> tuple[WordPath, int]:
    """The word of a line with its path, and its count."""
    try:
        bits, word, count = line.decode().split("\t")
    except ValueError as error:
        raise _wrong(file, number, line) from error
    if not bits or set(bits) - {"0", "1"} or not word or not (count.isascii() and count.isdigit()):
        raise _wrong(file, number, line)
    return WordPath(word, bits), int(count)


def _wrong(file: Path, number: int, line: bytes) -> TreeError:
    shown = line[:SHOWN_LETTERS].decode(errors="replace")
    return TreeError(
        f"{file}: line {number}: {shown!r} is not a path of 0 and 1, a word and its count with tabs between them; for "
        "word vectors there is `concord clusters import`"
    )
