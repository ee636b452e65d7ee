"""Counts of the rows of each constraint that hold and break in gold, and the weights that follow from them.

A row can break by more than one unit, so the nats of a broken row are divided by its mean degree in gold. Agreements
are counted by pairs of spans, whatever their length: each pair is a row, and each unit of degree (a word of the pair)
costs the nats of a pair, as in the paper. The interval of a weight comes from that of the share b / n, by Wilson
(1927).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Mask
from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet, Spans
from concord.schemas.problem import NamedSpans, Relation, SpanAgreement
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import AgreementTemplate
from concord.workers.learning.weights.penalties import Penalty, PenaltySettings

QUANTILE = 1.959963984540054
"""The central 95 % of a normal distribution reach so many standard deviations to each side."""


class RowCounts(NamedTuple):
    """Rows of one constraint in gold; for an agreement, pairs of spans.

    - ``rows``: number n of rows with their antecedent.
    - ``vacuous``: number of rows without it.
    - ``broken``: number b of broken rows.
    - ``degree``: sum of all degrees.
    """

    rows: int
    vacuous: int
    broken: int
    degree: float

    def weight(self, penalty: Penalty, settings: PenaltySettings) -> float:
        """Weight in nats per unit of degree."""
        return penalty.nats(self.rows, self.broken, settings) / self._units

    def interval(self, penalty: Penalty, settings: PenaltySettings) -> tuple[float, float]:
        """The weights at both ends of the 95 % interval of the share of broken rows, the lower one first."""
        least, most = wilson(self.broken, self.rows)
        low, high = (penalty.nats(self.rows, share * self.rows, settings) / self._units for share in (most, least))
        return low, high

    @property
    def _units(self) -> float:
        """Mean degree of a broken row; 1 if none is broken."""
        return self.degree / self.broken if self.broken else 1.0


def wilson(count: float, total: float) -> tuple[float, float]:
    """95 % confidence interval of a probability after ``count`` of ``total`` trials; (0, 1) without a trial."""
    if total == 0:
        return 0.0, 1.0
    share, spread = count / total, QUANTILE**2 / total
    middle = share + spread / 2.0
    reach = math.sqrt(spread * (share * (1.0 - share) + spread / 4.0))
    low, high = (middle - reach) / (1.0 + spread), (middle + reach) / (1.0 + spread)
    return (0.0 if count == 0 else low), (1.0 if count == total else high)


def count_rows(constraints: DeclaredConstraints, batches: Iterable[Batch], labels: LabelSet) -> dict[str, RowCounts]:
    """Row counts of each constraint by name, on documents with gold labels.

    Raises `ValueError` for a batch without gold labels and `LabelError` for labels that are not in ``labels``.
    """
    charged = _charged(constraints)
    totals = np.zeros((4, len(constraints.names)))
    for batch in batches:
        if batch.labels is None:
            raise ValueError(f"documents {batch.doc_ids[0]!r} and after have no gold labels to count on")
        gold = labels.encode(batch.labels.strings())
        grounds, antecedents = charged.ground(batch, labels), charged.antecedents(batch, labels)
        for document, ground, antecedent in zip(batch, grounds, antecedents, strict=True):
            own, gold = gold[: len(document)], gold[len(document) :]
            there, degree = antecedent.degree(own) > 0, ground.rows.degree(own)
            for total, amount in zip(totals, (there, ~there, degree > 0, degree), strict=True):
                total += np.bincount(ground.rows.constraint, amount, len(total))
            spans = labels.spans(own, document.sentence_starts)
            for agreement in ground.agreements:
                pairs, broken = _pairs(agreement, spans)
                totals[:, agreement.constraint] += pairs, 0.0, broken, broken
    return {
        name: RowCounts(int(n), int(vacuous), int(b), degree)
        for name, (n, vacuous, b, degree) in zip(constraints.names, totals.T.tolist(), strict=True)
    }


def _charged(constraints: DeclaredConstraints) -> DeclaredConstraints:
    """The same constraints, with a cost on each agreement so that broken pairs can be counted."""
    named = zip(constraints.templates, constraints.titles, strict=True)
    templates = (
        (t.to_count() if isinstance(t, AgreementTemplate) else t).model_copy(update={"name": title})
        for t, title in named
    )
    return DeclaredConstraints(tuple(templates), constraints.origins)


def _pairs(agreement: SpanAgreement, spans: Spans) -> tuple[float, float]:
    """Number of pairs of spans that an agreement applies to, and number of those that it charges.

    It applies to pairs of its types in its relation. Where the relation itself is charged (spans with different keys,
    occurrences left outside), it applies to pairs with the same key too.
    """
    named, costly = NamedSpans.of(agreement.key, spans), agreement.cost > 0
    counts = replace(agreement, per_token=False).pair_counts(named)
    if agreement.relation is Relation.CONTAINED:
        return float(counts[_joined(costly)].sum()), float(counts[costly].sum())
    if agreement.relation is Relation.EXACT:
        return float(np.triu(counts)[_joined(costly)].sum()), float(np.triu(counts)[costly].sum())
    like = replace(agreement, relation=Relation.EXACT, cost=np.zeros((len(costly), len(costly))), per_token=False)
    same = np.triu(like.pair_counts(named))
    if agreement.relation is Relation.UNLABELLED:
        broken = float(counts[costly].sum())
        return broken + float(same[costly | costly.T].sum()), broken
    broken = float(np.triu(counts)[costly].sum())
    return broken + float(same[costly].sum()), broken


def _joined(costly: Mask) -> Mask:
    """(T, T) mask of all pairs of the types that occur in some pair with a cost."""
    held = costly.any(axis=0) | costly.any(axis=1)
    return np.outer(held, held)
