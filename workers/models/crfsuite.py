"""A model of CRFsuite's with the feature function of the package that it came with, both as they are.

The function is called with the words of a sentence (a list of strings) and returns, for each of them, what
python-crfsuite takes: strings, or numbers by name, nested or not. It is code of a package that is not concord's, so a
folder alone never has it imported: who uses the model names the function in `TRUST`, as it is written in the folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import packages_distributions, version
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.document import TOKENS, Batch
from schemas.errors import DocumentError
from schemas.labels import Labels, LabelSet
from schemas.potentials import LARGEST_WEIGHT, Floats, Ints, Potentials
from workers.models.crfsuite_file import CrfsuiteWeights, ModelFileError, read_crfsuite
from workers.models.folder import MANIFEST, Manifest, ModelError, file_digest, read_manifest, write_manifest
from workers.storage.files import write_whole

KIND = "crfsuite"
MODEL_FILE = "model.crfsuite"
FEATURES_FILE = "features.json"
"""The `FeatureFunction`."""
TRUST = "CONCORD_TRUST"
"""Environment variable: the functions, MODULE:FUNCTION, that models may call; many with commas between."""
RAISED = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a function may raise at words it cannot take; anything else is no fault of a document."""

Features = Callable[[list[str]], Any]


class FeatureFunction(BaseModel):
    """Names a function, and the release it came with: a distribution's version, or else the digest of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
    package: str
    release: str

    @property
    def module(self) -> str:
        """Where it is imported from."""
        return self.name.partition(":")[0]


@dataclass(frozen=True, eq=False)
class CrfsuiteModel:
    """The weights of a file, and the function that says which attributes a word has.

    ``transition`` (L, L) and ``weights.transition`` (K, K) differ in labels that complete the label set; these have
    scores of −inf.
    """

    labels: LabelSet
    weights: CrfsuiteWeights
    function: FeatureFunction
    features: Features
    manifest: Manifest
    digest: str
    columns: tuple[str, ...] = (TOKENS,)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, without the label set's legality.

        Raises `DocumentError` where the function cannot take a sentence.
        """
        words = batch.columns[TOKENS].strings()
        bounds = batch.sentence_bounds.tolist()
        unary = np.full((len(words), len(self.labels)), -np.inf)
        for first, last in pairwise(bounds):
            unary[first:last, self._ids] = self._scores(words[first:last])
        transition = np.zeros((len(self.labels), len(self.labels)))
        transition[np.ix_(self._ids, self._ids)] = self.weights.transition
        return Potentials(unary, transition, batch.sentence_starts)

    def _scores(self, words: list[str]) -> Floats:
        """(n, K) the sums of the weights of a sentence's attributes."""
        try:
            items = [list(attributes(item)) for item in self.features(words)]
        except RAISED as error:
            raise DocumentError(f"{self.function.name} cannot take it: {type(error).__name__}: {error}") from error
        if len(items) != len(words):
            raise DocumentError(f"{self.function.name} gave {len(items)} sets of features for {len(words)} tokens")
        places: list[int] = []
        rows: list[int] = []
        values: list[float] = []
        for place, item in enumerate(items):
            for name, value in item:
                row = self._rows.get(name)
                if row is not None:
                    places.append(place)
                    rows.append(row)
                    values.append(value)
        return self._sums(len(words), np.array(places, np.int64), np.array(rows, np.int64), np.array(values))

    def _sums(self, size: int, place: Ints, row: Ints, value: Floats) -> Floats:
        """(size, K) for attribute row[i] with value[i] at token place[i], its weights times that, added up in order."""
        start, target, weight = self._by_attribute
        width = len(self.weights.labels)
        counts = start[row + 1] - start[row]
        ends = np.cumsum(counts)
        entry = np.arange(counts.sum()) + np.repeat(start[row] - ends + counts, counts)
        cell = np.repeat(place, counts) * width + target[entry]
        sums: Floats = np.zeros(size * width)
        np.add.at(sums, cell, np.repeat(value, counts) * weight[entry])
        return sums.reshape(size, width)

    @cached_property
    def _ids(self) -> Labels:
        """(K,) the label of the set that each of the file's labels is."""
        return self.labels.encode(self.weights.labels)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.weights.attributes)}

    @cached_property
    def _by_attribute(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """Attribute a gives weight[k] nats to label target[k] for k from start[a] up to start[a + 1]: these three."""
        order = np.argsort(self.weights.source, kind="stable")
        start = np.searchsorted(self.weights.source[order], np.arange(len(self.weights.attributes) + 1))
        return start, self.weights.target[order], self.weights.weight[order]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in DERIVED}


def attributes(item: Any) -> Iterator[tuple[str, float]]:
    """The attributes of one word as python-crfsuite makes them of strings, or of values by name; some may come twice.

    Its own `ItemSequence` does not tell how often, and its tagger adds them up. Raises `TypeError` and `ValueError`.
    """
    for key in item:
        name, value = _text(key), item[key] if isinstance(item, dict) else 1.0
        if isinstance(value, dict | list | set):
            yield from ((f"{name}:{inner}", weight) for inner, weight in attributes(value))
        elif isinstance(value, str | bytes):
            yield f"{name}:{_text(value)}", 1.0
        else:
            yield name, float(value)


def _text(key: Any) -> str:
    if not isinstance(key, str | bytes):
        raise TypeError(f"{key!r} is no name of a feature")
    return key if isinstance(key, str) else key.decode()


DERIVED = ("_ids", "_rows", "_by_attribute")
"""What a process makes for itself."""


def save(out: Path, data: bytes, name: str) -> CrfsuiteModel:
    """Makes a model of a file's bytes and the function ``name``, which the caller trusts, in a folder that is there.

    Raises `ModelError` where there is no such function, `ModelFileError` where the bytes are no model, and
    `OutputError`.
    """
    function = function_named(name)
    features = import_function(name)
    write_whole(out / MODEL_FILE, data)
    write_whole(out / FEATURES_FILE, function.model_dump_json(indent=2).encode() + b"\n")
    weights = _weights(out / MODEL_FILE)
    labels = LabelSet.infer(weights.labels)
    manifest = Manifest(
        kind=KIND,
        labels=labels.names,
        scheme=labels.scheme,
        settings={},
        versions={package: version(package) for package in ("concord", "numpy", "python-crfsuite")},
        training={},
        files={name: file_digest(out / name) for name in (MODEL_FILE, FEATURES_FILE)},
    )
    write_manifest(out, manifest)
    return CrfsuiteModel(labels, weights, function, features, manifest, manifest.digest)


def load(folder: Path | str) -> CrfsuiteModel:
    """The model saved in a folder; its function is imported where `TRUST` names it, and not before.

    Raises `ModelError`, also where the function is not trusted or of another release than the model was made with.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(MODEL_FILE, FEATURES_FILE))
    try:
        function = FeatureFunction.model_validate_json((folder / FEATURES_FILE).read_bytes())
        weights = _weights(folder / MODEL_FILE)
    except ValidationError as error:
        raise ModelError(f"{folder / FEATURES_FILE}: {error.errors()[0]['msg']}; import the model again") from error
    except ModelFileError as error:
        raise ModelError(str(error)) from error
    labels = LabelSet.infer(weights.labels)
    if labels != manifest.label_set:
        raise ModelError(f"{folder / MODEL_FILE}: its labels are not those of {MANIFEST}; import the model again")
    if function.name not in os.environ.get(TRUST, "").split(","):
        raise ModelError(
            f"{folder}: the model calls {function.name} of {function.package}, code that concord does not know; "
            f"if you trust it, set {TRUST}={function.name}"
        )
    there = function_named(function.name)
    if there != function:
        raise ModelError(
            f"{folder}: made with {function.package} {function.release}, but there is {there.package} {there.release}; "
            "install that release, or import the model again"
        )
    features = import_function(function.name)
    return CrfsuiteModel(labels, weights, function, features, manifest, manifest.digest)


def import_function(name: str) -> Features:
    """The function MODULE:FUNCTION. Runs its module's code: only for what the user has named. Raises `ModelError`."""
    module, _, function = name.partition(":")
    try:
        found: Features = attrgetter(function)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"{name}: cannot be imported ({error}); install its package, or name MODULE:FUNCTION"
        ) from error
    if not callable(found):
        raise ModelError(f"{name}: is no function; name one that takes a list of words")
    return found


def function_named(name: str) -> FeatureFunction:
    """A function with the release it comes in: what its distribution says, or the digest of its module's file.

    Raises `ModelError` for a name of another form, and for a module without either.
    """
    try:
        plain = FeatureFunction(name=name, package="", release="")
    except ValidationError as error:
        raise ModelError(f"{name}: want MODULE:FUNCTION, such as usaddress:tokens2features") from error
    top = plain.module.partition(".")[0]
    for package in packages_distributions().get(top, []):
        return plain.model_copy(update={"package": package, "release": version(package)})
    spec = importlib.util.find_spec(plain.module)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise ModelError(f"{name}: its module has no file and is of no package, so that its release cannot be told")
    return plain.model_copy(update={"package": plain.module, "release": file_digest(Path(spec.origin))})


def _weights(path: Path) -> CrfsuiteWeights:
    """Raises `ModelFileError`, also for weights that cannot be added up."""
    weights = read_crfsuite(path)
    if not np.abs(np.concatenate([weights.weight, weights.transition.ravel()])).max(initial=0.0) <= LARGEST_WEIGHT:
        raise ModelFileError(f"{path}: a weight is beyond {LARGEST_WEIGHT:g} nats")
    if not weights.labels:
        raise ModelFileError(f"{path}: has no labels")
    return weights
