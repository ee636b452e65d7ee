"""Instances for memory-based learners: one value per feature for each token, from a window around it.

Canisius et al. (2011) §6. Such learners compare instances feature by feature, so every token has a value of every
feature. Places beyond the sentence have the value `BEYOND`, which no token has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.document import TOKENS, Batch, Column
from concord.workers.features.derived import ColumnError
from concord.workers.features.gazetteers import ENTITIES, ROLES, Gazetteer
from concord.workers.papers.canisius.settings import TrigramWindow

BEYOND = ""
"""The value of a token outside the sentence."""
POS, CHUNK = "pos", "chunk"
CASED = f"{ENTITIES}-cased"
NUMBER = re.compile(r"[+-]?\d[\d.,:/-]*")
NEIGHBOURS, NEXT_OFFSETS = (-2, -1, 0, 1, 2), (-1, 0, 1)
"""Windows of five and three tokens."""

WINDOW_COLUMNS = {
    TrigramWindow.WORDS: (TOKENS,),
    TrigramWindow.CHUNKS: (TOKENS, POS),
    TrigramWindow.NAMES: (TOKENS, POS, CHUNK),
}
"""The columns of the corpus that each kind of window reads."""


@dataclass(frozen=True, eq=False)
class Windows:
    """The features of one kind; ``entities`` are there for `TrigramWindow.NAMES`."""

    kind: TrigramWindow
    entities: Gazetteer | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that a batch must have."""
        return WINDOW_COLUMNS[self.kind]

    def features(self, batch: Batch) -> list[Column]:
        """(F,) features of a batch, always in one order. Raises `ColumnError` where a column is missing."""
        for name in self.columns:
            if name not in batch.columns:
                there = ", ".join(sorted(batch.columns))
                raise ColumnError(
                    f"windows={self.kind} reads the column {name!r}, the corpus has {there}; "
                    f"add it, or train with --set windows={TrigramWindow.WORDS}"
                )
        return list(self._features(batch))

    def _features(self, batch: Batch) -> Iterator[Column]:
        around = _Around(batch)
        words = batch.columns[TOKENS]
        signs = _mapped(words, sign)
        tags = [batch.columns[POS]] if POS in self.columns else []
        for column in (words, *tags, signs):
            yield from (around.at(column, offset) for offset in NEIGHBOURS)
        for column in (words, *tags):
            yield from (_pairs(around.at(column, offset), around.at(column, offset + 1)) for offset in (-1, 0))
        for column in tags:
            yield from (_pairs(around.at(words, offset), around.at(column, offset)) for offset in NEXT_OFFSETS)
        if self.kind is TrigramWindow.NAMES:
            yield from (_mapped(words, part) for part in AFFIXES)
            yield from (around.at(batch.columns[CHUNK], offset) for offset in NEXT_OFFSETS)
        if self.entities is not None:
            for column in _memberships(batch, self.entities):
                yield from (around.at(column, offset) for offset in NEXT_OFFSETS)


class _Around:
    """Values of tokens at a distance in the same sentence."""

    def __init__(self, batch: Batch) -> None:
        bounds, lengths = batch.sentence_bounds, np.diff(batch.sentence_bounds)
        self._token = np.arange(batch.token_count)
        self._first, self._end = np.repeat(bounds[:-1], lengths), np.repeat(bounds[1:], lengths)

    def at(self, column: Column, offset: int) -> Column:
        """The column moved by ``offset``, with `BEYOND` where the sentence ends."""
        place = self._token + offset
        inside = (place >= self._first) & (place < self._end)
        codes = np.full(len(place), len(column.values), np.int32)
        codes[inside] = column.codes[place[inside]]
        return Column(codes, (*column.values, BEYOND))


def _mapped(column: Column, function: Callable[[str], str]) -> Column:
    """The function of every value."""
    images = Column.encode([function(value) for value in column.values])
    return Column(images.codes[column.codes], images.values)


def _pairs(first: Column, second: Column) -> Column:
    """Two columns as one."""
    size = len(second.values)
    cells, codes = np.unique(first.codes.astype(np.int64) * size + second.codes, return_inverse=True)
    pairs = (divmod(cell, size) for cell in cells.tolist())
    return Column(codes.astype(np.int32), [f"{first.values[a]}\n{second.values[b]}" for a, b in pairs])


def _memberships(batch: Batch, entities: Gazetteer) -> Iterator[Column]:
    """For each type, sorted: is the word part of some entity of it, as it is written?"""
    columns = entities.columns(batch, CASED)
    sets = [columns[CASED + role] for role in ROLES]
    for kind in sorted(set(entities.types.to_pylist())):
        inside = np.zeros(batch.token_count, np.bool_)
        for column in sets:
            inside |= _having(kind, column.values)[column.codes]
        yield Column(inside.astype(np.int32), ("no", "yes"))


def _having(kind: str, sets: Sequence[str]) -> NDArray[np.bool_]:
    return np.array([kind in members.split(",") for members in sets], np.bool_)


def sign(word: str) -> str:
    """The orthographic symbol of a word: its kind of spelling, or the last two letters of a word in lower case."""
    if NUMBER.fullmatch(word):
        return "NUMBER"
    if not any(map(str.isalnum, word)):
        return "MARK"
    if any(map(str.isdigit, word)):
        return "DIGITS"
    if len(word) > 1 and word.isupper():
        return "CAPITALS"
    return "CAPITALISED" if word[0].isupper() else f"-{word[-2:]}"


AFFIXES: tuple[Callable[[str], str], ...] = (
    lambda word: word[:2],
    lambda word: word[:3],
    lambda word: word[-2:],
    lambda word: word[-3:],
)
"""Prefixes and suffixes of two and three letters."""


def numbered(features: Sequence[Column], values: Sequence[Sequence[str]]) -> NDArray[np.int32]:
    """(N, F) which of its known ``values`` each feature has, −1 where it is none."""
    columns = []
    for column, names in zip(features, values, strict=True):
        place = dict(zip(names, range(len(names)), strict=True))
        columns.append(np.array([place.get(value, -1) for value in column.values], np.int32)[column.codes])
    return np.stack(columns, axis=1) if columns else np.zeros((0, 0), np.int32)


def values_of(column: Column) -> tuple[list[str], NDArray[np.int32]]:
    """The values that occur, sorted, and the number (N,) of each token's."""
    used, place = np.unique(column.codes, return_inverse=True)
    names = [column.values[i] for i in used.tolist()]
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(used), np.int32)
    rank[order] = np.arange(len(used), dtype=np.int32)
    return [names[i] for i in order], rank[place].astype(np.int32)


def gains(values: Ints, classes: Ints) -> tuple[float, float]:
    """Information gain of a feature (M,) about the class (M,), and entropy of the feature, in bits."""
    count = int(classes.max(initial=0)) + 1
    _, both = np.unique(values * count + classes, return_counts=True)
    _, feature = np.unique(values, return_counts=True)
    of_class = np.bincount(classes)
    return _bits(of_class) + _bits(feature) - _bits(both), _bits(feature)


def _bits(counts: NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())
