"""Features of segments, beyond those of their tokens (Fersini et al. 2014 §4, after Sarawagi & Cohen 2004).

- First and last token: all token features again, for each of the two.
- Context: words and patterns of capitals of the three tokens before and three tokens after the segment, by place.
- Whole segment: its words; and its pattern, the patterns of its words with runs of one pattern as one.

Features of the first and the last token are those of one token, so they are feature sets like any other. A whole
segment is looked up by its hash in a table of the gold segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.document import TOKENS, Batch
from concord.workers.features import kernels
from concord.workers.features.extractors import clean
from concord.workers.features.scorer import (
    FeatureError,
    ReadOnlyArrays,
    check_table,
    code_points,
    hash_table,
    seed_of,
)
from concord.workers.features.templates import PATTERN, WORD, FeatureSet, Single

WINDOW = 3
"""Number of tokens before and after a segment that features read."""

WHOLE = (WORD, PATTERN)
"""Sources by which a whole segment is hashed; a run of tokens with one pattern counts as one token."""


def first_features(features: FeatureSet) -> FeatureSet:
    """Feature set of the first token of a segment, with the context before it; offsets count from that token."""
    return _with_window(features, range(-WINDOW, 0))


def last_features(features: FeatureSet) -> FeatureSet:
    """Feature set of the last token of a segment, with the context after it; offsets count from that token."""
    return _with_window(features, range(1, WINDOW + 1))


def _with_window(features: FeatureSet, offsets: range) -> FeatureSet:
    around = [Single(source, offset) for source in (WORD, PATTERN) for offset in offsets]
    return replace(features, templates=tuple(dict.fromkeys((*features.templates, *around))))


@dataclass(frozen=True, eq=False)
class WholeSegments(ReadOnlyArrays):
    """Segments by the hash of their words, or of their pattern: a table of R rows."""

    keys: NDArray[np.uint64]
    rows: NDArray[np.int32]

    @classmethod
    def of(cls, batch: Batch, start: Ints, size: Ints, least: int) -> WholeSegments:
        """Table of the words and patterns that at least ``least`` of the given segments of a batch share.

        - ``start``, ``size``: first token and length of each segment.

        Raises `FeatureError` where two hashes collide.
        """
        kept = []
        for hashes, repeats, seed in _told(batch):
            found = np.empty(len(start), np.uint64)
            kernels.hash_segments(hashes, repeats, start, size, seed, found)
            distinct, count = np.unique(found, return_counts=True)
            kept.append(distinct[count >= least])
        every = np.concatenate(kept)
        return cls(*hash_table(every, np.arange(len(every))))

    def __len__(self) -> int:
        return int(self.rows.max(initial=-1)) + 1

    def found(self, batch: Batch, longest: int) -> NDArray[np.int32]:
        """(2, N, longest) rows of the words and the pattern of segments, by first token and length less one; or −1."""
        found = np.empty((len(WHOLE), batch.token_count, longest), np.int32)
        for rows, (hashes, repeats, seed) in zip(found, _told(batch), strict=True):
            kernels.find_segments(hashes, repeats, batch.sentence_bounds, seed, self.keys, self.rows, rows)
        return found

    def check(self, rows: int) -> None:
        """Raises `FeatureError` for a table that is none of so many rows."""
        check_table("whole", self.keys, self.rows, rows)
        if len(self) != rows:
            raise FeatureError(f"the table whole has {len(self)} rows, want {rows}")


def _told(batch: Batch) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.bool_], np.uint64]]:
    """For each of `WHOLE`: hash (N,) of each token's value, mask (N,) of tokens that repeat the one before, and the
    seed of segment hashes."""
    tokens = batch.columns[TOKENS]
    words = [clean(word) for word in tokens.values]
    for source in WHOLE:
        seed = seed_of(f"whole {source}")
        texts = code_points(list(map(source.extract.text, words)))
        hashes = kernels.hash_runs(np.full(len(words), seed), *texts)[tokens.codes]
        repeats = np.zeros(len(hashes), np.bool_)
        if source is PATTERN:
            repeats[1:] = hashes[1:] == hashes[:-1]
        yield hashes, repeats, seed
