"""Labellings of documents that some weights of constraints have brought up: what other weights may choose from.

To answer a document exactly is what learning and choosing weights cost. Answers under many weights are few: they are
kept in a pool a document, with their scores and degrees, and weights that are tried choose the best of the pool (as in
minimum error rate training, Och 2003), for next to nothing. Exact answers under weights that look good are then added,
until there is none that the pools do not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.weights.unseen import UnseenAnswers


@dataclass(eq=False)
class Pools:
    """Of D documents: ``places`` (D,) lists of rows of the table; a row is a labelling, the first its answer alone.

    A row has the score in nats of a labelling without what is weighed, its degrees (K,), and its counts (R, 3) of the
    measure.
    """

    answers: UnseenAnswers
    measure: str
    labels: list[Labels] = field(default_factory=list)
    _local: list[float] = field(default_factory=list)
    _degrees: list[Floats] = field(default_factory=list)
    _counts: list[Counts] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, answers: UnseenAnswers, measure: str) -> Pools:
        """With every document's answer alone."""
        pools, every = cls(answers, measure), range(len(answers))
        alone = [answers.alone(i) for i in every]
        counts = answers.counts(every, [one.labels for one in alone], measure)
        for one, own in zip(alone, counts, strict=True):
            pools.places.append([len(pools.labels)])
            pools._row(one.labels, 0.0, one.degrees, own)
        return pools

    def grown(self, weights: Floats) -> int:
        """Answers every document exactly under weights (D, K); how many answers the pools did not have."""
        return sum(self._added(i, own) for i, own in enumerate(weights))

    def chosen(self, weights: Floats) -> Ints:
        """(D,) the row of the best labelling of each document under weights (D, K); the first of equals."""
        found = [self.best(i, own) for i, own in enumerate(weights)]
        return np.array(found, np.int64)

    def best(self, i: int, weights: Floats) -> int:
        """The row of the best labelling of document i under weights (K,); the first of equals."""
        rows = self.places[i]
        if len(rows) == 1:
            return rows[0]
        scores = [self._local[row] - float(self._degrees[row] @ weights) for row in rows]
        return rows[int(np.argmax(scores))]

    def spoken_of(self, constraint: int) -> Ints:
        """The documents of which some labelling breaks a constraint: it changes no other."""
        every = enumerate(self.places)
        return np.array([i for i, rows in every if any(self._degrees[row][constraint] > 0 for row in rows)], np.int64)

    def degrees(self, row: int) -> Floats:
        """(K,) of a labelling."""
        return self._degrees[row]

    def counts(self, rows: Ints | Sequence[int]) -> Counts:
        """(…, R, 3) of labellings."""
        return np.array([self._counts[row] for row in rows])

    def _added(self, i: int, weights: Floats) -> bool:
        rows = self.places[i]
        found = self.answers.under(i, weights, start=self.labels[self.best(i, weights)])
        if any((self.labels[row] == found.labels).all() for row in rows):
            return False
        if len(rows) == 1:
            self._local[rows[0]] = self.answers.local(i, self.labels[rows[0]])
        rows.append(len(self.labels))
        (counts,) = self.answers.counts([i], [found.labels], self.measure)
        self._row(found.labels, self.answers.local(i, found.labels), found.degrees, counts)
        return True

    def _row(self, labels: Labels, local: float, degrees: Floats, counts: Counts) -> None:
        self.labels.append(labels)
        self._local.append(local)
        self._degrees.append(degrees)
        self._counts.append(counts)
