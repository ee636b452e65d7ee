"""What a local model is: a folder that loads into something that scores batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from schemas.document import Batch
from schemas.labels import LabelSet
from schemas.potentials import Potentials


@runtime_checkable
class KnownWords(Protocol):
    """Tells known words from others. A model that also has this method is one."""

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) which of the words it has something to say of, each by itself."""
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
