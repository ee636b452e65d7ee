"""A model: how often each word had each label."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from concord.parts import (
    Batch,
    LabelSet,
    Manifest,
    ModelError,
    Potentials,
    read_manifest,
)

KIND = "word-counts"
COUNTS = "counts.json"


@dataclass(frozen=True, eq=False)
class WordCounts:
    """``counts`` has a number for each of L labels of each word that was seen."""

    manifest: Manifest
    counts: Mapping[str, Sequence[int]]
    columns: tuple[str, ...] = ("tokens",)

    @property
    def labels(self) -> LabelSet:
        """The labels (L)."""
        return self.manifest.label_set

    @property
    def digest(self) -> str:
        """See `Model.digest`."""
        return self.manifest.digest

    def potentials(self, batch: Batch) -> Potentials:
        """(N, L) logarithms of the shares of each word's labels, one more counted of each; transitions of zero."""
        words, width = batch.columns["tokens"], len(self.labels)
        seen = np.array([self.counts.get(word, (0,) * width) for word in words.values]).reshape(-1, width) + 1.0
        shares = np.log(seen / seen.sum(axis=1, keepdims=True))
        return Potentials(shares[words.codes], np.zeros((width, width)), batch.sentence_starts)


def load(folder: Path) -> WordCounts:
    """The model in a folder. Raises `ModelError`."""
    manifest = read_manifest(folder, kind=KIND, files=(COUNTS,))
    try:
        counts = json.loads((folder / COUNTS).read_bytes())
        good = all(len(row) == len(manifest.labels) and min(row) >= 0 for row in counts.values())
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{folder / COUNTS}: damaged ({error}); train again") from error
    if not good:
        raise ModelError(f"{folder / COUNTS}: no counts of {len(manifest.labels)} labels; train again")
    return WordCounts(manifest, counts)
