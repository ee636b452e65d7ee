"""The counts of one shard: against gold where there is gold, and against Viterbi."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from concord.schemas.decoded import Decoded, Score
from concord.schemas.document import Batch, Document
from concord.schemas.errors import DocumentError
from concord.schemas.label_names import advice
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.run import ConstraintFigures, CountsByName, ShardReport
from concord.workers.evaluation.changes import EntityChanges
from concord.workers.evaluation.measures import Pair, measured, suggested
from concord.workers.evaluation.search_errors import DocumentErrors, EntityErrors


class Errors(Protocol):
    """What `workers.labelling.error_analysis.ErrorAnalysis` counts."""

    @property
    def entities(self) -> EntityErrors:
        """By entity."""
        ...

    @property
    def documents(self) -> DocumentErrors:
        """By document."""
        ...


class LabelledAnswers(Protocol):
    """What `workers.labelling.labelled.Labelled` has."""

    @property
    def decoded(self) -> Sequence[Decoded]:
        """One a document."""
        ...

    @property
    def first(self) -> Sequence[Labels]:
        """The Viterbi labels of each document."""
        ...

    @property
    def before(self) -> Sequence[Score]:
        """The Viterbi labellings' scores."""
        ...

    @property
    def infeasible(self) -> int:
        """Documents without an answer that keeps the hard constraints, rejected ones too."""
        ...

    @property
    def infeasible_rejected(self) -> int:
        """How many of these are rejected, and so not among ``decoded``."""
        ...

    @property
    def errors(self) -> Errors:
        """Error analysis of another engine."""
        ...


def report_of(
    batch: Batch, answers: LabelledAnswers, *, labels: LabelSet, names: Sequence[str], rejected: int
) -> ShardReport:
    """Report of a batch's counts; ``names`` (K,) are the constraints.

    Raises `LabelError` where gold labels do not fit the model's label scheme.
    """
    decoded = answers.decoded
    after, before = _joined([d.labels for d in decoded]), _joined(answers.first)
    gaps = [d.gap for d in decoded]
    counts = ShardReport(
        documents=len(batch),
        tokens=batch.token_count,
        rejected=rejected,
        infeasible=answers.infeasible,
        infeasible_rejected=answers.infeasible_rejected,
        relabelled=int((after != before).sum()),
        certified=sum(d.certified for d in decoded),
        gap_sum=math.fsum(gaps),
        gap_max=max(gaps, default=0.0),
        statuses=dict(sorted(Counter(str(d.status) for d in decoded).items())),
        constraints=_constraint_figures(answers, names),
    )
    if batch.labels is None:
        return counts
    joint, gold = with_gold(labels, batch)
    starts = batch.sentence_starts
    return counts.model_copy(
        update={
            "with_gold": len(batch),
            "gold_tokens": len(gold),
            "correct_tokens": int((gold == after).sum()),
            "measures": _measures(Pair(batch, joint, gold, after)),
            "measures_before": _measures(Pair(batch, joint, gold, before)),
            "search_errors": answers.errors.entities.as_dict(),
            "search_documents": answers.errors.documents.as_dict(),
            "changes": EntityChanges.of(gold, before, after, joint, starts).as_dict(),
        }
    )


def _measures(pair: Pair) -> dict[str, CountsByName]:
    """Counts by the default measures (`suggested`)."""
    return {name: counts.as_dict() for name, counts in measured(pair, suggested(pair.labels, pair.batch)).items()}


def with_gold(labels: LabelSet, batch: Batch | Document) -> tuple[LabelSet, Labels]:
    """The model's labels followed by those only gold has, and the gold labels (N,) in that set.

    Raises `LabelError` where gold labels do not fit the label set's scheme.
    """
    assert batch.labels is not None
    used, place = np.unique(batch.labels.codes, return_inverse=True)
    gold_names = [batch.labels.values[i] for i in used.tolist()]
    extra = sorted(set(gold_names) - set(labels.names))
    joint = LabelSet((*labels.names, *extra), labels.scheme) if extra else labels
    return joint, joint.encode(gold_names)[place]


def check_gold(labels: LabelSet, batch: Batch) -> None:
    """Raises `DocumentError` for a gold label that no label set of the model's scheme can have.

    Other labels than the model's are fine: the model cannot find them, and that counts against it.
    """
    if batch.labels is None:
        return
    foreign = [code for code, name in enumerate(batch.labels.values) if not labels.scheme.can_name(name)]
    if not foreign:
        return
    held = np.flatnonzero(np.isin(batch.labels.codes, foreign))
    if len(held):
        name = batch.labels.values[int(batch.labels.codes[held[0]])]
        raise DocumentError(
            f"gold label {name!r} of token {held[0]} cannot be counted against a model of BIO labels: {advice(name)}, "
            "or leave gold labels out"
        )


def _joined(parts: Sequence[Labels]) -> Labels:
    return np.concatenate([np.zeros(0, np.int32), *parts])


def _constraint_figures(answers: LabelledAnswers, names: Sequence[str]) -> dict[str, ConstraintFigures]:
    tables = (
        [s.degree for s in answers.before],
        [d.score.degree for d in answers.decoded],
        [s.penalties for s in answers.before],
        [d.score.penalties for d in answers.decoded],
    )
    sums = [_column_sums(table, len(names)) for table in tables]
    fields = ("degree_before", "degree", "penalty_before", "penalty")
    return {
        name: ConstraintFigures(**dict(zip(fields, (s[k] for s in sums), strict=True))) for k, name in enumerate(names)
    }


def _column_sums(rows: Sequence[NDArray[np.float64]], width: int) -> list[float]:
    """Exact sums, so that they do not depend on the order of documents."""
    return [math.fsum(float(row[k]) for row in rows) for k in range(width)]
