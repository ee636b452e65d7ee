"""Weights of declared constraints, counted on labelled documents.

Only rows with their antecedent in gold count (`RowTemplate.antecedent`). Of n such rows, b are broken. Each entry of
`PENALTIES` is a formula for the cost of a broken row in nats. A half is added on both sides, so that a constraint that
gold never breaks stays soft:

    odds      log((n − b + ½ + h) / (b + ½)): log odds that a row holds, never below 0
    fersini   −log((b + ½) / (n + 1)): surprise of a broken row
    bayes     −log(max(b, 1) / n): the same surprise without the halves, for agreements
    fixed     the same number for every constraint
    hard      inf
    tuned     one of the above, times a factor for each template: `workers.learning.weights.tuned_weights`
    learned   by a perceptron from the errors of models: `workers.learning.weights.learned_weights`

- Chang, Ratinov & Roth (2008) §4 count odds. h is a number of rows that are taken to have held before anything was
  seen: constraints hold by default (§3.3), which matters where few documents are labelled.
- Fersini et al. (2014) eq. 30 prints the logarithm of the share of rows that hold. It is never above 0, so it would
  reward violations. Their text describes the logarithm of the probability of a violation; its negative is used here.
- Finkel, Grenager & Manning (2005) §5.1 estimate the probability that two spans of the same words differ in type, with
  a count of 0 taken as 1, and charge it for each word of the span.

`workers.learning.weights.row_counts` counts the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, field_validator

from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.settings import Settings
from concord.workers.evaluation.measures import MEASURES, check_measures
from concord.workers.parts import Group, Registry, a_class, an_entry

WEIGHT_DECIMALS = 3
"""Number of decimals of weights in a file, in nats: counts allow no more."""

PRIOR_ROWS = 0.5
"""Pseudo-count that is added to the rows that hold, and to those that break."""

Nats = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class PenaltyError(UsageError):
    """There is no penalty of that name, or it cannot be used here."""


class PenaltySettings(Settings):
    """Base class of the options of a penalty; also the options of a penalty without any."""


class OddsSettings(PenaltySettings):
    """Options of `odds`."""

    held: Nats = Field(
        0.0, description="Smoothing: number of rows of each constraint that are counted as kept in advance."
    )


class FixedSettings(PenaltySettings):
    """Options of `fixed`."""

    nats: Nats = Field(1.0, description="Price of a broken row, in nats.")


def odds(rows: float, broken: float, settings: OddsSettings) -> float:
    """Log odds of a row that holds, Chang et al. (2008) §4; 0 where gold breaks more rows than it keeps."""
    return max(0.0, math.log((rows - broken + PRIOR_ROWS + settings.held) / (broken + PRIOR_ROWS)))


def fersini(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Surprise of a broken row, Fersini et al. (2014) eq. 30 as their text describes it."""
    del settings
    return -math.log((broken + PRIOR_ROWS) / (rows + 2.0 * PRIOR_ROWS))


def bayes(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Surprise of a broken row without smoothing, Finkel et al. (2005) §5.1; 0 where there are no rows."""
    del settings
    return math.log(max(rows, 1.0) / max(broken, 1.0))


def fixed(rows: float, broken: float, settings: FixedSettings) -> float:
    """The same number for every constraint, whatever was counted."""
    del rows, broken
    return settings.nats


def hard(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Infinity: the constraint may not be broken."""
    del rows, broken, settings
    return math.inf


class By(Enum):
    """Way to decide weights after counting; the value names further inputs: a model, held-out documents."""

    COUNTS = ()
    FACTORS = ("model", "held_out")
    ERRORS = ("model",)

    @property
    def needs(self) -> frozenset[str]:
        """Inputs among ``model`` and ``held_out`` that must be given; the others must not be."""
        return frozenset(self.value)


class Penalty(NamedTuple):
    """A registry entry.

    - ``nats``: function of n, b and the settings that gives the cost of a broken row, in nats.
    - ``settings``: class of its options; a `TunedSettings` for `By.FACTORS`, a `LearnedSettings` for `By.ERRORS`.
    - ``summary``: one line of help.
    - ``by``: how the weight is decided: by these nats alone, by factors of templates, or by learning from errors.
    """

    nats: Callable[[float, float, Any], float]
    settings: type[PenaltySettings]
    summary: str
    by: By = By.COUNTS


COUNTED_PENALTY: dict[str, Penalty] = {
    "odds": Penalty(odds, OddsSettings, "log odds: how much likelier a row holds than breaks"),
    "fersini": Penalty(fersini, PenaltySettings, "surprisal of a broken row"),
    "bayes": Penalty(bayes, PenaltySettings, "surprisal without smoothing, as counted; for agreements"),
    "fixed": Penalty(fixed, FixedSettings, "the same for all"),
    "hard": Penalty(hard, PenaltySettings, "nothing may break it"),
}
"""Concord's own penalties that are decided by counts alone."""


def counted_named(name: str) -> Penalty:
    """The penalty of that name, if it is decided by counts alone. Raises `PenaltyError` otherwise."""
    if name in PENALTIES and PENALTIES[name].by is By.COUNTS:
        return PENALTIES[name]
    names = [other for other, penalty in PENALTIES.items() if penalty.by is By.COUNTS]
    raise PenaltyError(unknown("penalty that is counted", name, names))


def _counted(name: str) -> str:
    counted_named(name)
    return name


class TunedSettings(PenaltySettings):
    """Options of `tuned`: counted weights times factors of templates, chosen on documents the model has not seen."""

    base: Annotated[str, AfterValidator(_counted)] = Field(
        "odds", description="Penalty that is counted first, and that the factors multiply."
    )
    measure: str = Field(
        "labels", description="Measure by which the factors are chosen; `concord list measures` has them."
    )
    figure: str = Field("accuracy", description="Figure of that measure, such as f1 or macro_f1.")
    engine: str = Field("certify", description="Engine that decodes documents during the search.")
    factors: tuple[Nats, ...] = Field(
        (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), min_length=2, description="Factors to try, ascending; 1 is one of them."
    )

    @field_validator("factors")
    @classmethod
    def _ascend_through_one(cls, factors: tuple[float, ...]) -> tuple[float, ...]:
        if 1.0 not in factors or any(b <= a for a, b in pairwise(factors)):
            raise ValueError("give ascending factors, 1 among them")
        return factors


def tuned(rows: float, broken: float, settings: TunedSettings) -> float:
    """The counted nats, before the factors."""
    base = counted_named(settings.base)
    return base.nats(rows, broken, base.settings())


class LearnedSettings(PenaltySettings):
    """Options of weights learned from the errors that models make on documents they have not seen."""

    folds: int = Field(5, ge=2, description="Number of folds: a model is trained without each, and answers it.")
    rates: tuple[Annotated[float, Field(gt=0.0, allow_inf_nan=False)], ...] = Field(
        (0.1,),
        min_length=1,
        description="Rates to try, each in nats by which a unit of degree moves a weight; each takes as long again.",
    )
    passes: int = Field(
        8,
        ge=1,
        description="Largest number of passes over the documents. Each decodes all of them, so learning takes about "
        "passes × rates times as long as a run.",
    )
    patience: int = Field(
        3,
        ge=1,
        description="Number of passes without a rise of the figure on the other half after which learning ends.",
    )
    scales: tuple[Annotated[float, Field(gt=0.0, allow_inf_nan=False)], ...] = Field(
        (0.5, 2.0, 4.0), description="Factors of the weights of the best pass to try."
    )
    measure: str = Field(
        "spans", description="Measure by which rate, passes and scale are chosen; `concord list measures` has them."
    )
    figure: str = Field("f1", description="Figure of that measure, such as f1 or macro_f1.")
    engine: str = Field("certify", description="Engine that decodes documents during the search.")


def as_counted(rows: float, broken: float, settings: LearnedSettings) -> float:
    """The log odds, for comparison with the learned weights."""
    del settings
    return odds(rows, broken, OddsSettings())


OWN: dict[str, Penalty] = COUNTED_PENALTY | {
    "tuned": Penalty(
        tuned, TunedSettings, "counted, times a factor for each template, chosen on held-out documents", By.FACTORS
    ),
    "learned": Penalty(
        as_counted, LearnedSettings, "by a perceptron from the errors of models on held-out folds", By.ERRORS
    ),
}
"""Concord's own penalties; a new one is a function, its settings and one line here."""


def _wrong(part: Any) -> str | None:
    """Reason why a part is not a valid penalty; None if it is."""
    problem = an_entry(Penalty, PenaltySettings)(part)
    if problem is not None or part.by is By.COUNTS:
        return problem
    return a_class(TunedSettings if part.by is By.FACTORS else LearnedSettings)(part.settings)


PENALTIES: Registry[Penalty] = Registry(Group.PENALTIES, OWN, _wrong)


def penalty_named(name: str) -> Penalty:
    """The penalty of that name. Raises `PenaltyError` if there is none."""
    if name not in PENALTIES:
        raise PenaltyError(unknown("penalty", name, PENALTIES))
    return PENALTIES[name]


def check_figure(measure: str, figure: str) -> None:
    """Raises `PenaltyError` for a figure that a measure does not have, and the errors of `check_measures`."""
    check_measures([measure])
    if figure not in MEASURES[measure].figures:
        raise PenaltyError(unknown(f"figure of measure {measure}", figure, MEASURES[measure].figures))
