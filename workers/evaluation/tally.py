"""All that `concord evaluate` counts in one value, and the report made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Labels, LabelSet
from schemas.reports import EntityReport, EvaluationReport, TypeFigures
from workers.evaluation.conlleval import EntityCounts
from workers.evaluation.named_counts import ratio


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of any number of documents; ``max_gap`` in nats. Tallies of shards add up in any order."""

    documents: int
    tokens: int
    correct_tokens: int
    certified: int
    by_solver: int
    max_gap: float
    entities: EntityCounts

    @classmethod
    def empty(cls) -> Tally:
        """Nothing counted yet."""
        return cls(0, 0, 0, 0, 0, 0.0, EntityCounts.empty())

    @classmethod
    def of(
        cls,
        gold: Labels,
        predicted: Labels,
        labels: LabelSet,
        sentence_starts: NDArray[np.int64],
        *,
        certified: NDArray[np.bool_],
        by_solver: NDArray[np.bool_],
        gaps: NDArray[np.float64],
    ) -> Tally:
        """Counts of a batch: labellings (N,) as ids of ``labels``, ``certified``, ``by_solver`` and ``gaps`` (D,)."""
        if not certified.shape == by_solver.shape == gaps.shape:
            raise ValueError(
                f"certified is {certified.shape}, by_solver {by_solver.shape} and gaps {gaps.shape}, "
                "want one of each a document"
            )
        entities = EntityCounts.of(gold, predicted, labels, sentence_starts)
        return cls(
            len(gaps),
            len(gold),
            int((gold == predicted).sum()),
            int(certified.sum()),
            int(by_solver.sum()),
            float(gaps.max(initial=0.0)),
            entities,
        )

    def __add__(self, other: Tally) -> Tally:
        return replace(
            self,
            documents=self.documents + other.documents,
            tokens=self.tokens + other.tokens,
            correct_tokens=self.correct_tokens + other.correct_tokens,
            certified=self.certified + other.certified,
            by_solver=self.by_solver + other.by_solver,
            max_gap=max(self.max_gap, other.max_gap),
            entities=self.entities + other.entities,
        )

    def report(self) -> EvaluationReport:
        """The figures, as fractions."""
        return EvaluationReport(
            documents=self.documents,
            tokens=self.tokens,
            certified=ratio(self.certified, self.documents),
            by_solver=ratio(self.by_solver, self.documents),
            max_gap=self.max_gap if np.isfinite(self.max_gap) else None,
            token_accuracy=ratio(self.correct_tokens, self.tokens),
            entity=entity_report(self.entities),
        )


def entity_report(counts: EntityCounts) -> EntityReport:
    """Precision, recall and F1, overall and for every type that occurs."""
    seen = [n for n, row in zip(counts.names, counts.table, strict=True) if row.any()]
    types = {
        name: TypeFigures(
            precision=counts.precision(name), recall=counts.recall(name), f1=counts.f1(name), **counts.row(name)
        )
        for name in seen
    }
    return EntityReport(precision=counts.precision(), recall=counts.recall(), f1=counts.f1(), types=types)
