"""Tally: all counts of `concord evaluate` in one value, and the report made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import TOKENS
from concord.schemas.labels import Labels
from concord.schemas.reports import EvaluationReport, MeasureReport, NameFigures
from concord.workers.evaluation.changes import EntityChanges, TokenChanges
from concord.workers.evaluation.measures import Pair, figures, measured
from concord.workers.evaluation.named_counts import MatchCounts, ratio

Counted = Mapping[str, MatchCounts]
"""Counts by measure."""


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of any number of documents; ``max_gap`` in nats. Tallies of shards add up in any order.

    - ``after``, ``before``: counts against gold by measure, of the answers and of the Viterbi labelling.
    - ``changes``, ``token_changes``: changes of entities and tokens between the two.
    """

    documents: int
    tokens: int
    correct_tokens: int
    certified: int
    by_solver: int
    max_gap: float
    after: Counted
    before: Counted
    changes: EntityChanges
    token_changes: TokenChanges

    @classmethod
    def empty(cls, measures: Sequence[str]) -> Tally:
        """Nothing counted yet."""
        nothing = {name: MatchCounts.empty() for name in measures}
        return cls(0, 0, 0, 0, 0, 0.0, nothing, nothing, EntityChanges.empty(), TokenChanges.empty())

    @classmethod
    def of(
        cls,
        pair: Pair,
        viterbi: Labels,
        measures: Sequence[str],
        *,
        certified: NDArray[np.bool_],
        by_solver: NDArray[np.bool_],
        gaps: NDArray[np.float64],
    ) -> Tally:
        """Counts of a batch; ``viterbi`` (N,) are ids of the pair's labels, the others (D,)."""
        if not certified.shape == by_solver.shape == gaps.shape:
            raise ValueError(
                f"certified is {certified.shape}, by_solver {by_solver.shape} and gaps {gaps.shape}, "
                "want one of each a document"
            )
        batch, labels, gold, predicted = pair
        return cls(
            len(gaps),
            len(batch.columns[TOKENS]),
            int((gold == predicted).sum()),
            int(certified.sum()),
            int(by_solver.sum()),
            float(gaps.max(initial=0.0)),
            measured(pair, measures),
            measured(pair._replace(predicted=viterbi), measures),
            EntityChanges.of(gold, viterbi, predicted, labels, batch.sentence_starts),
            TokenChanges.of(gold, viterbi, predicted, labels),
        )

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.documents + other.documents,
            self.tokens + other.tokens,
            self.correct_tokens + other.correct_tokens,
            self.certified + other.certified,
            self.by_solver + other.by_solver,
            max(self.max_gap, other.max_gap),
            _added(self.after, other.after),
            _added(self.before, other.before),
            self.changes + other.changes,
            self.token_changes + other.token_changes,
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
            measures={name: measure_report(name, after, self.before[name]) for name, after in self.after.items()},
            entity_changes={kind: self.changes.total(kind) for kind in self.changes.kinds},
            token_changes={kind: self.token_changes.total(kind) for kind in self.token_changes.kinds},
        )


def measure_report(measure: str, counts: MatchCounts, viterbi: MatchCounts) -> MeasureReport:
    """Figures over all names, and of every name that occurs."""
    present = [n for n, row in zip(counts.names, counts.table, strict=True) if row.any()]
    names = {
        name: NameFigures(
            precision=counts.precision(name), recall=counts.recall(name), f1=counts.f1(name), **counts.row(name)
        )
        for name in present
    }
    every = {kind: counts.total(kind) for kind in counts.kinds}
    return MeasureReport(
        figures=figures(measure, counts),
        viterbi=figures(measure, viterbi),
        names=names,
        whole=NameFigures(precision=counts.precision(), recall=counts.recall(), f1=counts.f1(), **every),
        viterbi_whole=viterbi.f1(),
        viterbi_names={name: viterbi.f1(name) for name in present},
    )


def _added(first: Counted, second: Counted) -> Counted:
    """Counts of the same measures over two parts together."""
    return {name: counts + second[name] for name, counts in first.items()}
