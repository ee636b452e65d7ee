"""A second-order hidden Markov model: each label follows from the two before, each word from its own label.

    p(y, w) = Π_t p(y_t | y_{t−2}, y_{t−1}) · p(w_t | y_t),

which does not fit the transition matrix of a first-order chain. `Hmm2Model.best` gives the exact Viterbi labels.
Engines get an approximation after Stokman (2011) eq. 47–48: potentials that score each token as if the two labels
before it were those of the Viterbi labels, with transitions of zero. These scores are exact where the two labels before
are indeed those, and an estimate elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.models import hmm
from concord.workers.models.arrays_file import LOG_PROBABILITIES, ArrayKind, write_arrays
from concord.workers.models.folder import Manifest, manifest_of, read_manifest, write_manifest
from concord.workers.models.hmm import HmmModel
from concord.workers.models.saved_files import FolderModel, check_labels, files_inside, saved_arrays
from concord.workers.papers.stokman.second_order import best_second_order, earlier
from concord.workers.papers.stokman.settings import Hmm2Settings

KIND = "hmm2"
FIRST_ORDER = "first"
"""Folder of the first-order model, which holds the tables of words and of the first labels of sentences."""
SECOND_FILE = "second.bin"
ARRAYS = (ArrayKind("second", "<f8", ("starts", "labels", "labels"), LOG_PROBABILITIES),)


@dataclass(frozen=True, eq=False)
class Hmm2Model(FolderModel):
    """A second-order hidden Markov model.

    - ``first``: first-order model, with the probabilities of words and of the first label of a sentence.
    - ``second`` (L + 1, L, L): log probability in nats of a label (last axis) after the label two before (first axis;
      index L: the start of the sentence) and the label before (second axis).
    """

    first: HmmModel
    second: Floats
    manifest: Manifest
    columns: tuple[str, ...] = (TOKENS,)

    @property
    def labels(self) -> LabelSet:
        """The labels (L)."""
        return self.first.labels

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch, given its Viterbi labels: unary (N, L) in nats, transitions of zero."""
        unary = self.first.potentials(batch).unary
        before = earlier(self._best(unary, batch), batch.sentence_bounds, len(self.labels))
        unary[before.token] += self.second[before.two, before.one]
        return Potentials(unary, np.zeros((len(self.labels),) * 2), batch.sentence_starts)

    def best(self, batch: Batch) -> Labels:
        """(N,) Viterbi labels of a batch under the exact second-order model, ids of the label set."""
        return self._best(self.first.potentials(batch).unary, batch)

    def _best(self, unary: Floats, batch: Batch) -> Labels:
        """Viterbi labels (N,); ``unary`` (N, L) has the scores of words and of first labels of sentences."""
        local = Potentials(unary, np.zeros((len(self.labels),) * 2), batch.sentence_starts).legal(self.labels)
        return best_second_order(local.unary, self.second + local.transition, batch.sentence_bounds)[0]

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) mask of the words that occurred in training."""
        return self.first.known(words)


def save(
    out: Path, first: HmmModel, second: Floats, *, settings: Hmm2Settings, training: Mapping[str, Any]
) -> Hmm2Model:
    """Writes ``second`` and the manifest; ``first`` must have been saved in the folder's `FIRST_ORDER`. Raises
    `OSError` and `OutputError`."""
    write_arrays(out / SECOND_FILE, [second])
    files = (SECOND_FILE, *files_inside(FIRST_ORDER, first.manifest))
    manifest = manifest_of(out, KIND, first.labels, files=files, settings=settings, training=training)
    return Hmm2Model(first, second, write_manifest(out, manifest))


def load(folder: Path | str) -> Hmm2Model:
    """Second-order model of a folder. Raises `ModelError` where it, or the first-order model in it, is not complete."""
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(SECOND_FILE,))
    first = hmm.load(folder / FIRST_ORDER)
    check_labels(folder / FIRST_ORDER, first.labels, manifest)
    size = len(first.labels)
    (second,) = saved_arrays(folder / SECOND_FILE, ARRAYS, labels=size, starts=size + 1)
    return Hmm2Model(first, second, manifest)
