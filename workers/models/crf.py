"""The linear-chain CRF: trained by python-crfsuite, scored by the vocabulary-factored scorer.

Lafferty et al. (2001); the features of Finkel et al. (2005) table 2 and others, see
`workers.features.templates`. A model is a folder: CRFsuite's own file, the same weights as flat
arrays, and the manifest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pycrfsuite
from numpy.typing import NDArray

from schemas.document import Batch, Document
from schemas.labels import LabelSet
from schemas.potentials import LARGEST_WEIGHT, Floats, Potentials
from schemas.settings import CrfSettings
from workers.features.attributes import AttributeMaker
from workers.features.derived import read_columns
from workers.features.scorer import FeatureError, FeatureWeights, Scorer, compile_weights
from workers.features.templates import FeatureSet, feature_set
from workers.models.arrays_file import ArraysFileError, Kind, read_arrays, write_arrays
from workers.models.crfsuite_file import ModelFileError, read_crfsuite
from workers.models.folder import MANIFEST, Manifest, ModelError, file_digest, read_manifest, write_manifest

KIND = "crf"
CRFSUITE_FILE = "model.crfsuite"
WEIGHTS_FILE = "weights.bin"
ARRAYS = (
    Kind("start", "<i8"),
    Kind("label", "<i4"),
    Kind("weight", "<f8"),
    Kind("attribute_keys", "<u8"),
    Kind("attribute_rows", "<i4"),
    Kind("conjunction_keys", "<u8"),
    Kind("conjunction_rows", "<i4"),
    Kind("value_keys", "<u8"),
    Kind("value_rows", "<i4"),
    Kind("transition", "<f8", 2),
    Kind("missing", "|b1"),
)
"""The arrays of `WEIGHTS_FILE`, in order: those of `FeatureWeights`, and the model's own two."""


class Iteration(NamedTuple):
    """Progress of training: an L-BFGS iteration, of at most ``total``, and its loss in nats."""

    number: int
    total: int
    loss: float


@dataclass(frozen=True, eq=False)
class CrfModel:
    """A trained CRF: flat read-only arrays that processes can share, and a small manifest.

    ``transition`` (L, L). ``missing`` (L,) marks labels that complete the label set but never
    occurred in training, such as an ``I-T`` of a type with one-word spans only: their unary score
    is −inf, because training says nothing of them.
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
        return read_columns(self.features)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, without the label set's legality.

        Raises `ColumnError` where the batch lacks one of ``columns``, `ScoreError` where scores add up to no number.
        """
        unary = self.scorer.unary(batch)
        if self.missing.any():
            unary[:, self.missing] = -np.inf
        return Potentials(unary, self.transition.copy(), batch.sentence_starts)

    @cached_property
    def scorer(self) -> Scorer:
        """Scores batches; its word tables live in this process and are not pickled."""
        return Scorer(self.features, self.weights, len(self.labels))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "scorer"}


def train(
    documents: Iterable[Document],
    *,
    settings: CrfSettings,
    out: Path,
    progress: Callable[[Iteration], None] | None = None,
) -> CrfModel:
    """Trains a CRF on labelled documents and saves it as the folder ``out``.

    Deterministic: equal documents and settings give equal files. Raises `ValueError` where the
    feature set is unknown, a document has no labels or lacks a column, or there is no token, `ModelError`
    and `OSError` where the folder cannot be written.
    """
    features = feature_set(settings.features)
    trainer = _Trainer(settings.max_iterations, progress)
    names, training = _append(trainer, documents, features)
    training["digest"] = hashlib.sha256((training["digest"] + settings.model_dump_json()).encode()).hexdigest()
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).unlink(missing_ok=True)
    _run(trainer, settings, out / CRFSUITE_FILE)
    training |= {"iterations": trainer.iterations, "loss": trainer.loss}
    labels = LabelSet.infer(names)
    try:
        weights, transition, missing = _convert(out / CRFSUITE_FILE, features, labels)
    except ModelFileError as error:  # CRFsuite does not look whether its file could be written
        raise ModelError(f"{out}: the model could not be written whole, is the disk full? ({error})") from error
    write_arrays(out / WEIGHTS_FILE, (*vars(weights).values(), transition, missing))
    manifest = Manifest(
        kind=KIND,
        labels=labels.names,
        scheme=labels.scheme,
        features=features.name,
        templates=tuple(t.name for t in features.templates),
        settings=settings.model_dump(),
        versions={name: version(name) for name in ("concord", "numpy", "python-crfsuite")},
        training=training,
        files={name: file_digest(out / name) for name in (CRFSUITE_FILE, WEIGHTS_FILE)},
    )
    write_manifest(out, manifest)
    return CrfModel(labels, features, weights, transition, missing, manifest, manifest.digest)


def load(folder: Path | str) -> CrfModel:
    """The model saved in a folder; no file is opened before its hash was checked.

    Raises `ModelError` where the folder is not a whole CRF model or its features have changed.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND)
    features = _known_features(folder, manifest)
    if WEIGHTS_FILE not in manifest.files:
        raise ModelError(f"{folder / MANIFEST}: lists no {WEIGHTS_FILE}; train again")
    labels = manifest.label_set
    try:
        *arrays, transition, missing = read_arrays(folder / WEIGHTS_FILE, ARRAYS)
        weights = FeatureWeights(*arrays)
        weights.check(len(labels))
        _check(transition, missing, len(labels))
    except (ArraysFileError, FeatureError) as error:
        raise ModelError(f"{folder / WEIGHTS_FILE}: damaged ({error}); copy the folder again or train again") from error
    return CrfModel(labels, features, weights, transition, missing, manifest, manifest.digest)


def _known_features(folder: Path, manifest: Manifest) -> FeatureSet:
    try:
        features = feature_set(manifest.features)
    except ValueError as error:
        raise ModelError(f"{folder / MANIFEST}: {error}; train again") from error
    if tuple(t.name for t in features.templates) != manifest.templates:
        raise ModelError(
            f"{folder / MANIFEST}: trained with another definition of feature set {manifest.features!r}; train again"
        )
    return features


def _check(transition: Floats, missing: NDArray[np.bool_], labels: int) -> None:
    """Raises `FeatureError` where an array is not of so many labels, or not of finite weights."""
    if transition.shape != (labels, labels) or missing.shape != (labels,):
        raise FeatureError(f"transition is {transition.shape} and missing {missing.shape} for {labels} labels")
    if not np.abs(transition).max() <= LARGEST_WEIGHT:
        raise FeatureError(f"a transition weight is not a number of at most {LARGEST_WEIGHT:g} nats")
    if missing.view(np.uint8).max() > 1:
        raise FeatureError("missing holds bytes that are no truth values")


class _Trainer(pycrfsuite.Trainer):  # type: ignore[misc]
    """Reports iterations instead of printing them."""

    def __init__(self, total: int, progress: Callable[[Iteration], None] | None) -> None:
        super().__init__(verbose=True)
        self._total = total
        self._progress = progress
        self.iterations = 0
        self.loss = 0.0

    def _quiet(self, *_: Any) -> None:
        pass

    on_start = on_featgen_progress = on_featgen_end = on_prepared = on_prepare_error = _quiet
    on_optimization_end = on_end = _quiet

    def on_iteration(self, _log: str, info: dict[str, Any]) -> None:
        self.iterations, self.loss = info["num"], info["loss"]
        if self._progress is not None:
            self._progress(Iteration(self.iterations, self._total, self.loss))


def _append(trainer: _Trainer, documents: Iterable[Document], features: FeatureSet) -> tuple[set[str], dict[str, Any]]:
    """Feeds all sentences to the trainer; returns the label names seen, and counts with a digest."""
    attributes, seen, digest = AttributeMaker(features), set[str](), hashlib.sha256()
    counts = {"documents": 0, "sentences": 0, "tokens": 0}
    columns = read_columns(features)
    for document in documents:
        if document.labels is None:
            raise ValueError(f"document {document.doc_id!r} has no labels; training needs them on every document")
        rows, gold = attributes(document), document.labels.strings()
        seen.update(gold)
        for start, end in pairwise([*document.sentence_starts.tolist(), len(document)]):
            trainer.append(pycrfsuite.ItemSequence(rows[start:end]), gold[start:end])
        counts["documents"] += 1
        counts["sentences"] += len(document.sentence_starts)
        counts["tokens"] += len(document)
        content = [document.doc_id, *gold, *(s for c in columns for s in document.columns[c].strings())]
        digest.update("\x00".join(content).encode("utf-8", "surrogatepass"))
        digest.update(document.sentence_starts.astype("<i8").tobytes())
    if counts["tokens"] == 0:
        raise ValueError("there is no token to train on: the corpus is empty")
    return seen, counts | {"digest": digest.hexdigest()}


def _run(trainer: _Trainer, settings: CrfSettings, path: Path) -> None:
    trainer.set_params(
        {
            "c1": settings.c1,
            "c2": settings.c2,
            "max_iterations": settings.max_iterations,
            "feature.minfreq": settings.min_freq,
            "feature.possible_transitions": settings.all_possible_transitions,
            "feature.possible_states": settings.all_possible_states,
        }
    )
    trainer.train(str(path))


def _convert(path: Path, features: FeatureSet, labels: LabelSet) -> tuple[FeatureWeights, Floats, NDArray[np.bool_]]:
    """CRFsuite's weights in the order of the label set."""
    raw = read_crfsuite(path)
    order = labels.encode(raw.labels)
    transition = np.zeros((len(labels), len(labels)))
    transition[np.ix_(order, order)] = raw.transition
    missing = np.ones(len(labels), np.bool_)
    missing[order] = False
    return compile_weights(features, raw.attributes, raw.source, order[raw.target], raw.weight), transition, missing
