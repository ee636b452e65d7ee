"""Word vectors that others have learned, as features: real numbers beside the features of value 1.

Turian, Ratinov & Bengio (2010). What a word's vector gives a label is linear in it, so a model keeps what each word
gives, and not the vectors: its weights are those of one attribute a word, the word's row in the table of words. So the
scorer, and all else that reads a model, sees attributes like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from concord.schemas.arrays import Floats, Ids, Ints
from concord.schemas.document import TOKENS, Batch
from concord.workers.features.clusters import VECTOR, ClusterFileError, Clusters
from concord.workers.features.extractors import clean

VECTOR_OFFSETS = (-1, 0, 1)
"""Words around the token whose vectors are read."""


@dataclass(frozen=True, eq=False)
class WordVectors:
    """V words and their vectors.

    - ``table``: the words, each with its row.
    - ``points`` (V, D): vectors; those of a saved model have no numbers (D = 0), since its weights have them in them.
    """

    table: Clusters
    points: Floats

    @classmethod
    def of_table(cls, table: Clusters) -> Self:
        """The words of a saved model. Raises `ClusterFileError` for clusters in the place of rows."""
        if table.names != (VECTOR,):
            raise ClusterFileError(f"its clusterings are {', '.join(table.names)}, not the rows of vectors")
        return cls(table, np.zeros((len(table.words), 0)))

    @classmethod
    def scaled(cls, words: Sequence[str], points: Floats, scale: float) -> Self:
        """Distinct words (V) and their vectors (V, D), whose numbers get the standard deviation ``scale``."""
        rows, spread = np.arange(len(words), dtype=np.int32)[:, None], float(points.std())
        table = Clusters(pa.array(words, pa.string()), (VECTOR,), rows, 0)
        return cls(table, points * (scale / spread if spread else 1.0))

    @property
    def saved(self) -> WordVectors:
        """The words alone."""
        return replace(self, points=self.points[:, :0])

    def rows(self, batch: Batch) -> Ids:
        """(N, K) row of the word at each of `VECTOR_OFFSETS` from a token; −1 outside its sentence or the table."""
        words = batch.columns[TOKENS]
        places = (self.table.place(clean(word)) for word in words.values)
        own = np.fromiter(places, np.int32, len(words.values))[words.codes]
        return np.stack([_at_offset(own, batch.sentence_bounds, offset) for offset in VECTOR_OFFSETS], axis=1)


def _at_offset(own: Ids, bounds: Ints, offset: int) -> Ids:
    """(N,) the row of the token at an offset; −1 outside the sentence."""
    sentence = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    place = np.clip(np.arange(len(own)) + offset, 0, max(len(own) - 1, 0))
    inside = (place - np.arange(len(own)) == offset) & (sentence[place] == sentence)
    return np.where(inside, own[place], -1).astype(np.int32)
