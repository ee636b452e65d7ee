"""Scales of the label-consistency families, chosen on documents that the model has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from concord.schemas.decoded import Budget
from concord.schemas.document import Batch, Column, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.problem import Problem
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.evaluation.conlleval import EntityCounts
from concord.workers.evaluation.figures import f1
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import GibbsSettings
from concord.workers.learning.search.climbing import SettingsPoint, alike, climb
from concord.workers.learning.search.trials import SettingsSearch, Trial
from concord.workers.models.model import Model, local_scores, temperature_of, tempered, viterbi_labels

SCALES = (0.0, 0.125, 0.25, 0.5, 1.0)
"""Scales tried for each family: at 1 costs are as counted, at 0 the family is off."""

TUNED_BY = GibbsSettings(sweeps=20)
"""Engine that labels the documents."""

TUNING_WORK = Budget(work=300_000)
"""Its limit for a document. News needs 60,000 at most. Of a list of 1,000 references, which would take ten million, it
leaves F1 the same within 0.1 points.
"""


ASSUMED = Scales(0.5, 0.5, 0.25)
"""Scales where there is no gold to tune them on; chosen on newswire, see benchmarks/results/models.md."""


def assumed_consistency(documents: Sequence[Document], model: Model) -> LabelConsistency:
    """Label consistency of documents without gold: the pairs in the model's own answers, at the scales `ASSUMED`."""
    batch = Batch.of(documents)
    names, ends = model.labels.decode(viterbi_labels(model, batch)), batch.doc_starts.tolist()
    answered = [
        replace(document, labels=Column.encode(names[start:end]))
        for document, (start, end) in zip(documents, pairwise(ends), strict=True)
    ]
    return LabelConsistency(PairCounts.of(answered, model.labels), ASSUMED)


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
    beyond_chance: bool = False,
    progress: Callable[[ScaleTrial], None] | None = None,
) -> tuple[LabelConsistency, list[ScaleTrial]]:
    """The pair counts and scales with the best entity F1 on ``documents``, and all trials.

    ``counted`` are the pair counts to choose from, such as those of words as written and of words with case folded;
    they may be of more types than ``model`` has. The search first gives all families one scale, and takes the counts
    that are best so. From there it climbs: it tries the neighbouring scales of each family and moves to the best, as
    long as that is better, or as good with smaller scales. On newswire it tries a seventh of all combinations. With
    ``beyond_chance`` all families are off, unless what it finds is better than that by the paired bootstrap over
    documents: for answers that must not get worse.

    Scales are tried at temperature 1, and those that are returned are divided by the model's temperature, as its scores
    are: a temperature changes no answer.

    ``model`` must not have been trained on ``documents``: on its training data a model is so sure that consistency
    never seems to matter. Raises `ValueError` where a document has no gold labels.
    """
    settings = config or TUNED_BY
    if not documents:
        raise ValueError("no held-out documents to tune the scales on")
    trials = list[ScaleTrial]()
    known = [counts.of_types(model.labels.types) for counts in counted]
    searches = [_search(documents, model, counts, settings, seed, trials, progress) for counts in known]
    starts = [alike(scales, len(Scales._fields), search.worth) for search in searches]
    pairs, search, start = max(zip(counted, searches, starts, strict=True), key=lambda one: one[1].trial(one[2]).value)
    best, off = climb(start, scales, search.worth), tuple([0.0] * len(start))
    if beyond_chance and search.trial(best).gain(search.trial(off)).low <= 0:
        best = off
    return LabelConsistency(pairs, Scales(*best).at(temperature_of(model))), trials


def entity_counts(
    documents: Sequence[Document], model: Model, consistency: LabelConsistency, *, seed: int = 0
) -> Counts:
    """(D, T, 3) entities of each document by type, in gold, predicted and correct, under a label consistency.

    Raises `ValueError` where a document has no gold labels.
    """
    return _CostProblems.of(documents, model, consistency).counts(consistency, TUNED_BY, seed)


def _search(
    documents: Sequence[Document],
    model: Model,
    counts: PairCounts,
    config: GibbsSettings,
    seed: int,
    trials: list[ScaleTrial],
    progress: Callable[[ScaleTrial], None] | None,
) -> SettingsSearch[SettingsPoint]:
    """The search for scales of some pair counts; it adds its trials to ``trials``."""
    held_out = _CostProblems.of(documents, tempered(model, 1.0), LabelConsistency(counts))

    def attempt(point: SettingsPoint) -> Counts:
        return held_out.counts(LabelConsistency(counts, Scales(*point)), config, seed)

    def tell(trial: Trial[SettingsPoint]) -> None:
        scales = Scales(*trial.setting).at(temperature_of(model))
        trials.append(ScaleTrial(counts.fold_case, scales, trial.value))
        if progress is not None:
            progress(trials[-1])

    # Ties go to the smaller scales.
    return SettingsSearch(attempt, f1, preference=lambda point: -sum(point), progress=tell)


@dataclass(frozen=True, eq=False)
class _CostProblems:
    """Held-out documents as problems that are grounded once; trials change only their costs."""

    documents: Sequence[Document]
    problems: Sequence[Problem]
    gold: Sequence[Labels]

    @classmethod
    def of(cls, documents: Sequence[Document], model: Model, consistency: LabelConsistency) -> _CostProblems:
        gold = [_gold(document, model.labels) for document in documents]
        batch = Batch.of(documents)
        problems = list(local_scores(model, batch).problems(batch, model.labels, consistency))
        return cls(documents, problems, gold)

    def counts(self, consistency: LabelConsistency, config: GibbsSettings, seed: int) -> Counts:
        """(D, T, 3) entities of each document by type: in gold, predicted and correct."""
        return np.stack([counts.table for counts in self._entities(consistency, config, seed)])

    def _entities(self, consistency: LabelConsistency, config: GibbsSettings, seed: int) -> Iterator[EntityCounts]:
        for document, problem, gold in zip(self.documents, self.problems, self.gold, strict=True):
            trial = consistency.with_costs(problem)
            decoded = gibbs.solve(trial, config=config, rng=document_rng(seed, document.doc_id), budget=TUNING_WORK)
            yield EntityCounts.of(gold, decoded.labels, problem.labels, document.sentence_starts)


def _gold(document: Document, labels: LabelSet) -> Labels:
    if document.labels is None:
        raise ValueError(f"document {document.doc_id!r} has no gold labels to tune on")
    return labels.encode(document.labels.strings())
