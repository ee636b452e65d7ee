"""Linear-chain CRF of any trainer: the model folder, and potentials by the vocabulary-factored scorer.

Lafferty et al. (2001); feature templates after Finkel et al. (2005) table 2 and others, see
`workers.features.templates`. The model folder holds the weights as flat arrays, files that the trainer adds, and the
manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import LARGEST_WEIGHT, Potentials
from concord.schemas.settings import TrainerSettings
from concord.workers.features.derived import needed_columns
from concord.workers.features.scorer import FeatureError, FeatureWeights, Scorer, known_words
from concord.workers.features.templates import FeatureSet
from concord.workers.models.arrays_file import ArrayKind, ArraysFileError, read_arrays, write_arrays
from concord.workers.models.feature_files import read_features, write_features
from concord.workers.models.folder import Manifest, ModelError, manifest_of, read_manifest, write_manifest

KIND = "crf"
WEIGHTS_FILE = "weights.bin"
ARRAYS = (
    ArrayKind("start", "<i8"),
    ArrayKind("label", "<i4"),
    ArrayKind("weight", "<f8"),
    ArrayKind("attribute_keys", "<u8"),
    ArrayKind("attribute_rows", "<i4"),
    ArrayKind("conjunction_keys", "<u8"),
    ArrayKind("conjunction_rows", "<i4"),
    ArrayKind("value_keys", "<u8"),
    ArrayKind("value_rows", "<i4"),
    ArrayKind("transition", "<f8", 2),
    ArrayKind("missing", "|b1"),
)
"""Arrays of `WEIGHTS_FILE` in order: those of `FeatureWeights`, then the model's ``transition`` and ``missing``."""


class LearnedCrf(NamedTuple):
    """Result of training a CRF; the fields are those of `CrfModel`."""

    labels: LabelSet
    features: FeatureSet
    weights: FeatureWeights
    transition: Floats
    missing: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class CrfModel:
    """A trained CRF: flat read-only arrays that processes can share, and a small manifest.

    - ``labels``: the L labels.
    - ``features``: the feature templates that the weights belong to.
    - ``weights``: weights of features, in nats.
    - ``transition`` (L, L): scores of label pairs in nats; row: the previous label.
    - ``missing`` (L,): labels that complete the label set but never occurred in training, such as the ``I-T`` of a type
      that has only one-word spans. Their unary score is −inf, because training has no evidence of them.
    - ``digest``: the manifest's, see `Model.digest`.
    """

    labels: LabelSet
    features: FeatureSet
    weights: FeatureWeights
    transition: Floats
    missing: NDArray[np.bool_]
    manifest: Manifest
    digest: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that the features read, sorted."""
        return needed_columns(self.features)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L) in nats, without the label set's legality.

        Raises `ColumnError` where the batch lacks one of ``columns``, `ScoreError` where a sum of weights is no number.
        """
        unary = self.scorer.unary(batch)
        if self.missing.any():
            unary[:, self.missing] = -np.inf
        return Potentials(unary, self.transition.copy(), batch.sentence_starts)

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) mask of the words that the model has weights for.

        A word is looked up as it is written, or in lower case if the features read only that. Raises `FeatureSetError`
        where the features read neither.
        """
        return known_words(self.features, self.weights, words)

    @cached_property
    def scorer(self) -> Scorer:
        """Scorer of batches. Its word tables belong to this process and are not pickled."""
        return Scorer(self.features, self.weights, len(self.labels))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "scorer"}


def save(
    out: Path,
    learned: LearnedCrf,
    *,
    settings: TrainerSettings,
    training: Mapping[str, Any],
    libraries: Sequence[str] = (),
    beside: Sequence[str] = (),
) -> CrfModel:
    """Writes the weights and, last, the manifest into a folder that `begin` has made.

    - ``training``: figures of the training, for the manifest.
    - ``libraries``: names of libraries, besides numpy, whose versions the weights depend on.
    - ``beside``: names of files that the trainer has put into the folder.

    Raises `OSError`, and `OutputError` where the manifest cannot be written.
    """
    weights, labels = learned.weights, learned.labels
    features, lists = write_features(out, learned.features)
    write_arrays(out / WEIGHTS_FILE, (*vars(weights).values(), learned.transition, learned.missing))
    manifest = manifest_of(
        out,
        KIND,
        labels,
        files=(*beside, *lists, WEIGHTS_FILE),
        settings=settings,
        training=training,
        libraries=("numpy", *libraries),
        features=features.name,
        templates=[t.name for t in features.templates],
    )
    write_manifest(out, manifest)
    return CrfModel(*learned._replace(features=features), manifest, manifest.digest)


def load(folder: Path | str) -> CrfModel:
    """CRF model of a folder; each file's hash is checked before its content is parsed.

    Raises `ModelError` where the folder is not a complete CRF model or the definition of its features has changed.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(WEIGHTS_FILE,))
    features = read_features(folder, manifest)
    labels = manifest.label_set
    try:
        *arrays, transition, missing = read_arrays(folder / WEIGHTS_FILE, ARRAYS)
        weights = FeatureWeights(*arrays)
        weights.check(len(labels))
        _check(transition, missing, len(labels))
    except (ArraysFileError, FeatureError) as error:
        raise ModelError(f"{folder / WEIGHTS_FILE}: damaged ({error}); copy the folder again or train again") from error
    return CrfModel(labels, features, weights, transition, missing, manifest, manifest.digest)


def _check(transition: Floats, missing: NDArray[np.bool_], labels: int) -> None:
    """Raises `FeatureError` where an array does not fit the number of labels or holds values that are not allowed."""
    if transition.shape != (labels, labels) or missing.shape != (labels,):
        raise FeatureError(f"transition is {transition.shape} and missing {missing.shape} for {labels} labels")
    if not np.abs(transition).max() <= LARGEST_WEIGHT:
        raise FeatureError(f"a transition weight is not a number of at most {LARGEST_WEIGHT:g} nats")
    if missing.view(np.uint8).max() > 1:
        raise FeatureError("missing holds bytes that are no truth values")
