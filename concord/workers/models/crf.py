"""Linear-chain CRF of any trainer: the model folder, and potentials by the vocabulary-factored scorer.

Lafferty et al. (2001); feature templates after Finkel et al. (2005) table 2 and others, see
`workers.features.templates`. The model folder holds the weights as flat arrays, files that the trainer adds, and the
manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.settings import TrainerSettings
from concord.workers.features.derived import needed_columns
from concord.workers.features.scorer import FeatureWeights, Scorer, known_words
from concord.workers.features.templates import FeatureSet
from concord.workers.models.arrays_file import SCORES, TRUTHS, ArrayKind, write_arrays
from concord.workers.models.end_marks import ChainSettings, EndMarks
from concord.workers.models.feature_files import read_features, write_features
from concord.workers.models.folder import MANIFEST, Manifest, ModelError, manifest_of, read_manifest, write_manifest
from concord.workers.models.saved_files import FolderModel, parsing, saved_arrays, saved_content, write_content

KIND = "crf"
WEIGHTS_FILE, CHAIN_FILE = "weights.bin", "chain.json"
PAIRS_FILE = "pairs.bin"
"""Weights of attributes of pairs of labels: arrays of a `FeatureWeights`."""


def weight_arrays(part: str = "") -> tuple[ArrayKind, ...]:
    """Arrays of a `FeatureWeights`, which checks their sizes; ``part`` is put before each name."""
    dtypes = ("<i8", "<i4", "<f8", "<u8", "<i4", "<u8", "<i4", "<u8", "<i4")
    names = (part + field.name for field in fields(FeatureWeights))
    return tuple(ArrayKind(name, dtype, (name,)) for name, dtype in zip(names, dtypes, strict=True))


ARRAYS = (
    *weight_arrays(),
    ArrayKind("transition", "<f8", ("labels", "labels"), SCORES),
    ArrayKind("missing", "|b1", ("labels",), TRUTHS),
)
"""Arrays of `WEIGHTS_FILE` in order: those of `FeatureWeights`, then the model's ``transition`` and ``missing``."""


class LearnedCrf(NamedTuple):
    """Result of training a CRF; the fields are those of `CrfModel`."""

    labels: LabelSet
    features: FeatureSet
    weights: FeatureWeights
    transition: Floats
    missing: NDArray[np.bool_]
    marks: EndMarks | None = None
    pairs: FeatureWeights | None = None


@dataclass(frozen=True, eq=False)
class CrfModel(FolderModel):
    """A trained CRF: flat read-only arrays that processes can share, and a small manifest.

    The chain has L labels, or W BILOU labels that stand for them; see `workers.models.end_marks`.

    - ``labels``: the L labels.
    - ``features``: the feature templates that the weights belong to.
    - ``weights``: weights of features, in nats.
    - ``transition`` (W, W): scores of pairs of the chain's labels in nats; row: the previous label.
    - ``missing`` (W,): labels that complete the label set but never occurred in training, such as the ``I-T`` of a type
      that has only one-word spans. Their unary score is −inf, because training has no evidence of them.
    - ``marks``: the chain's BILOU labels; None where they are the model's own.
    - ``pairs``: weights of features of pairs of the chain's labels, in nats, which are added to ``transition``; label
      x · W + y of these is the pair of x and, after it, y. None where the features have none.
    """

    labels: LabelSet
    features: FeatureSet
    weights: FeatureWeights
    transition: Floats
    missing: NDArray[np.bool_]
    marks: EndMarks | None
    pairs: FeatureWeights | None
    manifest: Manifest

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the chain's labels (W)."""
        return self.labels.names if self.marks is None else self.marks.names

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that the features read, sorted."""
        return needed_columns(self.features)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L) in nats, without the label set's legality.

        Raises `ColumnError` where the batch lacks one of ``columns``, `ScoreError` where a sum of weights is no number.
        """
        pairs = None if self.pair_scorer is None else self.pair_scorer.unary(batch)
        return self.of_chain(self.scorer.unary(batch), pairs, batch)

    def of_chain(self, unary: Floats, pairs: Floats | None, batch: Batch) -> Potentials:
        """Potentials of a batch, given scores of the chain's labels in nats; they may be overwritten.

        - ``unary`` (N, W): of each label.
        - ``pairs`` (N, W · W): of each pair of labels, without ``transition``; None if the model has no such features.
        """
        if self.missing.any():
            unary[:, self.missing] = -np.inf
        transition = self.transition.copy()
        if pairs is not None:
            transition = pairs.reshape(len(pairs), *transition.shape)
            transition += self.transition
        if self.marks is not None:
            return self.marks.potentials(unary, transition, batch.sentence_starts)
        return Potentials(unary, transition, batch.sentence_starts)

    def known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """(V,) mask of the words that the model has weights for.

        A word is looked up as it is written, or in lower case if the features read only that. Raises `FeatureSetError`
        where the features read neither.
        """
        return known_words(self.features, self.weights, words)

    @cached_property
    def scorer(self) -> Scorer:
        """Scorer of batches. Its word tables belong to this process and are not pickled."""
        return Scorer(self.features, self.weights, len(self.names))

    @cached_property
    def pair_scorer(self) -> Scorer | None:
        """Scorer of pairs of labels, of W · W each token; None if the model has no features of them."""
        if self.features.pairs is None or self.pairs is None:
            return None
        return Scorer(self.features.pairs, self.pairs, len(self.names) ** 2)


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
    weights, labels, marks = learned.weights, learned.labels, learned.marks
    features, lists = write_features(out, learned.features)
    transition = learned.transition if marks is None else marks.tied(learned.transition, learned.missing)
    if marks is not None:
        write_content(out / CHAIN_FILE, ChainSettings(scheme="bilou"))
        beside = (*beside, CHAIN_FILE)
    if learned.pairs is not None:
        write_arrays(out / PAIRS_FILE, vars(learned.pairs).values())
        beside = (*beside, PAIRS_FILE)
    write_arrays(out / WEIGHTS_FILE, (*vars(weights).values(), transition, learned.missing))
    manifest = manifest_of(
        out,
        KIND,
        labels,
        files=(*beside, *lists, WEIGHTS_FILE),
        settings=settings,
        training=training,
        libraries=("numpy", *libraries),
        features=features.name,
        templates=features.template_names,
    )
    write_manifest(out, manifest)
    return CrfModel(*learned._replace(features=features, transition=transition), manifest)


def load(folder: Path | str) -> CrfModel:
    """CRF model of a folder; each file's hash is checked before its content is parsed.

    Raises `ModelError` where the folder is not a complete CRF model or the definition of its features has changed.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(WEIGHTS_FILE,))
    features = read_features(folder, manifest)
    labels = manifest.label_set
    marks = _saved_marks(folder, manifest) if CHAIN_FILE in manifest.files else None
    width = len(labels) if marks is None else len(marks.names)
    *arrays, transition, missing = saved_arrays(folder / WEIGHTS_FILE, ARRAYS, labels=width)
    weights = FeatureWeights(*arrays)
    with parsing(folder / WEIGHTS_FILE):
        weights.check(width)
    pairs = _saved_pairs(folder, manifest, features, width)
    return CrfModel(labels, features, weights, transition, missing, marks, pairs, manifest)


def _saved_pairs(folder: Path, manifest: Manifest, features: FeatureSet, width: int) -> FeatureWeights | None:
    """Weights of the features of pairs, of a chain of ``width`` labels; None if there are none. Raises `ModelError`."""
    if (features.pairs is None) != (PAIRS_FILE not in manifest.files):
        raise ModelError(f"{folder / MANIFEST}: {PAIRS_FILE} and features of pairs go together; make the model again")
    if features.pairs is None:
        return None
    weights = FeatureWeights(*saved_arrays(folder / PAIRS_FILE, weight_arrays()))
    with parsing(folder / PAIRS_FILE):
        weights.check(width * width)
    return weights


def _saved_marks(folder: Path, manifest: Manifest) -> EndMarks:
    saved_content(folder / CHAIN_FILE, ChainSettings)
    with parsing(folder / CHAIN_FILE):
        return EndMarks(manifest.label_set)
