"""The vocabulary-factored scorer: unary scores of whole batches from tables, without attribute strings.

Nearly every feature of a linear chain is a function of one word at one offset, so the weights of all features of a
distinct word at an offset sum to one row of a table (word, L). The scores of a token are a few such rows, and hashed
look-ups for conjunctions. They equal the sums of weights over `workers.features.attributes`, except for the order of
adding.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch
from concord.schemas.potentials import LARGEST_WEIGHT
from concord.workers.features import kernels
from concord.workers.features.derived import feature_columns
from concord.workers.features.extractors import SEPARATOR, Pieces, clean
from concord.workers.features.templates import (
    AFTER,
    BEFORE,
    LOWER,
    WORD,
    AttributeTemplate,
    Conjunction,
    FeatureSet,
    FeatureSetError,
    Single,
    Source,
)

MAX_TABLE_BYTES = 128 << 20
"""Largest size of a column's word tables, in bytes; they are emptied before they outgrow it."""
MAX_CHARACTERS = 32 << 20
"""Largest total length of a table's words, in characters, by the same rule: a token can be as long as a file."""
OUTSIDE_IDS = 2
"""Number of word ids that stand for places outside a sentence: 0 before it, 1 after it."""


LONGEST_PROBE = 4096
"""Slots in a row that a hash table may have in use: a look-up passes all of them. Tables are at most half full."""


class FeatureError(ValueError):
    """Weights do not belong to the feature set, or cannot come from training."""


class ReadOnlyArrays:
    """Base of frozen dataclasses of arrays: read-only, so that kernels are compiled once, whether shared or not."""

    def __post_init__(self) -> None:
        for name, array in vars(self).items():
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __reduce__(self) -> tuple[type[Self], tuple[NDArray[Any], ...]]:
        return type(self), tuple(vars(self).values())


@dataclass(frozen=True, eq=False)
class FeatureWeights(ReadOnlyArrays):
    """Weights of a feature set as flat read-only arrays, which processes share without a copy.

    - ``start``, ``label``, ``weight``: attribute r gives weight[i] nats to label[i] for start[r] ≤ i < start[r + 1].
    - ``attribute_keys``, ``attribute_rows``: hash table of single and window attributes, by their string.
    - ``conjunction_keys``, ``conjunction_rows``: hash table of conjunctions, by their value ids.
    - ``value_keys``, ``value_rows``: hash table of value ids, by the value.

    Hashes have 64 bits and do not collide within a model. An unknown string hits one of a million hashes with a chance
    of 5 in 10^14.
    """

    start: NDArray[np.int64]
    label: NDArray[np.int32]
    weight: Floats
    attribute_keys: NDArray[np.uint64]
    attribute_rows: NDArray[np.int32]
    conjunction_keys: NDArray[np.uint64]
    conjunction_rows: NDArray[np.int32]
    value_keys: NDArray[np.uint64]
    value_rows: NDArray[np.int32]

    def check(self, labels: int) -> None:
        """Checks the arrays of a model with so many labels, since kernels check nothing themselves.

        Raises `FeatureError` where a kernel would read outside an array, search without end, or sum to no number.
        """
        rows, entries = len(self.start) - 1, len(self.weight)
        if rows < 0 or self.start[0] != 0 or self.start[-1] != entries or np.any(np.diff(self.start) < 0):
            raise FeatureError("start does not rise from 0 to the number of weights")
        if len(self.label) != entries or (entries and not 0 <= self.label.min() <= self.label.max() < labels):
            raise FeatureError(f"label is not one of {labels} labels for each weight")
        if entries and not np.abs(self.weight).max() <= LARGEST_WEIGHT:
            raise FeatureError(f"a weight is not a number of at most {LARGEST_WEIGHT:g} nats")
        check_table("attribute", self.attribute_keys, self.attribute_rows, rows)
        check_table("conjunction", self.conjunction_keys, self.conjunction_rows, rows)
        check_table("value", self.value_keys, self.value_rows, len(self.value_rows))

    @property
    def sparse(self) -> kernels.SparseWeights:
        """The weights as the kernels take them."""
        return kernels.SparseWeights(self.start, self.label, self.weight)


def check_table(name: str, keys: NDArray[np.uint64], rows: NDArray[np.int32], most: int) -> None:
    """Raises `FeatureError` for a hash table that `kernels.build_table` cannot have made of rows below ``most``."""
    size = len(rows)
    if len(keys) != size or size < 1 or size & (size - 1):
        raise FeatureError(f"the table {name} has {len(keys)} keys and {size} rows, want a power of two of both")
    if not -1 <= rows.min() <= rows.max() < most:
        raise FeatureError(f"the table {name} points outside its {most} rows")
    free = np.flatnonzero(rows < 0)
    if not len(free) or max(np.diff(free).max(initial=0), free[0] + size - free[-1]) > LONGEST_PROBE:
        raise FeatureError(f"the table {name} has no free slot within {LONGEST_PROBE} of another")


def code_points(strings: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Strings end to end as code points, and where each ends."""
    text = np.frombuffer("".join(strings).encode("utf-32-le"), np.uint32)
    return text, np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))


@lru_cache(maxsize=4096)
def seed_of(name: str) -> np.uint64:
    """The state in which the hash of a template's (or source's) values starts."""
    return np.uint64(kernels.hash_runs(np.array([len(name)], np.uint64), *code_points([name]))[0])


def compile_weights(
    features: FeatureSet,
    attributes: Sequence[str],
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    weight: Floats,
) -> FeatureWeights:
    """Arrays of a trained model: feature i gives ``weight[i]`` to label ``target[i]`` for attribute ``source[i]``.

    Raises `FeatureError` where an attribute is of no template of the feature set, or two collide.
    """
    order = np.argsort(source, kind="stable")
    start = np.searchsorted(source[order], np.arange(len(attributes) + 1)).astype(np.int64)
    templates: dict[str, AttributeTemplate] = {t.name: t for t in features.templates}
    seeds = {name: seed_of(name) for name in templates}
    single: list[int] = []
    single_values: list[str] = []
    conjoined: list[int] = []
    value_ids: dict[tuple[Source, str], int] = {}
    ids: list[int] = []
    ends: list[int] = []
    row_seeds = np.zeros(len(attributes), np.uint64)
    for row, attribute in enumerate(attributes):
        name, equals, value = attribute.partition("=")
        template = templates.get(name)
        if template is None or not equals:
            raise FeatureError(f"attribute {attribute!r} belongs to no template of feature set {features.name!r}")
        row_seeds[row] = seeds[name]
        if not isinstance(template, Conjunction):
            single.append(row)
            single_values.append(value)
            continue
        conjoined.append(row)
        values = value.split(SEPARATOR)
        if len(values) != len(template.places):
            raise FeatureError(f"attribute {attribute!r} has {len(values)} values, want {len(template.places)}")
        for (place, _), part in zip(template.places, values, strict=True):
            ids.append(value_ids.setdefault((place, part), len(value_ids)))
        ends.append(len(ids))
    at_single, at_conjoined = np.array(single, np.int64), np.array(conjoined, np.int64)
    single_hashes = kernels.hash_runs(row_seeds[at_single], *code_points(single_values))
    hashes = kernels.hash_runs(row_seeds[at_conjoined], np.array(ids, np.int32), np.array(ends, np.int64))
    source_seeds = {s: seed_of(str(s)) for s in features.conjoined}
    value_seeds = np.array([source_seeds[s] for s, _ in value_ids], np.uint64)
    value_hashes = kernels.hash_runs(value_seeds, *code_points([v for _, v in value_ids]))
    return FeatureWeights(
        start,
        target[order].astype(np.int32),
        weight[order],
        *hash_table(single_hashes, at_single),
        *hash_table(hashes, at_conjoined),
        *hash_table(value_hashes, np.arange(len(value_ids))),
    )


def known_words(features: FeatureSet, weights: FeatureWeights, words: Sequence[str]) -> NDArray[np.bool_]:
    """(V,) which words have weights of their own, by the first feature that is the word or its lower case.

    A word of training has none where an L1 prior or a minimum frequency dropped it. Raises `FeatureSetError` where
    no feature is the word.
    """
    single = next((t for t in features.singles if t.source in (WORD, LOWER) and t.offset == 0), None)
    if single is None:
        raise FeatureSetError(f"feature set {features.name!r} has no feature of the word itself")
    text = code_points([single.source.extract.text(clean(word)) for word in words])
    found = kernels.find_texts(seed_of(single.name), *text, weights.attribute_keys, weights.attribute_rows)
    known: NDArray[np.bool_] = found >= 0
    return known


def hash_table(hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Keys and rows of a table that has ``rows[i]`` under ``hashes[i]``. Raises `FeatureError` where two are equal."""
    size = 1 << max(3, (2 * len(hashes)).bit_length())
    keys, slots, clash = kernels.build_table(hashes, size)
    if clash >= 0:
        raise FeatureError(f"attribute {int(rows[clash])} is there twice, or its hash collides with another's")
    used = slots >= 0
    slots[used] = rows[slots[used]]
    return keys, slots


class WordRows:
    """Word tables of one column: rows for its V distinct words; they grow with new words and last across batches.

    - ``offsets`` (K,): offsets of single templates.
    - ``singles`` (K, V, L): summed weights of the single features at each offset.
    - ``found[w]`` (V,): attribute of each word in window w.
    - ``windows[w]`` (V, L): weights of that attribute.
    - ``conjoined`` (E,): sources of this column that conjunctions read.
    - ``values`` (E, V): value ids of these sources.
    """

    def __init__(self, features: FeatureSet, weights: FeatureWeights, column: str, width: int) -> None:
        self._weights = weights
        mine = [t for t in features.singles if t.source.column == column]
        distinct = sorted({t.offset for t in mine})
        self.offsets = np.array(distinct, np.int64)
        self._at_offset: list[tuple[int, Single]] = [(distinct.index(t.offset), t) for t in mine]
        self.window_templates = tuple(t for t in features.windows if t.source.column == column)
        self.conjoined = tuple(i for i, s in enumerate(features.conjoined) if s.column == column)
        self._sources = tuple(features.conjoined[i] for i in self.conjoined)
        self._limit = MAX_TABLE_BYTES // (8 * width * (len(distinct) + len(self.window_templates)) + 64)
        self._width = width
        self._reset()

    @property
    def words(self) -> Collection[str]:
        """The words that have rows."""
        return self._ids.keys()

    def _reset(self) -> None:
        self._ids: dict[str, int] = {}
        self._characters = 0
        self._count = 0
        self.singles = np.zeros((len(self.offsets), 0, self._width))
        self.windows = np.zeros((len(self.window_templates), 0, self._width))
        self.found = np.zeros((len(self.window_templates), 0), np.int32)
        self.values = np.zeros((len(self._sources), 0), np.int32)
        self._append([], outside=True)

    def ids(self, codes: NDArray[np.int32], values: Sequence[str]) -> NDArray[np.int32]:
        """(N,) the table ids of a dictionary-encoded column; only values in use get one."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(values))).tolist()
        words = [values[i] for i in used]
        known = self._ids
        new = [w for w in words if w not in known]
        full = self._count + len(new) > self._limit or self._characters + sum(map(len, new)) > MAX_CHARACTERS
        if new and full and self._count > OUTSIDE_IDS:
            self._reset()
            known, new = self._ids, words
        if new:
            new = list(dict.fromkeys(new))
            self._characters += sum(map(len, new))
            known.update(zip(new, range(self._count, self._count + len(new)), strict=True))
            self._append([clean(w) for w in new])
        table = np.zeros(len(values), np.int32)
        table[used] = [known[w] for w in words]
        return table[codes]

    def _append(self, words: list[str], *, outside: bool = False) -> None:
        """Fills the rows of new (clean) words, or of the two places outside a sentence."""
        count = OUTSIDE_IDS if outside else len(words)
        self._reserve(self._count + count)
        part = slice(self._count, self._count + count)
        w = self._weights
        table = kernels.KeyTable(w.attribute_keys, w.attribute_rows)
        texts: dict[Any, tuple[NDArray[np.uint32], NDArray[np.int64]]] = {}

        def text_of(source: Source) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
            """The words as the source's extractor sees them, as `code_points`; made once an extractor."""
            extract = source.extract
            if extract.text not in texts or outside:
                places = [BEFORE, AFTER] if extract.pieces is Pieces.WHOLE else ["", ""]
                texts[extract.text] = code_points(places if outside else list(map(extract.text, words)))
            return texts[extract.text]

        for k, single in self._at_offset:
            extract = single.source.extract
            text, seed, out = text_of(single.source), seed_of(single.name), self.singles[k, part]
            if extract.pieces is Pieces.WHOLE:
                found = kernels.find_texts(seed, *text, *table)
                kernels.add_rows(out, found, *w.sparse)
            else:
                lengths = kernels.PieceLengths(int(extract.pieces), extract.shortest, extract.longest)
                kernels.add_pieces(out, *text, seed, lengths, table, w.sparse)
        for k, window in enumerate(self.window_templates):
            text, seed = text_of(window.source), seed_of(window.name)
            self.found[k, part] = kernels.find_texts(seed, *text, *table)
            kernels.add_rows(self.windows[k, part], self.found[k, part], *w.sparse)
        for k, source in enumerate(self._sources):
            seed = seed_of(str(source))
            self.values[k, part] = kernels.find_texts(seed, *text_of(source), w.value_keys, w.value_rows)
        self._count += count

    def _reserve(self, count: int) -> None:
        """Makes room for ``count`` words, and keeps the present ones."""
        if count <= self.values.shape[1] and count <= self.singles.shape[1]:
            return
        capacity = max(count, min(self._limit, 2 * count + 1024))

        def grown(array: Any) -> Any:
            """The array with its second axis, the words, at the new capacity."""
            larger = np.zeros((array.shape[0], capacity, *array.shape[2:]), array.dtype)
            larger[:, : self._count] = array[:, : self._count]
            return larger

        self.singles, self.windows = grown(self.singles), grown(self.windows)
        self.found, self.values = grown(self.found), grown(self.values)


class Scorer:
    """Scores batches under one feature set; keeps word tables from batch to batch.

    What the tables hold never changes a score, so the order of the batches does not matter.
    """

    def __init__(self, features: FeatureSet, weights: FeatureWeights, width: int) -> None:
        self._features = features
        self._weights = weights
        self._width = width
        self._tables = {name: WordRows(features, weights, name, width) for name in features.columns}
        sources = {s: i for i, s in enumerate(features.conjoined)}
        places = [[(sources[s], o) for s, o in c.places] for c in features.conjunctions]
        flat = [p for conjunction in places for p in conjunction]
        self._conjunctions = kernels.Conjunctions(
            np.array([seed_of(c.name) for c in features.conjunctions], np.uint64),
            np.cumsum([0, *(len(p) for p in places)]).astype(np.int64),
            np.array([s for s, _ in flat], np.int64),
            np.array([o for _, o in flat], np.int64),
        )

    @property
    def tables(self) -> Collection[WordRows]:
        """The tables of all columns."""
        return self._tables.values()

    def unary(self, batch: Batch) -> Floats:
        """(N, L) summed weights of each token's features, in nats.

        Raises `ColumnError` where the batch lacks a column the features read.
        """
        count, w = batch.token_count, self._weights
        unary = np.zeros((count, self._width))
        bounds = batch.sentence_bounds
        sources = len(self._features.conjoined)
        values, outside = np.zeros((sources, count), np.int32), np.zeros((sources, 2), np.int32)
        for name, column in feature_columns(batch, self._features).items():
            table = self._tables[name]
            ids = table.ids(column.codes, column.values)
            kernels.add_singles(unary, ids, bounds, table.offsets, table.singles)
            for k, window in enumerate(table.window_templates):
                kernels.add_window(unary, ids, bounds, window.first, window.last, table.found[k], table.windows[k])
            for k, source in enumerate(table.conjoined):
                values[source] = table.values[k][ids]
                outside[source] = table.values[k, :OUTSIDE_IDS]
        hashed = kernels.KeyTable(w.conjunction_keys, w.conjunction_rows)
        kernels.add_conjunctions(unary, values, outside, bounds, self._conjunctions, hashed, w.sparse)
        return unary
