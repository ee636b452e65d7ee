"""Protocols of local models: a model is loaded from a folder and scores batches of documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Document, ScoreColumn
from concord.schemas.labels import OUTSIDE, Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem
from concord.workers.constraints.constraint_set import ConstraintSet, build_problems
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.inference.core.chain import viterbi


@runtime_checkable
class KnownWords(Protocol):
    """Optional part of a model: tells known words from unknown ones."""

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) mask of the words that the model knows, each looked up by itself."""
        ...


@runtime_checkable
class ReadsScores(Protocol):
    """Optional part of a model: reads the scores of another tagger from a corpus column."""

    @property
    def score_column(self) -> ScoreColumn:
        """Column of scores; a batch must have been read with it, into ``Batch.scores``."""
        ...


@runtime_checkable
class CutsText(Protocol):
    """Optional part of a model: brings its own tokenizer of raw text."""

    @property
    def tokenizer(self) -> OwnTokenizer | None:
        """The model's tokenizer; None: concord's own."""
        ...


@runtime_checkable
class JudgesFit(Protocol):
    """Optional part of a model: says of documents whether they are of the kind that it can score."""

    def misfit(self, documents: Sequence[Document]) -> str:
        """What does not fit, as a sentence for the user; empty if all does."""
        ...


class GivenAnswer(NamedTuple):
    """An answer that is given, not decoded.

    - ``labels`` (N,): label ids.
    - ``probability`` (M,): how sure each of its M spans is, in their order; NaN where that is not known.
    """

    labels: Labels
    probability: Floats


@runtime_checkable
class BringsAnswers(Protocol):
    """Optional part of a model: answers in the place of scores, of which it has none."""

    @property
    def name(self) -> str:
        """What the user calls whoever gave them."""
        ...

    def answer(self, document: Document) -> GivenAnswer:
        """The answer to a document, which keeps its corrections. Raises `DocumentError` without one."""
        ...

    def answer_digest(self, doc_id: str) -> bytes:
        """Digest of the answer to a document, without corrections; empty for none."""
        ...


@runtime_checkable
class HasTemperature(Protocol):
    """Optional part of a model: a temperature, by which `local_scores` divides all its scores."""

    @property
    def temperature(self) -> float:
        """The temperature; 1 leaves scores as they are."""
        ...

    def at(self, temperature: float) -> Self:
        """The same model at another temperature."""
        ...


@runtime_checkable
class HasOutsideCost(Protocol):
    """Optional part of a model: nats, before temperature, that a token outside of entities costs in `local_scores`."""

    @property
    def outside_cost(self) -> float:
        """The cost; 0 leaves scores as they are."""
        ...

    def costing(self, outside_cost: float) -> Self:
        """The same model with another cost."""
        ...


class LocalScores(NamedTuple):
    """Local scores of a batch of D documents.

    - ``potentials``: unary and transition scores, outside cost included.
    - ``rows`` (D,): rows of the model's own for each document; None for most models.
    - ``outside_cost``: nats that a token outside of entities costs.
    """

    potentials: Potentials
    rows: Sequence[LinearRows] | None = None
    outside_cost: float = 0.0

    def document(self, batch: Batch, i: int) -> LocalScores:
        """Local scores of document i of the batch."""
        start, end = int(batch.doc_starts[i]), int(batch.doc_starts[i + 1])
        rows = None if self.rows is None else self.rows[i : i + 1]
        return self._replace(potentials=self.potentials.part(start, end), rows=rows)

    def at(self, temperature: float) -> LocalScores:
        """The scores divided by a temperature. Labellings keep their order."""
        if temperature == 1.0:
            return self
        rows = self.rows and [replace(own, weight=own.weight / temperature) for own in self.rows]
        return LocalScores(self.potentials.at(temperature), rows, self.outside_cost / temperature)

    def costing(self, outside_cost: float, labels: LabelSet) -> LocalScores:
        """The scores, in which a token outside of entities costs so many nats."""
        if outside_cost == 0.0:
            return self
        potentials = self.potentials.costing(labels.index[OUTSIDE], outside_cost)
        return self._replace(potentials=potentials, outside_cost=self.outside_cost + outside_cost)

    def problems(self, batch: Batch, labels: LabelSet, constraints: ConstraintSet) -> Iterator[Problem]:
        """The ground problem of each document of the batch, in order; see `build_problems`."""
        problems = build_problems(batch, self.potentials, labels, constraints)
        if self.outside_cost:
            problems = (replace(problem, outside_cost=self.outside_cost) for problem in problems)
        if self.rows is None:
            return problems
        return (problem.with_own_rows(own) for problem, own in zip(problems, self.rows, strict=True))


@runtime_checkable
class BringsRows(Protocol):
    """Optional part of a model: rows of its own, for scores that potentials cannot hold."""

    def scores(self, batch: Batch) -> LocalScores:
        """Potentials as of `Model.potentials`, and the model's rows; their ``constraint`` has no meaning."""
        ...


class Model(Protocol):
    """Turns documents into potentials.

    ``digest`` names the trained content: equal digests give equal potentials.
    """

    @property
    def labels(self) -> LabelSet:
        """The labels (L) the potentials' columns stand for."""
        ...

    @property
    def digest(self) -> str:
        """Hex digest of all that decides the scores."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that a batch must have to be scored."""
        ...

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, without legality, outside cost and temperature.

        `local_scores` brings the latter two. `Potentials.part` cuts out a document, `Potentials.legal` adds legality.
        """
        ...


def local_scores(model: Model, batch: Batch) -> LocalScores:
    """Potentials of a batch at the model's outside cost and temperature, with the rows that it brings, if any."""
    scores = model.scores(batch) if isinstance(model, BringsRows) else LocalScores(model.potentials(batch))
    return at_settings_of(model, scores)


def at_settings_of(model: Model, scores: LocalScores) -> LocalScores:
    """Scores as the model has learned them, with its outside cost and at its temperature."""
    return scores.costing(outside_cost_of(model), model.labels).at(temperature_of(model))


def temperature_of(model: Model) -> float:
    """Temperature by which a model's scores are divided; 1 for a model that has none."""
    return model.temperature if isinstance(model, HasTemperature) else 1.0


def outside_cost_of(model: Model) -> float:
    """Nats, before temperature, that a token outside of entities costs; 0 for a model that has no such cost."""
    return model.outside_cost if isinstance(model, HasOutsideCost) else 0.0


def tempered(model: Model, temperature: float) -> Model:
    """The model at another temperature; one that has none stays as it is."""
    return model.at(temperature) if isinstance(model, HasTemperature) else model


def costing(model: Model, outside_cost: float) -> Model:
    """The model at another outside cost; one that has none stays as it is."""
    return model.costing(outside_cost) if isinstance(model, HasOutsideCost) else model


def viterbi_labels(model: Model, batch: Batch) -> Labels:
    """(N,) Viterbi labels of a batch, ids of the model's label set: the best legal ones, under no constraints."""
    scores = LocalScores(model.potentials(batch)).costing(outside_cost_of(model), model.labels)
    return viterbi(scores.potentials.legal(model.labels))


def text_tokenizer(model: Model) -> OwnTokenizer | None:
    """The model's own tokenizer of raw text; None where concord's is used."""
    return model.tokenizer if isinstance(model, CutsText) else None


def score_column(model: Model) -> ScoreColumn | None:
    """Column of scores that the model reads from the corpus; None for most models."""
    return model.score_column if isinstance(model, ReadsScores) else None
