"""A model of CRFsuite's with the feature function of the package that it came with, both as they are.

The function is called with the words of a sentence (a list of strings) and returns, for each of them, what
python-crfsuite takes: strings, or numbers by name, nested or not. Where these are features of one word at one offset,
`workers.models.word_tables` scores with them. A tokenizer of the package's may be kept beside it: it gets a text and
returns its words. Both are code of a package that is not concord's, so a
folder alone never has them imported: who uses the model names them in `TRUST`, as they are written in the folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import packages_distributions, version
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import TOKENS, Batch, Column
from concord.schemas.errors import USERS_CODE_RAISES, DocumentError
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import LARGEST_WEIGHT, Potentials
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.models.crfsuite_file import CrfsuiteWeights, ModelFileError, read_crfsuite
from concord.workers.models.folder import (
    MANIFEST,
    Manifest,
    ModelError,
    file_digest,
    manifest_of,
    read_manifest,
    write_manifest,
)
from concord.workers.models.word_tables import Scored, WordTables, departure
from concord.workers.storage.files import write_whole

KIND = "crfsuite"
MODEL_FILE = "model.crfsuite"
FUNCTIONS_FILE = "features.json"
"""The `Functions`."""
TRUST = "CONCORD_TRUST"
"""Environment variable: the functions, MODULE:FUNCTION, that models may call; many with commas between."""

UNTRIED = "it was not tried: --no-word-tables"
MOST_UNITS = 2**50
"""Of the sums of absolute values that tables take, see `Scored`."""
FINENESS = 44
"""Binary digits that products of weights are rounded to, counted from the largest weight."""

Features = Callable[[list[str]], Any]
WordsFunction = Callable[[str], Any]


class NamedFunction(BaseModel):
    """Names a function, and the release it came with: a distribution's version, or else the digest of its file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
    package: str
    release: str

    @property
    def module(self) -> str:
        """Where it is imported from."""
        return self.name.partition(":")[0]


class Functions(BaseModel):
    """What is called of others' code, and what was found out about it.

    ``departure`` says why the features are not those of one word at one offset, see `word_tables.departure`; it is
    empty where they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: NamedFunction
    tokenizer: NamedFunction | None = None
    departure: str = ""

    @property
    def all(self) -> tuple[NamedFunction, ...]:
        """Those that have to be trusted."""
        return (self.features,) if self.tokenizer is None else (self.features, self.tokenizer)


@dataclass(frozen=True, eq=False)
class CrfsuiteModel:
    """The weights of a file, and the functions that say which words a text and which attributes a word has.

    Products of values and weights are rounded to multiples of a unit, 2^−`FINENESS` of the least power of two that no
    weight exceeds, so that their sums are the same in any order; python-crfsuite's own differ from them by at most half
    a unit an attribute, and by its own rounding. ``transition`` (L, L) and ``weights.transition`` (K, K) differ in
    labels that complete the label set; these have scores of −inf.
    """

    labels: LabelSet
    weights: CrfsuiteWeights
    functions: Functions
    features: Features
    words: WordsFunction | None
    manifest: Manifest
    digest: str
    columns: tuple[str, ...] = (TOKENS,)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L), nats, without the label set's legality.

        Raises `DocumentError` where the function cannot take a sentence.
        """
        unary = np.full((batch.token_count, len(self.labels)), -np.inf)
        if self._tables is None:
            for first, last in pairwise(batch.sentence_bounds.tolist()):
                unary[first:last, self._ids] = self.scored(batch.columns[TOKENS][first:last].strings()).sums
        elif batch.token_count:
            self._look_up(self._tables, batch.columns[TOKENS], batch.sentence_bounds, unary)
        transition = np.zeros((len(self.labels), len(self.labels)))
        transition[np.ix_(self._ids, self._ids)] = self.weights.transition
        return Potentials(unary, transition, batch.sentence_starts)

    @property
    def tokenizer(self) -> OwnTokenizer | None:
        """What cuts raw text for this model; none: concord's own."""
        named = self.functions.tokenizer
        return None if named is None or self.words is None else OwnTokenizer(named.name, self.words)

    def _look_up(self, tables: WordTables, words: Column, bounds: Ints, unary: Floats) -> None:
        """Fills in the scores of sentences from tables, and those of the sentences that are not for tables."""
        used = np.flatnonzero(np.bincount(words.codes, minlength=len(words.values)))
        word = np.zeros(len(words.values), np.int64)
        word[used] = tables.ids([words.values[code] for code in used.tolist()])
        ids = word[words.codes]
        unknown, checked = tables.fill(ids, bounds, unary, self._ids.astype(np.int64))
        for s in np.flatnonzero(unknown | checked).tolist():
            first, last = bounds[s], bounds[s + 1]
            sentence = words[first:last].strings()
            if unknown[s]:
                unary[first:last, self._ids] = self.scored(sentence).sums
            elif (self.scored(sentence).sums != unary[first:last, self._ids]).any():
                raise ModelError(
                    f"{self.functions.features.name}: features of a word depend on more than its neighbours, as in "
                    f"{' '.join(sentence)!r}; import the model again with --no-word-tables"
                )

    def scored(self, words: Sequence[str]) -> Scored:
        """The sums of the weights of a sentence's attributes. Raises `DocumentError`."""
        name = self.functions.features.name
        try:
            items = [attributes(item) for item in self.features(list(words))]
        except USERS_CODE_RAISES as error:
            raise DocumentError(f"{name} cannot take it: {type(error).__name__}: {error}") from error
        if len(items) != len(words):
            raise DocumentError(f"{name} gave {len(items)} sets of features for {len(words)} tokens")
        known = self._rows.get
        places: list[int] = []
        rows: list[int] = []
        values: list[float] = []
        for place, item in enumerate(items):
            for attribute, value in item:
                row = known(attribute) if value else None
                if row is not None:
                    places.append(place)
                    rows.append(row)
                    values.append(value)
        return self._sums(len(words), np.array(places, np.int64), np.array(rows, np.int64), np.array(values))

    def _sums(self, size: int, place: Ints, row: Ints, value: Floats) -> Scored:
        """For attribute row[i] with value[i] at token place[i], its weights times that, added up."""
        start, target, weight = self._by_attribute
        width = len(self.weights.labels)
        counts = start[row + 1] - start[row]
        ends = np.cumsum(counts)
        entry = np.arange(counts.sum()) + np.repeat(start[row] - ends + counts, counts)
        cell = np.repeat(place, counts) * width + target[entry]
        units: Floats = np.rint(np.repeat(value, counts) * weight[entry] / self._unit)
        sums = np.bincount(cell, units * self._unit, size * width).reshape(size, width).astype(np.float64)
        absolute = np.bincount(cell, np.abs(units), size * width).reshape(size, width)
        return Scored(sums, absolute.max(axis=1) <= MOST_UNITS)

    @cached_property
    def _unit(self) -> float:
        """Nats that all products of values and weights are multiples of: a power of two."""
        _, exponent = math.frexp(float(np.abs(self.weights.weight).max(initial=1.0)))
        return math.ldexp(1.0, exponent - FINENESS)

    @cached_property
    def _tables(self) -> WordTables | None:
        """Scores by word, where the function's features are of one word; this process's own."""
        return None if self.functions.departure else WordTables(self.scored, len(self.weights.labels))

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


def attributes(item: Any, prefix: str = "") -> list[tuple[str, float]]:
    """The attributes of one word as python-crfsuite makes them of strings, or of values by name; some may come twice.

    Its own `ItemSequence` does not tell how often, and its tagger adds them up. ``prefix`` is what stands before each
    name. Raises `TypeError` and `ValueError`.
    """
    if not isinstance(item, dict):
        return [(prefix + _text(key), 1.0) for key in item]
    found: list[tuple[str, float]] = []
    for key, value in item.items():
        name = prefix + _text(key)
        if isinstance(value, str | bytes):
            found.append((f"{name}:{_text(value)}", 1.0))
        elif isinstance(value, dict | list | set):
            found += attributes(value, f"{name}:")
        else:
            found.append((name, float(value)))
    return found


def _text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if not isinstance(key, bytes):
        raise TypeError(f"{key!r} is no name of a feature")
    return key.decode()


DERIVED = ("_ids", "_rows", "_by_attribute", "_unit", "_tables")
"""What a process makes for itself."""


def save(
    out: Path, data: bytes, features: str, *, tokenizer: str | None = None, word_tables: bool = True
) -> CrfsuiteModel:
    """Makes a model of a file's bytes and functions, which the caller trusts, in a folder that is there.

    Without ``word_tables`` the feature function is called for each sentence, and not tried. Raises `ModelError` where
    there is no such function, `ModelFileError` where the bytes are no model, and `OutputError`.
    """
    named = Functions(
        features=function_named(features),
        tokenizer=None if tokenizer is None else function_named(tokenizer),
        departure=UNTRIED,
    )
    write_whole(out / MODEL_FILE, data)
    weights = _weights(out / MODEL_FILE)
    model = _model(weights, named, _manifest(out, weights, ()))
    if word_tables:
        found = departure(model.scored, len(weights.labels), weights.attributes)
        named = named.model_copy(update={"departure": found})
    write_whole(out / FUNCTIONS_FILE, named.model_dump_json(indent=2).encode() + b"\n")
    manifest = _manifest(out, weights, (MODEL_FILE, FUNCTIONS_FILE))
    write_manifest(out, manifest)
    return replace(model, functions=named, manifest=manifest, digest=manifest.digest)


def _manifest(out: Path, weights: CrfsuiteWeights, files: Sequence[str]) -> Manifest:
    labels = LabelSet.infer(weights.labels)
    return manifest_of(out, KIND, labels, files=files, libraries=("numpy", "python-crfsuite"))


def _model(weights: CrfsuiteWeights, functions: Functions, manifest: Manifest) -> CrfsuiteModel:
    """Imports the functions: only for what the user has named. Raises `ModelError`."""
    features = import_function(functions.features.name)
    words = None if functions.tokenizer is None else import_function(functions.tokenizer.name)
    return CrfsuiteModel(manifest.label_set, weights, functions, features, words, manifest, manifest.digest)


def load(folder: Path | str) -> CrfsuiteModel:
    """The model saved in a folder; its functions are imported where `TRUST` names them, and not before.

    Raises `ModelError`, also where one is not trusted or of another release than the model was made with.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(MODEL_FILE, FUNCTIONS_FILE))
    try:
        functions = Functions.model_validate_json((folder / FUNCTIONS_FILE).read_bytes())
        weights = _weights(folder / MODEL_FILE)
    except ValidationError as error:
        raise ModelError(f"{folder / FUNCTIONS_FILE}: {error.errors()[0]['msg']}; import the model again") from error
    except ModelFileError as error:
        raise ModelError(str(error)) from error
    if LabelSet.infer(weights.labels) != manifest.label_set:
        raise ModelError(f"{folder / MODEL_FILE}: its labels are not those of {MANIFEST}; import the model again")
    trusted = os.environ.get(TRUST, "").split(",")
    if any(function.name not in trusted for function in functions.all):
        calls = " and ".join(f"{function.name} of {function.package}" for function in functions.all)
        raise ModelError(
            f"{folder}: the model calls {calls}, code that concord does not know; "
            f"if you trust it, set {TRUST}={trust_of(functions)}"
        )
    for function in functions.all:
        there = function_named(function.name)
        if there != function:
            raise ModelError(
                f"{folder}: made with {function.package} {function.release}, but there is {there.package} "
                f"{there.release}; install that release, or import the model again"
            )
    return _model(weights, functions, manifest)


def trust_of(functions: Functions) -> str:
    """What `TRUST` has to hold for the functions."""
    return ",".join(function.name for function in functions.all)


def import_function(name: str) -> Callable[[Any], Any]:
    """The function MODULE:FUNCTION. Runs its module's code: only for what the user has named. Raises `ModelError`."""
    module, _, function = name.partition(":")
    try:
        found: Callable[[Any], Any] = attrgetter(function)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"{name}: cannot be imported ({error}); install its package, or name MODULE:FUNCTION"
        ) from error
    if not callable(found):
        raise ModelError(f"{name}: is no function; name one that takes words, or a text")
    return found


def function_named(name: str) -> NamedFunction:
    """A function with the release it comes in: what its distribution says, or the digest of its module's file.

    Raises `ModelError` for a name of another form, and for a module without either.
    """
    try:
        plain = NamedFunction(name=name, package="", release="")
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
