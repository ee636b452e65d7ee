"""Gain and loss of a measure by constraints: all of them against none, and each against all others.

A constraint that holds in gold may still do harm: where it pushes an answer away from what it forbids, another label
takes the place, and need not be the right one. So documents with gold are answered by the model alone, under all
constraints, and under all but each one that has a place there, and the measures of the label scheme count all these
answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from concord.schemas.arrays import Mask
from concord.schemas.audit import MeasuredEffect
from concord.schemas.document import Batch, Document
from concord.schemas.gains import FigureEffect
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import LinearRows, Problem
from concord.workers.constraints.rows import selected
from concord.workers.evaluation.bootstrap import paired_bootstraps
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import DEFAULTS, MEASURES, Pair
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder

FIRST_FIGURES = ("f1", "accuracy")
"""Figures that stand for a measure: the first of them that it has."""

_NONE, _ALL, _EACH = 0, 1, 2
"""Places of the answers to a document: without constraints, under all, and from here on without each."""


@dataclass
class Effects:
    """The effects of K constraints, over documents with gold that are seen one after the other.

    - ``labels``: label set of gold and answers.
    - ``constraints``: K, the number of constraints.
    - ``decoder``: engine that answers.
    - ``changed`` (K + 1,): number of documents whose answer all constraints change, then each of them.
    - ``tables``: by measure the counts (K + 2, R, 3) of the answers to each document.
    """

    labels: LabelSet
    constraints: int
    decoder: Decoder
    changed: list[int] = field(init=False)
    tables: dict[str, list[Counts]] = field(init=False)

    def __post_init__(self) -> None:
        self.changed = [0] * (self.constraints + 1)
        self.tables = {name: [] for name in DEFAULTS[self.labels.scheme]}

    def look_at(
        self, document: Document, problem: Problem, own: LinearRows | None, gold: Labels, answer: Labels
    ) -> None:
        """Adds a document with ``gold`` labels (n,).

        - ``problem``: the document under all constraints, without rows of the model's own
        - ``own``: these rows; None where the model has none
        - ``answer`` (n,): the answer under all constraints
        """
        answers = list(self._answers(document, problem, own, answer))
        against = [answers[_NONE], *answers[_EACH:]]
        self.changed = [n + bool((other != answer).any()) for n, other in zip(self.changed, against, strict=True)]
        batch = Batch.of([document])
        for measure, tables in self.tables.items():
            tables.append(_counts(measure, batch, self.labels, gold, answers))

    def whole(self) -> MeasuredEffect | None:
        """Effect of all constraints together; None where no document has been seen."""
        return self._effect(_NONE, self.changed[0])

    def of(self, constraint: int) -> MeasuredEffect | None:
        """Effect of one constraint beside all others; None where no document has been seen."""
        return self._effect(_EACH + constraint, self.changed[1 + constraint])

    def _effect(self, without: int, changed: int) -> MeasuredEffect | None:
        if not any(self.tables.values()):
            return None
        figures = [_compared(measure, np.array(tables), without) for measure, tables in self.tables.items()]
        return MeasuredEffect(documents=changed, figures=tuple(figures))

    def _answers(
        self, document: Document, problem: Problem, own: LinearRows | None, answer: Labels
    ) -> Iterator[Labels]:
        yield self._under(document, problem, own, np.zeros(self.constraints, np.bool_))
        yield answer
        here = _present(problem, self.constraints)
        for k in range(self.constraints):
            others = np.arange(self.constraints) != k
            yield self._under(document, problem, own, others) if here[k] else answer

    def _under(self, document: Document, problem: Problem, own: LinearRows | None, in_force: Mask) -> Labels:
        restricted = only(problem, in_force)
        return self.decoder(restricted if own is None else restricted.with_own_rows(own), document.doc_id).labels


def only(problem: Problem, in_force: Mask) -> Problem:
    """The problem under the constraints that ``in_force`` (K,) marks."""
    return replace(
        problem,
        rows=selected(problem.rows, in_force[problem.rows.constraint]),
        agreements=tuple(agreement for agreement in problem.agreements if in_force[agreement.constraint]),
    )


def _present(problem: Problem, constraints: int) -> Mask:
    """(K,) marks the constraints that have a row or an agreement in a document."""
    present = np.zeros(constraints, np.bool_)
    present[problem.rows.constraint] = True
    present[[agreement.constraint for agreement in problem.agreements]] = True
    return present


def _counts(measure: str, batch: Batch, labels: LabelSet, gold: Labels, answers: Sequence[Labels]) -> Counts:
    """(K + 2, R, 3) counts of each answer to one document; equal answers are counted once."""
    by_answer: dict[bytes, Counts] = {}
    for answer in answers:
        key = answer.tobytes()
        if key not in by_answer:
            by_answer[key] = MEASURES[measure].items(Pair(batch, labels, gold, answer)).by_document()[0]
    return np.array([by_answer[answer.tobytes()] for answer in answers])


def _compared(measure: str, counts: Counts, without: int) -> FigureEffect:
    """Figure of counts (D, K + 2, R, 3) under all constraints, and at the place ``without``."""
    figure = next(name for name in FIRST_FIGURES if name in MEASURES[measure].figures)
    of, sums = FIGURES[figure], counts.sum(axis=0)
    rng = np.random.default_rng(0)
    difference = paired_bootstraps(counts[:, without], counts[:, _ALL], {figure: of}, rng=rng)[figure]
    before, after = float(of(sums[without])), float(of(sums[_ALL]))
    return FigureEffect.from_results(difference, measure=measure, figure=figure, before=before, after=after)
