"""Runs of documents in gold, and the same runs in random order.

A run is a labelled span, or a stretch of tokens outside all spans; the end of a sentence ends it. Tokens outside spans
are of type T, after the T span types.

Shuffled orders come from a Markov chain that swaps two runs of one document. A swap that would merge two runs (two
neighbours of one plain label, or two stretches outside) is refused. All permitted orders are equally likely, since the
chain is symmetric: if gold is a random order, so is each state of a chain that starts there. Short chains stay near
gold, so they can overestimate how often a rule holds by chance, but not underestimate it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints, Mask
from concord.schemas.document import Batch
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.workers.constraints.templates.template import same_run
from concord.workers.inference.core.engine import document_rng

SWAPS_A_RUN = 4
"""Swaps for each run of a document, between one order that is used and the next."""


@dataclass(frozen=True, eq=False)
class Runs:
    """R runs of D documents that have tokens.

    - ``at`` (R,): first token of each run.
    - ``types`` (R,): type of each run, from 0 to T.
    - ``joined`` (R,): is the run before it in the same sentence?
    - ``starts`` (D + 1,): first run of each document, and R.
    - ``merges`` (T + 1,): are two neighbouring runs of the type one run?
    - ``doc_ids`` (D,): ids of the documents.
    """

    at: Ints
    types: Ints
    joined: Mask
    starts: Ints
    merges: Mask
    doc_ids: tuple[str, ...]

    @classmethod
    def of(cls, batch: Batch, gold: Labels, labels: LabelSet) -> Runs:
        """The runs that labels (N,) of a batch encode."""
        opens = np.ones(len(gold), np.bool_)
        opens[1:] = ~same_run(labels)[gold[:-1], gold[1:]]
        opens[batch.sentence_starts] = True
        at = np.flatnonzero(opens)
        types = labels.type_of[gold[at]].astype(np.int64)
        filled = np.flatnonzero(np.diff(batch.doc_starts))
        starts = np.append(np.searchsorted(at, batch.doc_starts[filled]), len(at))
        merges = np.append(np.full(len(labels.types), labels.scheme is Scheme.PLAIN), True)
        ids = tuple(batch.doc_ids[i] for i in filled.tolist())
        joined = ~np.isin(at, batch.sentence_starts)
        return cls(at, np.where(types < 0, len(labels.types), types), joined, starts, merges, ids)

    def __len__(self) -> int:
        return len(self.doc_ids)

    @property
    def kinds(self) -> int:
        """The number of types with outside, T + 1."""
        return len(self.merges)

    @property
    def documents(self) -> Ints:
        """(R,) the document of each run."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def shuffled(self, orders: int, seed: int) -> Iterator[Ints]:
        """Types (R,) of the runs in so many random orders.

        Those of a document depend only on the seed, its id and its own runs.
        """
        swaps = self._swaps(orders, seed)
        barrier = np.append(self.joined, False)
        types = np.append(self.types, -1)
        per_order = swaps.shape[1] // orders
        for order in range(orders):
            for step in range(order * per_order, (order + 1) * per_order):
                self._swap(types, swaps[0, step], swaps[1, step], barrier)
            yield types[:-1].copy()

    def _swaps(self, orders: int, seed: int) -> NDArray[np.int64]:
        """(2, S, D) the two runs to be swapped at each step, in each document; shorter documents have fewer swaps."""
        sizes = np.diff(self.starts)
        longest = SWAPS_A_RUN * int(sizes.max(initial=0))
        swaps = np.tile(self.starts[:-1], (2, orders * longest, 1)).reshape(2, orders, longest, len(self))
        for d, (doc_id, size) in enumerate(zip(self.doc_ids, sizes.tolist(), strict=True)):
            drawn = document_rng(seed, doc_id).integers(size, size=(orders, SWAPS_A_RUN * size, 2))
            swaps[:, :, : SWAPS_A_RUN * size, d] += drawn.transpose(2, 0, 1)
        return swaps.reshape(2, -1, len(self))

    def _swap(self, types: Ints, left: Ints, right: Ints, barrier: Mask) -> None:
        """Swaps runs ``left`` and ``right`` (D,) of every document, except where runs would merge."""
        one, other = types[left], types[right]
        types[left], types[right] = other, one
        merged = np.zeros(len(left), np.bool_)
        for at in (left, left + 1, right, right + 1):
            merged |= barrier[at] & (types[at] == types[at - 1]) & self.merges[types[at]]
        left, right = left[merged], right[merged]
        types[left], types[right] = one[merged], other[merged]
