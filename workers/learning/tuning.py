"""Scales of the label-consistency families, chosen on documents the model has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import Problem
from concord.schemas.settings import GibbsSettings
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.evaluation.conlleval import EntityCounts
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.learning.climbing import SettingsPoint, alike, climb
from concord.workers.models.model import Model, local_scores

SCALES = (0.0, 0.125, 0.25, 0.5, 1.0)
"""What is tried for each family; 1 is as counted, 0 is without the family."""


@dataclass(frozen=True)
class ScaleTrial:
    """Entity F1 (a fraction) on the held-out documents under one scale for each family."""

    fold_case: bool
    scales: Scales
    f1: float


def tune_scales(
    documents: Sequence[Document],
    model: Model,
    counted: Sequence[PairCounts],
    *,
    scales: Sequence[float] = SCALES,
    config: GibbsSettings | None = None,
    seed: int = 0,
    progress: Callable[[ScaleTrial], None] | None = None,
) -> tuple[LabelConsistency, list[ScaleTrial]]:
    """The counts and scales around which entity F1 is best on ``documents``, and every trial.

    ``counted`` are the pair counts to choose from, such as words as written and words folded: those
    that are best where all families have one scale. From there the search climbs: it tries the next scales of each
    family and goes to the best, as long as that is better, or as good with smaller scales. On newswire it
    tries a seventh of all combinations. ``model`` must not have been trained on
    ``documents``: on its own training data a model is so sure of itself that consistency never seems to matter.
    Raises `ValueError` where a document has no gold labels.
    """
    settings = config or GibbsSettings(sweeps=20)
    tuning = _Tuning(tuple(scales), settings, seed, progress, {})
    grounded = [(_CostProblems.of(documents, model, LabelConsistency(counts)), counts) for counts in counted]
    held_out, counts = max(grounded, key=lambda given: tuning.alike(*given).f1)
    best = tuning.climb(held_out, counts)
    return LabelConsistency(counts, best.scales), list(tuning.trials.values())


class _Tuning(NamedTuple):
    """The trials so far, each made once, and how they are made."""

    scales: tuple[float, ...]
    config: GibbsSettings
    seed: int
    progress: Callable[[ScaleTrial], None] | None
    trials: dict[tuple[bool, Scales], ScaleTrial]

    def attempt(self, held_out: _CostProblems, counts: PairCounts, chosen: Scales) -> ScaleTrial:
        """The trial of these scales."""
        name = counts.fold_case, chosen
        if name not in self.trials:
            f1 = held_out.f1(LabelConsistency(counts, chosen), self.config, self.seed)
            self.trials[name] = ScaleTrial(*name, f1)
            if self.progress is not None:
                self.progress(self.trials[name])
        return self.trials[name]

    def alike(self, held_out: _CostProblems, counts: PairCounts) -> ScaleTrial:
        """The best trial with one scale for all families."""
        best = alike(self.scales, len(Scales._fields), self._worth(held_out, counts))
        return self.attempt(held_out, counts, Scales(*best))

    def climb(self, held_out: _CostProblems, counts: PairCounts) -> ScaleTrial:
        """Tries what is beside the best trial, until nothing there is better than it."""
        best = climb(self.alike(held_out, counts).scales, self.scales, self._worth(held_out, counts))
        return self.attempt(held_out, counts, Scales(*best))

    def _worth(self, held_out: _CostProblems, counts: PairCounts) -> Callable[[SettingsPoint], tuple[float, float]]:
        """F1, and of equals the smaller scales."""

        def worth(point: SettingsPoint) -> tuple[float, float]:
            return self.attempt(held_out, counts, Scales(*point)).f1, -sum(point)

        return worth


@dataclass(frozen=True, eq=False)
class _CostProblems:
    """Held-out documents as problems grounded once; trials differ in costs alone."""

    documents: Sequence[Document]
    problems: Sequence[Problem]
    gold: Sequence[Labels]

    @classmethod
    def of(cls, documents: Sequence[Document], model: Model, consistency: LabelConsistency) -> _CostProblems:
        gold = [_gold(document, model.labels) for document in documents]
        batch = Batch.of(documents)
        problems = list(local_scores(model, batch).problems(batch, model.labels, consistency))
        return cls(documents, problems, gold)

    def f1(self, consistency: LabelConsistency, config: GibbsSettings, seed: int) -> float:
        total: EntityCounts | None = None
        for document, problem, gold in zip(self.documents, self.problems, self.gold, strict=True):
            trial = consistency.with_costs(problem)
            decoded = gibbs.solve(trial, config=config, rng=document_rng(seed, document.doc_id))
            counts = EntityCounts.of(gold, decoded.labels, problem.labels, document.sentence_starts)
            total = counts if total is None else total + counts
        if total is None:
            raise ValueError("no held-out documents to tune the scales on")
        return total.f1()


def _gold(document: Document, labels: LabelSet) -> Labels:
    if document.labels is None:
        raise ValueError(f"document {document.doc_id!r} has no gold labels to tune on")
    return labels.encode(document.labels.strings())
