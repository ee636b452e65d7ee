"""Scales of the label-consistency families, chosen on documents the model has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    that are best where all families have one scale. From there the search climbs: it tries the next scales of each
    family and goes to the best, as long as that is better, or as good with smaller scales. On newswire it
    tries a seventh of all combinations. ``model`` must not have been trained on
    ``documents``: on its own training data a model is so sure of itself that consistency never seems to matter.
    Raises `ValueError` where a document has no gold labels.
    """
    settings = config or GibbsSettings(sweeps=20)
    tuning = _Tuning(tuple(scales), settings, seed, progress, {})
    grounded = [(_HeldOut.of(documents, model, LabelConsistency(counts)), counts) for counts in counted]
    held_out, counts = max(grounded, key=lambda given: max(trial.f1 for trial in tuning.alike(*given)))
    best = tuning.climb(held_out, counts)
    return LabelConsistency(counts, best.scales), list(tuning.trials.values())


class _Tuning(NamedTuple):
    """The trials so far, each made once, and how they are made."""

    scales: tuple[float, ...]
    config: GibbsSettings
    seed: int
    progress: Callable[[ScaleTrial], None] | None
    trials: dict[tuple[bool, Scales], ScaleTrial]

    def attempt(self, held_out: _HeldOut, counts: PairCounts, chosen: Scales) -> ScaleTrial:
        """The trial of these scales."""
        name = counts.fold_case, chosen
        if name not in self.trials:
            f1 = held_out.f1(LabelConsistency(counts, chosen), self.config, self.seed)
            self.trials[name] = ScaleTrial(*name, f1)
            if self.progress is not None:
                self.progress(self.trials[name])
        return self.trials[name]

    def alike(self, held_out: _HeldOut, counts: PairCounts) -> list[ScaleTrial]:
        """The trials with one scale for all families, from the lowest until one is worse than the one before."""
        trials: list[ScaleTrial] = []
        for scale in self.scales:
            trials.append(self.attempt(held_out, counts, Scales(scale, scale, scale)))
            if len(trials) > 1 and trials[-1].f1 < trials[-2].f1:
                break
        return trials

    def climb(self, held_out: _HeldOut, counts: PairCounts) -> ScaleTrial:
        """Tries what is beside the best trial, until nothing there is better than it."""
        best = max(self.alike(held_out, counts), key=_worth)
        while True:
            beside = [self.attempt(held_out, counts, chosen) for chosen in self._beside(best.scales)]
            better = max(beside, key=_worth)
            if _worth(better) <= _worth(best):
                return best
            best = better

    def _beside(self, chosen: Scales) -> Iterator[Scales]:
        """The next scales of one family after the other, down and up."""
        for family in Scales._fields:
            place = self.scales.index(getattr(chosen, family))
            for near in (place - 1, place + 1):
                if 0 <= near < len(self.scales):
                    yield chosen._replace(**{family: self.scales[near]})


def _worth(trial: ScaleTrial) -> tuple[float, float]:
    return trial.f1, -sum(trial.scales)


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
