"""Incidence of tokens and attributes as arrays of ids, the input of the trainers; no attribute string is made.

Extractors run once for each distinct word, and conjunctions are numbered by the values that they join, so that Python
does no work for single tokens. The attributes are exactly those of `workers.features.attributes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ids, Ints
from concord.schemas.document import Batch, Column
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.features import kernels
from concord.workers.features.derived import feature_columns
from concord.workers.features.extractors import SEPARATOR, Pieces, clean
from concord.workers.features.scorer import FeatureWeights, code_points, hash_table, seed_of
from concord.workers.features.templates import AFTER, BEFORE, AttributeTemplate, Conjunction, FeatureSet, Source

LARGEST_KEY = 1 << 62


class Lists(NamedTuple):
    """Ragged array: a list of ids for each of n things; the ids of thing i are ids[start[i]:start[i + 1]]."""

    start: Ints
    ids: Ids

    @classmethod
    def of_lengths(cls, lengths: NDArray[Any]) -> Lists:
        """Lists of given lengths (n,), to be filled."""
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(start, np.empty(start[-1], np.int32))

    @classmethod
    def one_each(cls, ids: Ids) -> Lists:
        """One id for each of n things."""
        return cls(np.arange(len(ids) + 1), ids)

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def lengths(self) -> Ints:
        """(n,) how many ids each thing has."""
        return np.diff(self.start)

    def at(self, things: Ids) -> Lists:
        """The lists of some things, in their order."""
        lists = Lists.of_lengths(self.lengths[things])
        _gather(*self, things, *lists)
        return lists

    def through(self, inner: Lists) -> Lists:
        """Composition: for each thing, the lists that ``inner`` has for its ids, concatenated."""
        ends = np.concatenate([[0], np.cumsum(inner.lengths[self.ids])])
        return Lists(ends[self.start].astype(np.int64), inner.at(self.ids).ids)

    def turned(self, count: int) -> Lists:
        """Transpose: for each of ``count`` ids, the things that have it, ascending."""
        lists = Lists.of_lengths(np.bincount(self.ids, minlength=count))
        _turn(*self, lists.start[:-1].copy(), lists.ids)
        return lists

    def only(self, kept: NDArray[np.bool_]) -> Lists:
        """The lists without ids that are not ``kept``; kept ids are renumbered in order."""
        left = kept[self.ids]
        number = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        before = np.concatenate([[0], np.cumsum(left)])
        return Lists(before[self.start].astype(np.int64), number[self.ids[left]])


def side_by_side(lists: Sequence[Lists], counts: Sequence[int]) -> Lists:
    """Joins lists of the same things: each thing gets its ids of all ``lists``.

    Ids of list k are shifted by the ``counts`` of ids of the lists before it.
    """
    joined = Lists.of_lengths(np.sum([part.lengths for part in lists], axis=0))
    at, first = joined.start[:-1].copy(), 0
    for part, count in zip(lists, counts, strict=True):
        _put(*part, np.int32(first), at, joined.ids)
        first += count
    return joined


def end_to_end(lists: Sequence[Lists], counts: Sequence[int]) -> Lists:
    """Concatenates lists of different things; ids of list k are shifted as in `side_by_side`."""
    lengths = np.concatenate([part.lengths for part in lists])
    firsts = np.cumsum([0, *counts[:-1]]).astype(np.int32)
    ids = np.concatenate([part.ids + first for part, first in zip(lists, firsts, strict=True)])
    return Lists(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), ids)


class Family(NamedTuple):
    """The n attributes of one template; ``values``: one array (n,) of value ids for each position of the template."""

    template: AttributeTemplate
    values: tuple[Ids, ...]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Source of each place's value."""
        if isinstance(self.template, Conjunction):
            return tuple(source for source, _ in self.template.places)
        return (self.template.source,)

    @property
    def size(self) -> int:
        """The number of attributes."""
        return len(self.values[0])

    def only(self, kept: NDArray[np.bool_]) -> Family:
        """Some of the attributes."""
        return Family(self.template, tuple(values[kept] for values in self.values))


@dataclass(frozen=True, eq=False)
class Attributes:
    """All attributes, numbered through the families.

    - ``families``: the attributes of each template.
    - ``values``: strings of each source by value id.
    """

    families: tuple[Family, ...]
    values: dict[Source, list[str]]

    def __len__(self) -> int:
        return sum(family.size for family in self.families)

    def only(self, kept: NDArray[np.bool_]) -> Attributes:
        """The incidences that are kept, in order."""
        ends = np.cumsum([family.size for family in self.families])
        parts = np.split(kept, ends[:-1])
        families = tuple(family.only(part) for family, part in zip(self.families, parts, strict=True))
        return Attributes(families, self.values)

    def weights(self, features: FeatureSet, start: Ints, label: Ids, weight: Floats) -> FeatureWeights:
        """Weights for the scorer, the same as `compile_weights` makes from attribute strings.

        Attribute r gives weight[i] nats to label[i] for start[r] ≤ i < start[r + 1].

        Raises `FeatureError` where two hashes collide.
        """
        first = dict(zip(features.conjoined, self._first_values(features), strict=True))
        alone, joined, values = _HashList.none(), _HashList.none(), _HashList.none()
        row = 0
        for family in self.families:
            rows = np.arange(row, row + family.size)
            row += family.size
            seeds = np.full(family.size, seed_of(family.template.name))
            if isinstance(family.template, Conjunction):
                places = zip(family.sources, family.values, strict=True)
                ids = np.stack([ids + first[source] for source, ids in places], axis=1)
                ends = np.arange(1, len(ids) + 1) * ids.shape[1]
                joined.append(kernels.hash_runs(seeds, ids.ravel().astype(np.int32), ends), rows)
            else:
                texts = self.values[family.sources[0]]
                runs = code_points([texts[i] for i in family.values[0].tolist()])
                alone.append(kernels.hash_runs(seeds, *runs), rows)
        for source in features.conjoined:
            texts = self.values[source]
            hashes = kernels.hash_runs(np.full(len(texts), seed_of(str(source))), *code_points(texts))
            values.append(hashes, first[source] + np.arange(len(texts)))
        return FeatureWeights(start, label, weight, *alone.table(), *joined.table(), *values.table())

    def _first_values(self, features: FeatureSet) -> list[int]:
        """The first value id of each conjoined source: they count on from source to source."""
        counts = [len(self.values[source]) for source in features.conjoined]
        return np.cumsum([0, *counts])[:-1].tolist()  # type: ignore[no-any-return]

    def names(self) -> pa.ChunkedArray:
        """The attributes as strings, by id."""
        texts = {source: pa.array(values, pa.large_string()) for source, values in self.values.items()}
        return pa.chunked_array([_names(family, texts) for family in self.families], pa.large_string())


class _HashList(NamedTuple):
    """Growing list of hashes, each with its row."""

    hashes: list[NDArray[np.uint64]]
    rows: list[NDArray[np.int64]]

    @classmethod
    def none(cls) -> _HashList:
        return cls([np.zeros(0, np.uint64)], [np.zeros(0, np.int64)])

    def append(self, hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> None:
        self.hashes.append(hashes)
        self.rows.append(rows)

    def table(self) -> tuple[NDArray[np.uint64], Ids]:
        return hash_table(np.concatenate(self.hashes), np.concatenate(self.rows))


@dataclass(frozen=True, eq=False)
class Incidence:
    """Attributes of N tokens, by groups of attributes that tokens share.

    - ``groups``: groups of each token.
    - ``members``: attributes of each group.
    - ``attributes``: the attributes.

    No token has an attribute twice. All attributes of a word at one offset are a group, as they always occur together.
    """

    groups: Lists
    members: Lists
    attributes: Attributes

    @classmethod
    def none(cls, tokens: int) -> Incidence:
        """The incidence of so many tokens without attributes."""
        groups, members = (Lists.of_lengths(np.zeros(count, np.int64)) for count in (tokens, 0))
        return cls(groups, members, Attributes((), {}))

    def after_first(self, bounds: Ints) -> Incidence:
        """The incidence without the first token of each sentence, and without attributes that no other token has.

        ``bounds`` (S + 1,): first token of each sentence, and N.
        """
        lengths = self.groups.lengths.copy()
        lengths[bounds[:-1]] = 0
        later = np.ones(len(lengths), np.bool_)
        later[bounds[:-1]] = False
        groups = Lists(Lists.of_lengths(lengths).start, self.groups.ids[np.repeat(later, self.groups.lengths)])
        filled = _occurring(groups, len(self.members))
        members = self.members.at(np.flatnonzero(filled).astype(np.int32))
        used = _occurring(members, len(self.attributes))
        return Incidence(groups.only(filled), members.only(used), self.attributes.only(used))


def incidence(batch: Batch, features: FeatureSet) -> Incidence:
    """The attributes of all tokens of a batch. Raises `ColumnError` where it lacks a column the features read."""
    maker = _Maker(batch, features)
    parts = [*maker.words(), *maker.windows(), *maker.conjunctions()]
    return Incidence(
        side_by_side([part.groups for part in parts], [len(part.members) for part in parts]),
        end_to_end([part.members for part in parts], [sum(f.size for f in part.families) for part in parts]),
        Attributes(tuple(family for part in parts for family in part.families), maker.values()),
    )


def pair_incidence(batch: Batch, features: FeatureSet) -> Incidence:
    """The attributes that are learned for pairs of labels, of all tokens but the first of each sentence.

    There are none where the feature set has no such templates. Raises `ColumnError` as `incidence`.
    """
    if features.pairs is None:
        return Incidence.none(batch.token_count)
    return incidence(batch, features.pairs).after_first(batch.sentence_bounds)


class _GroupPart(NamedTuple):
    """Groups of each token, and their attributes; both count from 0 here."""

    groups: Lists
    members: Lists
    families: tuple[Family, ...]


class _Maker:
    """Makes the parts of an incidence; caches the values of each source by word."""

    def __init__(self, batch: Batch, features: FeatureSet) -> None:
        self._features = features
        self._bounds = batch.sentence_bounds
        self._columns = {name: _ColumnWords.of(column) for name, column in feature_columns(batch, features).items()}
        self._said: dict[Source, _SourceValues] = {}

    def values(self) -> dict[Source, list[str]]:
        """Strings of each source that was used, by value id."""
        return {source: said.values for source, said in self._said.items()}

    def words(self) -> Iterator[_GroupPart]:
        """A group for each word of a column at each offset that single templates look at."""
        for column, offset in dict.fromkeys((t.source.column, t.offset) for t in self._features.singles):
            groups, words = _used(self._columns[column].shifted(self._bounds, offset))
            mine = [t for t in self._features.singles if (t.source.column, t.offset) == (column, offset)]
            lists, families = [], []
            for single in mine:
                found = self._say(single.source).lists.at(words)
                ids, values = _used(found.ids)
                lists.append(Lists(found.start, ids))
                families.append(Family(single, (values,)))
            members = side_by_side(lists, [family.size for family in families])
            yield _GroupPart(Lists.one_each(groups), members, tuple(families))

    def windows(self) -> Iterator[_GroupPart]:
        """A group for each attribute of a window."""
        for window in self._features.windows:
            said = self._say(window.source).lists.ids[self._columns[window.source.column].ids]
            reach = (self._bounds, window.first, window.last)
            lengths = np.zeros(len(said), np.int64)
            _count_near(said, *reach, lengths)
            near = Lists.of_lengths(lengths)
            _list_near(said, *reach, *near)
            ids, values = _used(near.ids)
            yield _GroupPart(Lists(near.start, ids), _alone(values), (Family(window, (values,)),))

    def conjunctions(self) -> Iterator[_GroupPart]:
        """A group for each attribute of a conjunction."""
        for conjunction in self._features.conjunctions:
            columns = [self._at(source, offset) for source, offset in conjunction.places]
            sizes = [len(self._say(source).values) for source, _ in conjunction.places]
            ids, first = _numbered(columns, sizes)
            family = Family(conjunction, tuple(column[first] for column in columns))
            yield _GroupPart(Lists.one_each(ids), _alone(first), (family,))

    def _at(self, source: Source, offset: int) -> Ids:
        """(N,) the value of a source at an offset from each token."""
        return self._say(source).lists.ids[self._columns[source.column].shifted(self._bounds, offset)]

    def _say(self, source: Source) -> _SourceValues:
        if source not in self._said:
            self._said[source] = _SourceValues.of(source, self._columns[source.column].words)
        return self._said[source]


class _ColumnWords(NamedTuple):
    """A column: its distinct clean words (V), and the word of each token. Ids V and V + 1 lie outside a sentence."""

    words: list[str]
    ids: Ids

    @classmethod
    def of(cls, column: Column) -> _ColumnWords:
        codes, used = _used(column.codes)
        known: dict[str, int] = {}
        table = [known.setdefault(clean(column.values[i]), len(known)) for i in used.tolist()]
        return cls(list(known), np.array(table, np.int32)[codes])

    def shifted(self, bounds: Ints, offset: int) -> Ids:
        """(N,) the word at an offset from each token."""
        found = np.empty(len(self.ids), np.int32)
        _shift(self.ids, bounds, offset, np.int32(len(self.words)), found)
        return found


class _SourceValues(NamedTuple):
    """Values of a source.

    - ``values``: its distinct values.
    - ``lists``: value ids of each word; the two places outside a sentence come last.
    """

    values: list[str]
    lists: Lists

    @classmethod
    def of(cls, source: Source, words: Sequence[str]) -> _SourceValues:
        outside = [(BEFORE,), (AFTER,)] if source.extract.pieces is Pieces.WHOLE else [(), ()]
        known: dict[str, int] = {}
        said = [[known.setdefault(v, len(known)) for v in source.extract.values(word)] for word in words]
        said += [[known.setdefault(v, len(known)) for v in values] for values in outside]
        lengths = np.fromiter(map(len, said), np.int64, len(said))
        ids = np.fromiter((i for row in said for i in row), np.int32, int(lengths.sum()))
        return cls(list(known), Lists(Lists.of_lengths(lengths).start, ids))


def _occurring(lists: Lists, count: int) -> NDArray[np.bool_]:
    """(count,) mask of the ids that some list has."""
    mask: NDArray[np.bool_] = np.bincount(lists.ids, minlength=count) > 0
    return mask


def _used(ids: Ids) -> tuple[Ids, Ids]:
    """The ids numbered anew without gaps, and the old id of each new one, ascending."""
    used = np.flatnonzero(np.bincount(ids)).astype(np.int32)
    table = np.zeros(used[-1] + 1 if len(used) else 0, np.int32)
    table[used] = np.arange(len(used))
    return table[ids], used


def _numbered(columns: Sequence[Ids], sizes: Sequence[int]) -> tuple[Ids, NDArray[np.int64]]:
    """Numbers the distinct rows of some columns of ids, which are below ``sizes``.

    Returns the number of each row, and for each number the first row that has it.
    """
    keys, count = columns[0].astype(np.int64), sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if count * size >= LARGEST_KEY:
            distinct, keys = np.unique(keys, return_inverse=True)
            count = len(distinct)
        keys, count = keys * size + column, count * size
    _, first, ids = np.unique(keys, return_index=True, return_inverse=True)
    return ids.astype(np.int32), first


def _alone(attributes: NDArray[Any]) -> Lists:
    """A group for each attribute."""
    return Lists.one_each(np.arange(len(attributes), dtype=np.int32))


def _names(family: Family, texts: dict[Source, pa.Array]) -> pa.Array:
    values = [texts[source].take(pa.array(ids)) for source, ids in zip(family.sources, family.values, strict=True)]
    separator, equals = pa.scalar(SEPARATOR, pa.large_string()), pa.scalar("=", pa.large_string())
    joined = pc.binary_join_element_wise(*values, separator)
    return pc.binary_join_element_wise(pa.scalar(family.template.name, pa.large_string()), joined, equals)


@kernel_in_place
def _gather(start: Ints, ids: Ids, things: Ids, into: Ints, found: Ids) -> None:
    for i in range(len(things)):
        first = start[things[i]]
        for k in range(into[i + 1] - into[i]):
            found[into[i] + k] = ids[first + k]


@kernel_in_place
def _turn(start: Ints, ids: Ids, at: Ints, things: Ids) -> None:
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            things[at[ids[k]]] = i
            at[ids[k]] += 1


@kernel_in_place
def _put(start: Ints, ids: Ids, shift: np.int32, at: Ints, joined: Ids) -> None:
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            joined[at[i]] = ids[k] + shift
            at[i] += 1


@kernel_in_place
def _shift(ids: Ids, bounds: Ints, offset: int, outside: np.int32, found: Ids) -> None:
    for s in range(len(bounds) - 1):
        for t in range(bounds[s], bounds[s + 1]):
            place = t + offset
            if place < bounds[s]:
                found[t] = outside
            elif place >= bounds[s + 1]:
                found[t] = outside + 1
            else:
                found[t] = ids[place]


@kernel_in_place
def _count_near(said: Ids, bounds: Ints, first: int, last: int, counts: Ints) -> None:
    """Adds to counts[t] (N,) the number of distinct values at t + first ≤ u ≤ t + last in t's sentence."""
    for s in range(len(bounds) - 1):
        for t in range(bounds[s], bounds[s + 1]):
            left = max(t + first, bounds[s])
            for u in range(left, min(t + last + 1, bounds[s + 1])):
                counts[t] += _is_new(said, left, u)


@kernel_in_place
def _list_near(said: Ids, bounds: Ints, first: int, last: int, start: Ints, found: Ids) -> None:
    """Writes those values, for t from start[t] on."""
    for s in range(len(bounds) - 1):
        for t in range(bounds[s], bounds[s + 1]):
            at, left = start[t], max(t + first, bounds[s])
            for u in range(left, min(t + last + 1, bounds[s + 1])):
                if _is_new(said, left, u):
                    found[at] = said[u]
                    at += 1


@inner_in_place
def _is_new(said: Ids, left: int, place: int) -> bool:
    for u in range(left, place):
        if said[u] == said[place]:
            return False
    return True
