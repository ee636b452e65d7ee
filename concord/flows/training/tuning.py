"""Tuning of label consistency on documents, with progress shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from concord.flows.screen.progress import meter, say
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.schemas.train_report import ConsistencyReport, OutsideCostReport, TemperatureReport
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.learning.trainers.outside_cost import OutsideCostFit, fit_outside_cost
from concord.workers.learning.trainers.temperature import TemperatureFit, fit_temperature
from concord.workers.learning.weights.consistency_scales import ScaleTrial, tune_scales
from concord.workers.models.model import Model


class Tuned(NamedTuple):
    """Tuned label consistency.

    - ``consistency``: the label consistency.
    - ``f1_without``, ``f1_with``: entity F1 on the documents that tuned it, without it and with it.
    """

    consistency: LabelConsistency
    f1_without: float
    f1_with: float

    @property
    def figures(self) -> dict[str, float]:
        """Figures for MLflow and the manifest."""
        return {
            "consistency/fold_case": float(self.consistency.counts.fold_case),
            "consistency/exact_scale": self.consistency.scales.exact,
            "consistency/subsequence_scale": self.consistency.scales.subsequence,
            "consistency/unlabelled_scale": self.consistency.scales.unlabelled,
            "held_out/f1_without_consistency": self.f1_without,
            "held_out/f1": self.f1_with,
        }

    @property
    def report(self) -> ConsistencyReport:
        """Figures for a report."""
        return ConsistencyReport(
            exact_scale=self.consistency.scales.exact,
            subsequence_scale=self.consistency.scales.subsequence,
            unlabelled_scale=self.consistency.scales.unlabelled,
            f1_without=self.f1_without,
            f1=self.f1_with,
        )


UNDER_CONSTRAINTS = "constraints were weighed at the scores as they are"


def learn_temperature(documents: Sequence[Document], model: Model, learning: str = "l") -> TemperatureFit:
    """The temperature of a model by documents that it has not seen; see `fit_temperature`.

    - ``learning``: `TrainerSettings.learning`; a model that learned under constraints keeps its scores.
    """
    if learning != "l":
        return TemperatureFit(1.0, 0, kept_for=UNDER_CONSTRAINTS)
    with meter("learning temperature", None):
        return fit_temperature(documents, model)


def learn_outside_cost(documents: Sequence[Document], model: Model, learning: str) -> OutsideCostFit:
    """The outside cost of a model by documents that it has not seen; see `fit_outside_cost`.

    - ``learning``: as of `learn_temperature`.
    """
    if learning != "l":
        return OutsideCostFit(0.0, kept_for=UNDER_CONSTRAINTS)
    with meter("learning the outside cost", None):
        return fit_outside_cost(documents, model)


def temperature_report(fit: TemperatureFit) -> TemperatureReport:
    """A learned temperature for a report."""
    before, after = fit.before, fit.after
    return TemperatureReport(
        temperature=fit.temperature,
        kept_for=fit.kept_for or None,
        documents=fit.documents,
        error_before=None if before is None else before.calibration_error,
        error=None if after is None else after.calibration_error,
        loss_before=None if before is None else before.log_loss,
        loss=None if after is None else after.log_loss,
    )


def temperature_figures(report: TemperatureReport) -> dict[str, float]:
    """Figures of a temperature for MLflow and the manifest; none where none was learned."""
    names = set() if report.error is None else {"temperature", "error_before", "error", "loss_before", "loss"}
    return {f"calibration/{name}": value for name, value in report.model_dump(include=names).items()}


def outside_cost_report(fit: OutsideCostFit) -> OutsideCostReport:
    """A learned outside cost for a report."""
    return OutsideCostReport(cost=fit.cost, kept_for=fit.kept_for or None, f1_without=fit.f1_without, f1=fit.f1)


def outside_cost_figures(fit: OutsideCostFit) -> dict[str, float]:
    """Figures of an outside cost for MLflow and the manifest; none where there is none."""
    if fit.f1_without is None or fit.f1 is None:
        return {}
    figures = {"nats": fit.cost, "f1_without": fit.f1_without, "f1": fit.f1}
    return {f"outside_cost/{name}": value for name, value in figures.items()}


def pair_counts(documents: Sequence[Document], labels: LabelSet) -> list[PairCounts]:
    """Counts of words as written and of words folded, to choose from. Raises the errors of `PairCounts.of`."""
    return [PairCounts.of(documents, labels, fold_case=fold) for fold in (False, True)]


def tune_consistency(
    documents: Sequence[Document], model: Model, counted: Sequence[PairCounts], *, beyond_chance: bool = False
) -> Tuned:
    """Label consistency with the best scales on documents that the model has not seen; see `tune_scales`."""
    with meter("tuning label consistency", None) as bar:
        tried = list[ScaleTrial]()

        def show(trial: ScaleTrial) -> None:
            note = f"scales {', '.join(f'{scale:g}' for scale in trial.scales)}: F1 {trial.f1:.2%}"
            bar.advance(note=note)
            tried.append(trial)
            if hint := no_gain_line(tried):
                say(hint)

        best, trials = tune_scales(documents, model, counted, beyond_chance=beyond_chance, progress=show)
    f1 = {(trial.fold_case, trial.scales): trial.f1 for trial in trials}
    folded = best.counts.fold_case
    return Tuned(best, f1[folded, Scales(0.0, 0.0, 0.0)], f1[folded, best.scales])


def no_gain_line(trials: Sequence[ScaleTrial]) -> str | None:
    """What is said after the first trial whose families differ in scale, if none with one scale for all has gained.

    ``trials`` are all so far, in their order. None after any other trial.
    """
    *alike, last = trials
    if len(set(last.scales)) == 1 or any(len(set(trial.scales)) > 1 for trial in alike):
        return None
    without = max(trial.f1 for trial in alike if not any(trial.scales))
    best = max(trial.f1 for trial in alike if any(trial.scales))
    if best > without:
        return None
    return (
        f"label consistency gains nothing so far: entity F1 {without:.2%} without it, {best:.2%} at best with it; "
        "--no-consistency leaves this step out"
    )
