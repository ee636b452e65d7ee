"""Scales of the label-consistency families, chosen on documents the model has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from schemas.document import Batch, Document
from schemas.labels import Labels, LabelSet
from schemas.problem import Problem
from schemas.settings import GibbsSettings
from workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from workers.constraints.constraint_set import build_problems
from workers.evaluation.conlleval import EntityCounts
from workers.inference.core.engine import document_rng
from workers.inference.sampling import gibbs
from workers.models.model import Model

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
    that are best where all families have one scale. ``model`` must not have been trained on
    ``documents``: on its own training data a model is so sure of itself that consistency never seems
    to matter. F1 on some hundred documents is noisy, so a trial is judged by its grid neighbourhood
    too; among equals the smaller scales win. Raises `ValueError` where a document has no gold labels.
    """
    settings = config or GibbsSettings(sweeps=20)
    trials: dict[tuple[bool, Scales], ScaleTrial] = {}

    def attempt(held_out: _HeldOut, counts: PairCounts, chosen: Scales) -> float:
        """Entity F1 under these scales; tried once."""
        name = counts.fold_case, chosen
        if name not in trials:
            f1 = held_out.f1(LabelConsistency(counts, chosen), settings, seed)
            trials[name] = ScaleTrial(*name, f1)
            if progress is not None:
                progress(trials[name])
        return trials[name].f1

    def alike(grounded: tuple[_HeldOut, PairCounts]) -> float:
        """The best entity F1 of one scale for all families."""
        return max(attempt(*grounded, Scales(scale, scale, scale)) for scale in scales)

    grounded = [(_HeldOut.of(documents, model, LabelConsistency(counts)), counts) for counts in counted]
    held_out, counts = max(grounded, key=alike)
    for chosen in product(scales, repeat=len(Scales._fields)):
        attempt(held_out, counts, Scales(*chosen))
    tried = [trial for trial in trials.values() if trial.fold_case == counts.fold_case]
    best = max(tried, key=lambda trial: (_around(trial, tried, scales), -sum(trial.scales)))
    return LabelConsistency(counts, best.scales), list(trials.values())


def most_trials(counted: int, scales: Sequence[float] = SCALES) -> int:
    """How many trials `tune_scales` makes with so many ``counted``."""
    grid: int = len(scales) ** len(Scales._fields)
    return grid + len(scales) * (counted - 1)


def _around(trial: ScaleTrial, trials: Iterable[ScaleTrial], scales: Sequence[float]) -> float:
    """The mean of a trial's F1 and that of its neighbourhood on the grid."""
    place = {scale: i for i, scale in enumerate(scales)}

    def near(other: ScaleTrial) -> bool:
        pairs = zip(trial.scales, other.scales, strict=True)
        return all(abs(place[one] - place[two]) <= 1 for one, two in pairs)

    return (trial.f1 + fmean(other.f1 for other in trials if near(other))) / 2.0


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Held-out documents as problems grounded once; trials differ in costs alone."""

    documents: Sequence[Document]
    problems: Sequence[Problem]
    gold: Sequence[Labels]

    @classmethod
    def of(cls, documents: Sequence[Document], model: Model, consistency: LabelConsistency) -> _HeldOut:
        gold = [_gold(document, model.labels) for document in documents]
        batch = Batch.of(documents)
        problems = list(build_problems(batch, model.potentials(batch), model.labels, consistency))
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
