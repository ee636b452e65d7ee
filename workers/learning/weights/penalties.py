"""Weights of declared constraints, counted on labelled documents.

Only rows that say something count: those whose antecedent gold has (`RowTemplate.antecedent`). Of n such rows b are
broken. `PENALTIES` names what a broken row then costs, in nats; a half is added on both sides, so that a constraint
that gold never breaks stays soft:

    odds      log((n − b + ½ + h) / (b + ½)): how much likelier a row holds than breaks, never below 0
    fersini   −log((b + ½) / (n + 1)): the surprise of a broken row
    bayes     −log(max(b, 1) / n): the same as counted, made for agreements
    fixed     the same for every constraint
    hard      inf
    tuned     one of the others, times a factor for each template: `workers.learning.weights.tuned_weights`
    learned   by a perceptron from the errors of models, see `workers.learning.weights.learned_weights`

Chang, Ratinov & Roth (2008) §4 count odds; h are rows imagined to have held before anything was seen: constraints hold
by default (§3.3), which tells where little is labelled. Fersini et al. (2014) eq. 30 prints the logarithm of the share
of rows that hold, which is never above 0 and would reward what it is to punish. Their words for it are the logarithm of
how likely a violation is, and that, negated, is computed. Finkel, Grenager & Manning (2005) §5.1 estimate how likely
two spans of the same words differ in type, a count of 0 taken as 1, and charge it for each word of the span.

`workers.learning.weights.row_counts` counts them.
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
from concord.workers.parts import Group, Registry, a_class, an_entry

PRIOR = 0.5
"""Rows that hold, and rows that break, taken as seen before anything is counted."""

Nats = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class PenaltyError(UsageError):
    """A penalty that is not there, or that is not for what is asked."""


class PenaltySettings(Settings):
    """Base of every penalty's options; also the options of a penalty that has none."""


class OddsSettings(PenaltySettings):
    """Chang et al.'s odds."""

    held: Nats = Field(0.0, description="Number of rows of every constraint that are taken to have held.")


class FixedSettings(PenaltySettings):
    """One number."""

    nats: Nats = Field(1.0, description="Price of a broken row, in nats.")


def odds(rows: float, broken: float, settings: OddsSettings) -> float:
    """Chang et al. (2008) §4; 0 where gold breaks more rows than it keeps."""
    return max(0.0, math.log((rows - broken + PRIOR + settings.held) / (broken + PRIOR)))


def fersini(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Fersini et al. (2014) eq. 30, read as its sentence."""
    del settings
    return -math.log((broken + PRIOR) / (rows + 2.0 * PRIOR))


def bayes(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Finkel et al. (2005) §5.1; 0 where nothing was seen."""
    del settings
    return math.log(max(rows, 1.0) / max(broken, 1.0))


def fixed(rows: float, broken: float, settings: FixedSettings) -> float:
    """The same for all, whatever was counted."""
    del rows, broken
    return settings.nats


def hard(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Nothing may break it."""
    del rows, broken, settings
    return math.inf


class By(Enum):
    """What decides weights, after the counts; the value is what that needs besides: a model, held-out documents."""

    COUNTS = ()
    FACTORS = ("model", "held_out")
    ERRORS = ("model",)

    @property
    def needs(self) -> frozenset[str]:
        """Which of ``model`` and ``held_out`` have to be given; the others must not be."""
        return frozenset(self.value)


class Penalty(NamedTuple):
    """A registry entry: (n, b, settings) to the nats of a broken row, its options, and one line of help.

    ``by`` says what the nats go through yet: nothing; factors of templates, tuned on held-out documents, as
    `TunedSettings` say; or learning from the errors of models, as `LearnedSettings` say.
    """

    nats: Callable[[float, float, Any], float]
    settings: type[PenaltySettings]
    summary: str
    by: By = By.COUNTS


COUNTED: dict[str, Penalty] = {
    "odds": Penalty(odds, OddsSettings, "how much likelier it holds than breaks"),
    "fersini": Penalty(fersini, PenaltySettings, "the surprise of a broken row"),
    "bayes": Penalty(bayes, PenaltySettings, "the same as counted; for agreements"),
    "fixed": Penalty(fixed, FixedSettings, "the same for all"),
    "hard": Penalty(hard, PenaltySettings, "nothing may break it"),
}
"""Ours that counts alone decide."""


def counted_named(name: str) -> Penalty:
    """A penalty that counts alone decide. Raises `PenaltyError`."""
    if name in PENALTIES and PENALTIES[name].by is By.COUNTS:
        return PENALTIES[name]
    known = [other for other, penalty in PENALTIES.items() if penalty.by is By.COUNTS]
    raise PenaltyError(unknown("penalty that is counted", name, known))


def _counted(name: str) -> str:
    counted_named(name)
    return name


class TunedSettings(PenaltySettings):
    """Weights that are counted, times one factor for each template, chosen on documents that the model has not seen."""

    base: Annotated[str, AfterValidator(_counted)] = Field("odds", description="Penalty that is counted first.")
    measure: str = Field(
        "labels", description="Measure by which the factors are chosen; `concord list measures` has them."
    )
    figure: str = Field("accuracy", description="Figure of that measure, such as f1 or macro_f1.")
    engine: str = Field("certify", description="Engine that answers meanwhile.")
    factors: tuple[Nats, ...] = Field(
        (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), min_length=2, description="Factors that are tried, ascending, 1 among them."
    )

    @field_validator("factors")
    @classmethod
    def _ascend_through_one(cls, factors: tuple[float, ...]) -> tuple[float, ...]:
        if 1.0 not in factors or any(b <= a for a, b in pairwise(factors)):
            raise ValueError("give ascending factors, 1 among them")
        return factors


def tuned(rows: float, broken: float, settings: TunedSettings) -> float:
    """What is counted, before the factors."""
    base = counted_named(settings.base)
    return base.nats(rows, broken, base.settings())


class LearnedSettings(PenaltySettings):
    """Weights of rows learned from the errors that models make on documents they have not seen."""

    folds: int = Field(
        5, ge=2, description="Number of models, each trained without a part of the documents, which it answers."
    )
    rates: tuple[Annotated[float, Field(gt=0.0, allow_inf_nan=False)], ...] = Field(
        (0.05, 0.1, 0.2),
        min_length=1,
        description="Rates that are tried: nats by which a unit of degree moves a weight.",
    )
    passes: int = Field(30, ge=1, description="Largest number of passes over the documents.")
    patience: int = Field(
        3, ge=1, description="Number of passes in which the figure on the other half may fail to rise."
    )
    scales: tuple[Annotated[float, Field(gt=0.0, allow_inf_nan=False)], ...] = Field(
        (0.5, 2.0, 4.0), description="Factors of the weights of the best pass that are tried."
    )
    measure: str = Field(
        "spans", description="Measure by which rate, passes and scale are chosen; `concord list measures` has them."
    )
    figure: str = Field("f1", description="Figure of that measure, such as f1 or macro_f1.")
    engine: str = Field("certify", description="Engine that answers meanwhile.")


def as_counted(rows: float, broken: float, settings: LearnedSettings) -> float:
    """What odds say, with which what is learned can be compared."""
    del settings
    return odds(rows, broken, OddsSettings())


OWN: dict[str, Penalty] = COUNTED | {
    "tuned": Penalty(
        tuned, TunedSettings, "counted, times a factor for each template, chosen on held-out documents", By.FACTORS
    ),
    "learned": Penalty(
        as_counted, LearnedSettings, "by a perceptron from the errors of models on held-out folds", By.ERRORS
    ),
}
"""Ours: a new way to weigh constraints is a function, its settings and one line here."""


def _wrong(part: Any) -> str | None:
    """What is wrong with a penalty."""
    problem = an_entry(Penalty, PenaltySettings)(part)
    if problem is not None or part.by is By.COUNTS:
        return problem
    return a_class(TunedSettings if part.by is By.FACTORS else LearnedSettings)(part.settings)


PENALTIES: Registry[Penalty] = Registry(Group.PENALTIES, OWN, _wrong)


def penalty_named(name: str) -> Penalty:
    """An entry of `PENALTIES`. Raises `PenaltyError`."""
    if name not in PENALTIES:
        raise PenaltyError(unknown("penalty", name, PENALTIES))
    return PENALTIES[name]
