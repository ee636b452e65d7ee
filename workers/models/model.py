"""What a local model is: a folder that loads into something that scores batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from schemas.document import Batch, ScoreColumn
from schemas.labels import Labels, LabelSet
from schemas.potentials import Potentials
from workers.corpus.readers.own_tokenizer import OwnTokenizer
from workers.inference.core.chain import viterbi


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


def viterbi_labels(model: Model, batch: Batch) -> Labels:
    """(N,) the model's best legal labels of a batch, ids of its label set, by no constraint but that."""
    return viterbi(model.potentials(batch).legal(model.labels))


def text_tokenizer(model: Model) -> OwnTokenizer | None:
    """What cuts raw text for the model, where it is not concord's own tokenizer."""
    return model.tokenizer if isinstance(model, CutsText) else None


def score_column(model: Model) -> ScoreColumn | None:
    """The column of scores that a corpus has to be read with for the model; None for most."""
    return model.score_column if isinstance(model, ReadsScores) else None
