"""What a local model is: a folder that loads into something that scores batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Batch, ScoreColumn
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem
from concord.workers.constraints.constraint_set import ConstraintSet, build_problems
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.inference.core.chain import viterbi


@runtime_checkable
class KnownWords(Protocol):
    """Tells known words from others. A model that also has this method is one."""

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) which of the words it has something to say of, each by itself."""
        ...


@runtime_checkable
class ReadsScores(Protocol):
    """Reads the scores of another tagger from a corpus column. A model that also has this is one."""

    @property
    def score_column(self) -> ScoreColumn:
        """The column; a batch to be scored has its ``scores``."""
        ...


@runtime_checkable
class CutsText(Protocol):
    """Has a say in how raw text is cut into words. A model that also has this is one."""

    @property
    def tokenizer(self) -> OwnTokenizer | None:
        """What cuts it; none: concord's own tokenizer."""
        ...


class LocalScores(NamedTuple):
    """What a model says of a batch: potentials, and rows of its own for each document (D,), none for most models."""

    potentials: Potentials
    rows: Sequence[LinearRows] | None = None

    def document(self, batch: Batch, i: int) -> LocalScores:
        """What it says of document i of the batch."""
        start, end = int(batch.doc_starts[i]), int(batch.doc_starts[i + 1])
        return LocalScores(self.potentials.part(start, end), None if self.rows is None else self.rows[i : i + 1])

    def problems(self, batch: Batch, labels: LabelSet, constraints: ConstraintSet) -> Iterator[Problem]:
        """The ground problem of each document of the batch, in order; see `build_problems`."""
        problems = build_problems(batch, self.potentials, labels, constraints)
        if self.rows is None:
            return problems
        return (problem.with_own_rows(own) for problem, own in zip(problems, self.rows, strict=True))


@runtime_checkable
class BringsRows(Protocol):
    """Scores with rows as well, which potentials cannot hold. A model that also has this is one."""

    def scores(self, batch: Batch) -> LocalScores:
        """Potentials as `Model.potentials` has them, and rows, whose ``constraint`` says nothing."""
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
        """Local scores of a whole batch: unary (N, L), nats, without the label set's legality.

        `Potentials.part` cuts out a document, `Potentials.legal` adds legality.
        """
        ...


def local_scores(model: Model, batch: Batch) -> LocalScores:
    """All that the model says of a batch."""
    return model.scores(batch) if isinstance(model, BringsRows) else LocalScores(model.potentials(batch))


def viterbi_labels(model: Model, batch: Batch) -> Labels:
    """(N,) the model's best legal labels of a batch, ids of its label set, by no constraint but that."""
    return viterbi(model.potentials(batch).legal(model.labels))


def text_tokenizer(model: Model) -> OwnTokenizer | None:
    """What cuts raw text for the model, where it is not concord's own tokenizer."""
    return model.tokenizer if isinstance(model, CutsText) else None


def score_column(model: Model) -> ScoreColumn | None:
    """The column of scores that a corpus has to be read with for the model; None for most."""
    return model.score_column if isinstance(model, ReadsScores) else None
