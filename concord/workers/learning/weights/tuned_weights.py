"""Counted weights times a factor for each template, chosen on documents unseen by the model and by the counts.

Constraints of one template are a family. Counts ignore that rows break together, and that the model already keeps many
constraints; the error is much the same for all constraints of a family. The search starts from one factor for all
families and climbs, one family and one step at a time. Ties go to the factors nearest to 1. Hard constraints stay hard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch
from concord.schemas.gains import Comparison
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights, with_weights
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES, Pair
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.registry import Decoder
from concord.workers.learning.search.climbing import SettingsPoint, alike, climb
from concord.workers.learning.search.trials import SettingsSearch, Trial
from concord.workers.learning.weights.penalties import TunedSettings
from concord.workers.models.model import Model, local_scores


class FactorTrial(NamedTuple):
    """One trial.

    - ``factors``: factor of each family, by template.
    - ``figure``: figure (a fraction) on the held-out documents.
    """

    factors: Mapping[str, float]
    figure: float


class TunedWeights(NamedTuple):
    """Result of tuning; figures are fractions on the documents that the factors were chosen on.

    - ``factors``: best factor of each family, by template.
    - ``gain``: gain over factors of 1.
    - ``before``: figure with factors of 1.
    - ``after``: figure with the best factors.
    - ``trials``: number of trials.
    """

    factors: Mapping[str, float]
    gain: Comparison
    before: float
    after: float
    trials: int

    def of(self, constraints: DeclaredConstraints) -> DeclaredConstraints:
        """The constraints with their weights times the factors."""
        weights = dict(declared_weights(constraints))
        family = families(constraints)
        return with_weights(constraints, {t: weights[t] * self.factors.get(family[t], 1.0) for t in weights})


def families(constraints: DeclaredConstraints) -> dict[str, str]:
    """The template of each entry, by the entry's name."""
    return {
        t: TEMPLATES.name_of(type(template))
        for t, template in zip(constraints.titles, constraints.templates, strict=True)
    }


def tune_weights(
    batch: Batch,
    model: Model,
    constraints: DeclaredConstraints,
    settings: TunedSettings,
    *,
    seed: int = 0,
    progress: Callable[[FactorTrial], None] | None = None,
) -> TunedWeights:
    """The factors with the best figure on a batch with gold labels.

    Raises `ValueError` for a batch without gold labels, `LabelError` for labels that the model does not have, and
    `EngineError`.
    """
    held_out = _WeightProblems.of(batch, model, constraints, settings, seed)
    middle = settings.factors.index(1.0)

    def nearness(point: SettingsPoint) -> float:
        return -float(sum(abs(settings.factors.index(f) - middle) for f in point))

    def tell(trial: Trial[SettingsPoint]) -> None:
        if progress is not None:
            progress(FactorTrial(held_out.named(trial.setting), trial.value))

    search = SettingsSearch(held_out.counts, FIGURES[settings.figure], preference=nearness, progress=tell)
    as_counted = (1.0,) * len(held_out.families)
    first = search.best([alike(settings.factors, len(as_counted), search.worth), as_counted])
    best, base = search.trial(climb(first, settings.factors, search.worth)), search.trial(as_counted)
    return TunedWeights(
        held_out.named(best.setting), best.gain(base, seed=seed), base.value, best.value, len(search.trials)
    )


@dataclass(frozen=True, eq=False)
class _WeightProblems:
    """Held-out documents as problems that are grounded once; trials change only their weights."""

    pair: Pair
    problems: Sequence[Problem]
    constraints: DeclaredConstraints
    settings: TunedSettings
    decoder: Decoder

    @classmethod
    def of(
        cls, batch: Batch, model: Model, constraints: DeclaredConstraints, settings: TunedSettings, seed: int
    ) -> _WeightProblems:
        if batch.labels is None:
            raise ValueError(f"documents {batch.doc_ids[0]!r} and after have no gold labels to tune on")
        gold = model.labels.encode(batch.labels.strings())
        problems = list(local_scores(model, batch).problems(batch, model.labels, constraints))
        return cls(
            Pair(batch, model.labels, gold, gold),
            problems,
            constraints,
            settings,
            Decoder.of(settings.engine, seed=seed),
        )

    @cached_property
    def families(self) -> tuple[str, ...]:
        """Families of the soft constraints, sorted."""
        family = families(self.constraints)
        return tuple(sorted({family[t] for t, weight in declared_weights(self.constraints) if math.isfinite(weight)}))

    def named(self, point: SettingsPoint) -> dict[str, float]:
        """The factors of a point, by family."""
        return dict(zip(self.families, point, strict=True))

    def counts(self, point: SettingsPoint) -> Counts:
        """(D, R, 3) the measure's counts of each document under the factors of a point."""
        factors, family = self.named(point), families(self.constraints)
        own = {t: factors[family[t]] if math.isfinite(w) else 1.0 for t, w in declared_weights(self.constraints)}
        # The last factor is that of the model's own rows.
        by_constraint = np.array([*(own[name] for name in self.constraints.names), 1.0])
        predicted = np.concatenate([np.zeros(0, np.int32), *self._answers(by_constraint)])
        items = MEASURES[self.settings.measure].items(self.pair._replace(predicted=predicted))
        return items.by_document()

    def _answers(self, factors: Floats) -> Iterator[Labels]:
        for problem, doc_id in zip(self.problems, self.pair.batch.doc_ids, strict=True):
            rows = replace(problem.rows, weight=problem.rows.weight * factors[problem.rows.constraint])
            agreements = tuple(replace(a, cost=a.cost * factors[a.constraint]) for a in problem.agreements)
            yield self.decoder(replace(problem, rows=rows, agreements=agreements), doc_id).labels
