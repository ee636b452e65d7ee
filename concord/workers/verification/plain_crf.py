"""Scores of a CRF by the strings of all attributes: no word tables, no kernel.

`workers.features.attributes` writes the attributes of a token as strings, as in training. Each is looked up by its
hash, which numpy computes here, among the keys of the model's file, and its weights are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.potentials import Potentials
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.extractors import SEPARATOR
from concord.workers.features.scorer import FeatureWeights, code_points
from concord.workers.features.templates import Conjunction, FeatureSet
from concord.workers.models.crf import CrfModel

Hashes = NDArray[np.uint64]

FACTOR, SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
"""Constants of the hash under which weights are filed, see `workers.features.kernels`."""
MOST_KNOWN = 2_000_000
"""Largest number of attributes whose rows are remembered."""


def plain_potentials(model: CrfModel) -> Callable[[Batch], Potentials]:
    """A function with the same results as `CrfModel.potentials`."""
    width, of_pairs = len(model.names), model.features.pairs
    scorer = PlainScorer(model.features, model.weights, width)
    pairs = None if of_pairs is None or model.pairs is None else PlainScorer(of_pairs, model.pairs, width * width)

    def potentials(batch: Batch) -> Potentials:
        return model.of_chain(scorer.unary(batch), None if pairs is None else pairs.unary(batch), batch)

    return potentials


class PlainScorer:
    """Scorer of batches under one feature set, with the same results as `workers.features.scorer.Scorer`."""

    def __init__(self, features: FeatureSet, weights: FeatureWeights, width: int) -> None:
        self._weights, self._width = weights, width
        self._attributes = AttributeMaker(features)
        self._templates = {template.name: template for template in features.templates}
        self._rows: dict[str, int] = {}

    def unary(self, batch: Batch) -> Floats:
        """(N, L) sum of the weights of each token's attributes, in nats. Raises `ColumnError`."""
        return np.concatenate([np.zeros((0, self._width)), *(self._scored(document) for document in batch)])

    def _scored(self, document: Document) -> Floats:
        tokens = self._attributes(document)
        names = [name for token in tokens for name in token]
        self._look_up(set(names))
        row = np.fromiter(map(self._rows.__getitem__, names), np.int64, len(names))
        place = np.repeat(np.arange(len(tokens)), [len(token) for token in tokens])[row >= 0]
        return self._summed(place, row[row >= 0], len(tokens))

    def _summed(self, place: Ints, row: Ints, count: int) -> Floats:
        """(N, L) sum of the weights of attribute row[i] at token place[i], in nats."""
        start, target, weight = self._weights.sparse
        size, width = start[row + 1] - start[row], self._width
        entry = np.arange(size.sum()) + np.repeat(start[row] - np.cumsum(size) + size, size)
        cell = np.repeat(place, size) * width + target[entry]
        sums: Floats = np.bincount(cell, weight[entry], count * width).reshape(count, width).astype(np.float64)
        return sums

    def _look_up(self, names: set[str]) -> None:
        """Finds and remembers the rows of these attributes; −1 for those without weights."""
        if len(self._rows) > MOST_KNOWN:
            self._rows.clear()
        split = {name: name.partition("=") for name in sorted(names - self._rows.keys())}
        chains = {name: isinstance(self._templates[before], Conjunction) for name, (before, _, _) in split.items()}
        for conjoined, find in ((False, self._single), (True, self._conjoined)):
            new = [name for name in split if chains[name] is conjoined]
            rows = find([split[name][0] for name in new], [split[name][2] for name in new])
            self._rows.update(zip(new, rows.tolist(), strict=True))

    def _single(self, templates: Sequence[str], values: Sequence[str]) -> Ints:
        """(A,) the rows of attributes with one value."""
        weights = self._weights
        return found_in(weights.attribute_keys, weights.attribute_rows, text_hashes(seeds_of(templates), values))

    def _conjoined(self, templates: Sequence[str], values: Sequence[str]) -> Ints:
        """(A,) the rows of conjunctions: each value has a number, and these numbers are hashed."""
        weights = self._weights
        sources: list[str] = []
        for name in templates:
            template = self._templates[name]
            assert isinstance(template, Conjunction)
            sources += [str(source) for source, _ in template.places]
        parts = [value.split(SEPARATOR) for value in values]
        hashes = text_hashes(seeds_of(sources), [value for each in parts for value in each])
        numbers = found_in(weights.value_keys, weights.value_rows, hashes)
        sizes = np.array([len(each) for each in parts], np.int64)
        rows = found_in(
            weights.conjunction_keys,
            weights.conjunction_rows,
            run_hashes(seeds_of(templates), numbers.astype(np.uint64), sizes),
        )
        unknown = np.bincount(np.repeat(np.arange(len(sizes)), sizes), numbers < 0, len(sizes)) > 0
        return np.where(unknown, -1, rows)


def found_in(keys: Hashes, rows: NDArray[np.int32], hashes: Hashes) -> Ints:
    """(A,) the row of each hash in a table, −1 if it has none."""
    held = np.flatnonzero(rows >= 0)
    held = held[np.argsort(keys[held])]
    if not len(held):
        return np.full(len(hashes), -1, np.int64)
    place = np.minimum(np.searchsorted(keys[held], hashes), len(held) - 1)
    return np.where(keys[held][place] == hashes, rows[held][place], -1).astype(np.int64)


def seeds_of(names: Sequence[str]) -> Hashes:
    """(A,) the seeds of the hashes of values, by the names of their templates or sources."""
    distinct = sorted(set(names))
    lengths = np.array([len(name) for name in distinct], np.uint64)
    seeds = dict(zip(distinct, text_hashes(lengths, distinct).tolist(), strict=True))
    return np.array([seeds[name] for name in names], np.uint64)


def text_hashes(seeds: Hashes, texts: Sequence[str]) -> Hashes:
    """(A,) hashes of strings, each from its own seed."""
    points, ends = code_points(texts)
    return run_hashes(seeds, points.astype(np.uint64), np.diff(ends, prepend=0))


def run_hashes(seeds: Hashes, items: Hashes, sizes: Ints) -> Hashes:
    """(A,) hashes of runs of ``sizes`` (A,) items, which stand end to end; each starts from its own seed."""
    state, start = seeds.copy(), np.cumsum(sizes) - sizes
    running = np.arange(len(sizes))
    for place in range(int(sizes.max(initial=0))):
        running = running[sizes[running] > place]
        mixed = (state[running] ^ items[start[running] + place]) * FACTOR
        state[running] = mixed ^ (mixed >> SHIFT)
    return state
