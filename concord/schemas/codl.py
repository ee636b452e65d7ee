"""Settings and figures of constraint-driven learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, figure_columns, row
from concord.schemas.gains import Gain
from concord.schemas.settings import Settings
from concord.schemas.shown import Report


class MixtureSettings(Settings):
    """Settings of a cycle of learning from a pool of unlabelled documents."""

    trainer: Literal["hmm", "perceptron"] = Field("hmm", description="Model that is learned.")
    labels: tuple[str, ...] = Field((), description="Further labels, which the labelled documents may lack.")
    gamma: float = Field(0.9, ge=0, le=1, description="Share of the model of labelled documents in every mixture.")
    mixing: Literal["probabilities", "logarithms"] = Field(
        "probabilities",
        description="With trainer=hmm: mix probabilities, or their logarithms, as Chang et al. print it.",
    )
    penalties: Literal["learned", "first", "hard"] = Field(
        "learned",
        description="Weights of constraints: mixed like the model, those of the labelled documents alone, or all hard.",
    )
    held: float = Field(
        0.0, ge=0, description="Smoothing: number of rows of each constraint that are counted as kept in advance."
    )
    em: Literal["hard", "soft"] = Field(
        "hard", description="With trainer=hmm: count the best labellings alike, or each by its probability among them."
    )
    features: str = Field("fields", description="With trainer=perceptron: feature sets, joined by +.")
    passes: int = Field(10, ge=1, description="With trainer=perceptron: number of passes over all sentences.")

    @model_validator(mode="after")
    def _are_of_the_trainer(self) -> Self:
        for trainer, names in OPTIONS_OF.items():
            given = [name for name in names if getattr(self, name) != MixtureSettings.model_fields[name].default]
            if given and trainer != self.trainer:
                raise ValueError(f"{', '.join(given)}: of trainer={trainer} alone")
        return self


OPTIONS_OF = {"hmm": ("mixing", "em"), "perceptron": ("features", "passes")}
"""Settings that only one of the trainers has, by trainer."""


class CycleSettings(MixtureSettings):
    """Settings of learning from a pool that the model labels under constraints."""

    cycles: int = Field(10, ge=1, le=1000, description="Largest number of cycles, each of which labels the pool.")
    change: float = Field(
        1e-3, ge=0, le=1, description="Fraction of the pool's labels; learning ends when fewer change."
    )

    @property
    def mixture(self) -> MixtureSettings:
        """The settings of a cycle, without those that end the cycles or are of another use."""
        return MixtureSettings(**{name: getattr(self, name) for name in MixtureSettings.model_fields})


class CodlSettings(CycleSettings):
    """How a model learns on from a pool that it labels under constraints, and how its share gamma is chosen."""

    shares: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(
        (0.5, 0.7, 0.9, 0.95, 1.0), min_length=1, description="With --tune: values of gamma to try."
    )
    folds: int = Field(
        5,
        ge=2,
        description="With --tune: number of folds of the labelled documents, at most one for each document.",
    )
    sample: int = Field(200, ge=1, description="With --tune: largest number of the pool's documents to learn from.")


class GammaTrial(Gain):
    """Cross-validation of a share gamma over labelled documents, with its gain over the largest share that was tried.

    - ``accuracy``: fraction of tokens with the right label.
    """

    gamma: float
    accuracy: float


class Cycle(Report):
    """One cycle: the pool is labelled, and a model is learned from it. Cycle 0 learns from labelled documents alone.

    - ``changed``: fraction of the pool's tokens whose label differs from the cycle before (1 in the first).
    - ``penalty``: total penalty of the pool's labels, in nats.
    - ``certified``: fraction of the pool's documents with a proof.
    - ``accuracy``: fraction of tokens of the held-out corpus that the model labels right under its constraints; null
      without such a corpus.

    The first three are null in cycle 0.
    """

    number: int
    changed: float | None = None
    penalty: float | None = None
    certified: float | None = None
    accuracy: float | None = None


class CodlReport(Report):
    """Report of ``concord codl --json``.

    - ``documents``: number of labelled documents.
    - ``pool``, ``pool_tokens``: number of documents and of tokens in the pool.
    - ``cycles``: the cycles; the model of the last one is the result.
    - ``settled``: did so few labels change at the end that another cycle would not help?
    - ``gamma``: share of the model of labelled documents.
    - ``tuned``: trials that gamma was chosen from; empty if it was given.
    - ``seconds``: wall-clock time.
    """

    documents: int
    pool: int
    pool_tokens: int
    rejected: int
    cycles: tuple[Cycle, ...]
    settled: bool
    gamma: float
    tuned: tuple[GammaTrial, ...]
    seconds: float
    out: str
    mlflow_run: str

    def blocks(self) -> Iterator[AnyBlock]:
        """Trials of gamma, the cycles, and why the last one was the last."""
        if self.tuned:
            yield self._trials()
        yield self._cycles()
        last = self.cycles[-1].number
        end = "the labels have settled" if self.settled else "labels still change: give a larger --set cycles"
        yield Headline(
            f"learned from {self.documents:,} labelled documents and {self.pool:,} of the pool "
            f"({self.rejected} rejected) in {last} cycles, {self.seconds:.0f} s; {end}"
        )
        if self.tuned:
            yield Remark(
                f"gamma {self.gamma:g} has the most right tokens on held-out documents (the largest of equal ones)"
            )
        yield Remark(f"model in {self.out}/cycle-{last:02d}/model, its constraints beside it")
        yield Remark(f"MLflow run {self.mlflow_run}")

    def _cycles(self) -> Table:
        """A row for each cycle; figures that a cycle does not have are blank."""
        heads = ("labels changed %", "penalty", "certified %", "held-out tokens right %")
        rows = (
            row(
                f"{cycle.number}",
                _per_cent(cycle.changed),
                "" if cycle.penalty is None else f"{cycle.penalty:,.0f}",
                _per_cent(cycle.certified),
                _per_cent(cycle.accuracy),
            )
            for cycle in self.cycles
        )
        return Table(figure_columns("cycle", *heads), tuple(rows))

    def _trials(self) -> Table:
        """A row for each gamma (share of the first model) that was tried."""
        heads = ("held-out tokens right %", "gain over the largest %", "interval of 95 %")
        rows = (row(f"{trial.gamma:g}", f"{100 * trial.accuracy:.2f}", *trial.gain_cells) for trial in self.tuned)
        return Table(figure_columns("gamma", *heads), tuple(rows))


def _per_cent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"
