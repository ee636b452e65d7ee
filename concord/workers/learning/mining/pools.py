"""Pools of labellings of each document, from which weights of constraints choose the best.

Exact answers are the main cost of learning and choosing weights. But under many different weights a document has few
different answers. So they are kept in a pool for each document, with their scores and degrees, and weights that are
tried choose the best of the pool at almost no cost (as in minimum error rate training, Och 2003). Then exact answers
under good weights are added, until the pools have them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.weights.unseen import UnseenAnswers


@dataclass(eq=False)
class Pools:
    """The pools of D documents, as a table with a row for each labelling.

    - ``answers``: gives exact answers under any weights.
    - ``measure``: name of the measure that is counted.
    - ``look``: called before each exact answer.
    - ``labels``: labelling of each row.
    - ``places`` (D,): rows of each document; the first is its answer without the weighed constraints.

    Each row also has the labelling's score in nats without the weighed constraints, its degrees (K,), and the measure's
    counts (R, 3).
    """

    answers: UnseenAnswers
    measure: str
    look: Callable[[], None] = lambda: None
    labels: list[Labels] = field(default_factory=list)
    _local: list[float] = field(default_factory=list)
    _degrees: list[Floats] = field(default_factory=list)
    _counts: list[Counts] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, answers: UnseenAnswers, measure: str, look: Callable[[], None] = lambda: None) -> Pools:
        """Pools with one labelling each: the document's answer without the weighed constraints."""
        pools, every = cls(answers, measure, look), range(len(answers))
        alone = [answers.alone(i) for i in every]
        counts = answers.counts(every, [one.labels for one in alone], measure)
        for one, own in zip(alone, counts, strict=True):
            pools.places.append([len(pools.labels)])
            pools._row(one.labels, 0.0, one.degrees, own)
        return pools

    def grown(self, weights: Floats) -> int:
        """Adds the exact answer of each document under weights (D, K); returns the number of answers that were new."""
        return sum(self._added(i, own) for i, own in enumerate(weights))

    def chosen(self, weights: Floats) -> Ints:
        """(D,) row of the best labelling of each document under weights (D, K); ties go to the first."""
        rows = [self.best(i, own) for i, own in enumerate(weights)]
        return np.array(rows, np.int64)

    def best(self, i: int, weights: Floats) -> int:
        """Row of the best labelling of document i under weights (K,); ties go to the first."""
        rows = self.places[i]
        if len(rows) == 1:
            return rows[0]
        scores = [self._local[row] - float(self._degrees[row] @ weights) for row in rows]
        return rows[int(np.argmax(scores))]

    def excess(self, i: int, weights: Floats) -> Floats | None:
        """(K,) degrees of that labelling of document i, less those of gold; None if it is gold."""
        row = self.best(i, weights)
        right = self.answers.is_right(i, self.labels[row])
        return None if right else self.degrees(row) - self.answers.gold_degrees(i)

    def spoken_of(self, constraint: int) -> Ints:
        """The documents with a labelling that breaks a constraint; in other documents it changes nothing."""
        every = enumerate(self.places)
        return np.array([i for i, rows in every if any(self._degrees[row][constraint] > 0 for row in rows)], np.int64)

    def degrees(self, row: int) -> Floats:
        """(K,) degree of each constraint in a row."""
        return self._degrees[row]

    def counts(self, rows: Ints | Sequence[int]) -> Counts:
        """(…, R, 3) the measure's counts of some rows."""
        return np.array([self._counts[row] for row in rows])

    def _added(self, i: int, weights: Floats) -> bool:
        self.look()
        rows = self.places[i]
        answer = self.answers.under(i, weights, start=self.labels[self.best(i, weights)])
        if any((self.labels[row] == answer.labels).all() for row in rows):
            return False
        if len(rows) == 1:
            self._local[rows[0]] = self.answers.local(i, self.labels[rows[0]])
        rows.append(len(self.labels))
        (counts,) = self.answers.counts([i], [answer.labels], self.measure)
        self._row(answer.labels, self.answers.local(i, answer.labels), answer.degrees, counts)
        return True

    def _row(self, labels: Labels, local: float, degrees: Floats, counts: Counts) -> None:
        self.labels.append(labels)
        self._local.append(local)
        self._degrees.append(degrees)
        self._counts.append(counts)
