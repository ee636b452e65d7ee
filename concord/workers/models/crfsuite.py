"""An imported CRFsuite model: another package's model file with that package's feature function, both unchanged.

The feature function gets the words of a sentence (a list of strings) and returns for each word the features in a form
that python-crfsuite takes: strings, or values by name, nested or not. Its further parameters without a default are
names of columns of the corpus, such as ``pos``, and get lists of strings too. Where every feature depends on one word
at one offset, `workers.models.word_tables` computes the scores. The package's tokenizer may be kept as well: a function
from a text to its words.

A model of BIOES or BILOU labels has scores for where spans end, which a chain of BIO labels cannot express. Its scores
are therefore logarithms of probabilities: those that the model's own chain, over the sequences that its scheme allows,
gives to the BIO labels of each token.

Both functions are code of a package that is not concord's, so a model folder alone never gets them imported: the user
has to name them in the environment variable `TRUST`, as they are written in the folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import packages_distributions, version
from io import StringIO
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import TOKENS, Batch, Column, Document
from concord.schemas.errors import USERS_FUNCTION_RAISES, DocumentError, error_line
from concord.schemas.label_names import PADDING, WrittenLabels, has_prefix, read_label_names
from concord.schemas.labels import LabelError, Labels, LabelSet
from concord.schemas.potentials import LARGEST_WEIGHT, Potentials
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.features.derived import ColumnError
from concord.workers.inference.core.chain import marginals
from concord.workers.models.attribute_trial import FEW_KNOWN, Sentence, try_function
from concord.workers.models.crfsuite_file import CrfsuiteWeights, ModelFileError, read_crfsuite
from concord.workers.models.folder import (
    Manifest,
    ModelError,
    file_digest,
    manifest_of,
    read_manifest,
)
from concord.workers.models.saved_files import FolderModel, check_labels, saved_content
from concord.workers.models.scores import NO_LABEL, joined
from concord.workers.models.word_tables import Scored, WordTables

KIND = "crfsuite"
MODEL_FILE = "model.crfsuite"
FUNCTIONS_FILE = "features.json"
"""The `Functions`."""
TRUST = "CONCORD_TRUST"
"""Environment variable that lists the functions which models may call, as MODULE:FUNCTION, separated by commas."""

KNOWN_SHARE = "attributes_known"
"""Entry of the manifest: share of the attributes, made by the function from trial sentences, that the model knows."""
FALL = 0.75
"""Fraction of the share of an import below which a run warns."""
NO_TRAINING: Mapping[str, Any] = MappingProxyType({})

UNTRIED = "it was not tried: --no-word-tables"
MOST_UNITS = 2**50
"""Largest sum of absolute values, in units, that is exact in any order of adding, see `Scored`."""
FINENESS = 44
"""Number of binary digits, below the largest weight, to which products of values and weights are rounded."""

Features = Callable[..., Any]
WordsFunction = Callable[[str], Any]


class NamedFunction(BaseModel):
    """A function of another package, and the release that it came with.

    - ``name``: MODULE:FUNCTION.
    - ``package``: its distribution, or the module's name without one.
    - ``release``: version of the distribution, or the digest of the module's file without one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
    package: str
    release: str

    @property
    def module(self) -> str:
        """Module that the function is imported from."""
        return self.name.partition(":")[0]


class Functions(BaseModel):
    """Functions of another package that a model calls.

    - ``features``: the feature function.
    - ``tokenizer``: the function that cuts a text into words; None: concord's own tokenizer does.
    - ``columns``: token columns that the feature function reads beside the words, by the names of its parameters.
    - ``scheme``: ``plain`` if each label is a type by itself, whatever its name looks like.
    - ``departure``: why word tables cannot replace the feature function, see `word_tables.departure`; empty if they
      can.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: NamedFunction
    tokenizer: NamedFunction | None = None
    columns: tuple[str, ...] = ()
    scheme: Literal["auto", "plain"] = "auto"
    departure: str = ""

    @property
    def all(self) -> tuple[NamedFunction, ...]:
        """All functions that the user has to trust."""
        return (self.features,) if self.tokenizer is None else (self.features, self.tokenizer)


@dataclass(frozen=True, eq=False)
class CrfsuiteModel(FolderModel):
    """A CRFsuite model: the weights of its file, the feature function, and a tokenizer if it has one.

    Rounding: products of values and weights are rounded to multiples of a unit, so that their sums are the same in any
    order. The unit is 2^−`FINENESS` of the least power of two that no weight exceeds. python-crfsuite's sums differ by
    at most half a unit for each attribute, and by python-crfsuite's own rounding.

    Labels: the file has K labels, the label set L. Labels that only complete the label set score −inf, and so does the
    transition from or to a label of padding, which is not in the label set.
    """

    labels: LabelSet
    weights: CrfsuiteWeights
    functions: Functions
    features: Features
    words: WordsFunction | None
    manifest: Manifest

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that the feature function reads."""
        return (TOKENS, *self.functions.columns)

    def potentials(self, batch: Batch) -> Potentials:
        """Local scores of a whole batch: unary (N, L) in nats, without the label set's legality.

        Raises `DocumentError` where the feature function fails on a sentence, or the model allows no labels for it.
        """
        if self._names.marks_ends:
            return self._in_bio(batch)
        own = np.flatnonzero(self._ids != NO_LABEL)
        size, ids = len(self.labels), self._ids[own]
        unary, transition = np.full((batch.token_count, size), -np.inf), np.zeros((size, size))
        if len(own) == len(self._ids):
            self._fill(batch, unary, ids)
        else:
            unary[:, ids] = self._own_scores(batch)[:, own]
        transition[np.ix_(ids, ids)] = self.weights.transition[np.ix_(own, own)]
        return Potentials(unary, transition, batch.sentence_starts)

    def _in_bio(self, batch: Batch) -> Potentials:
        """Log-probabilities of BIO labels by the chain of a model of BIOES or BILOU labels."""
        chain = end_marking_chain(self._own_scores(batch), self.weights, batch.sentence_bounds)
        try:
            probability = marginals(chain)
        except ValueError as error:
            raise DocumentError(f"the model's labels allow none of its sentences: {error}") from error
        with np.errstate(divide="ignore"):
            unary = joined(np.log(probability), self._ids, len(self.labels))
        size = len(self.labels)
        return Potentials(unary, np.zeros((size, size)), batch.sentence_starts)

    def _own_scores(self, batch: Batch) -> Floats:
        """(N, K) scores of the file's labels."""
        scores = np.full((batch.token_count, len(self.weights.labels)), -np.inf)
        self._fill(batch, scores, np.arange(len(self.weights.labels), dtype=np.int32))
        return scores

    def _fill(self, batch: Batch, unary: Floats, ids: Labels) -> None:
        """Writes the scores of label k of the file to unary[:, ids[k]]. Raises `ColumnError` for a missing column."""
        missing = [name for name in self.columns if name not in batch.columns]
        if missing:
            raise ColumnError(f"there is no column {missing[0]!r}, which {self.functions.features.name} asks for")
        if self._tables is None:
            for first, last in pairwise(batch.sentence_bounds.tolist()):
                sentence = {name: batch.columns[name][first:last].strings() for name in self.columns}
                unary[first:last, ids] = self.scored_beside(sentence).sums
        elif batch.token_count:
            self._look_up(self._tables, batch.columns[TOKENS], batch.sentence_bounds, unary, ids)

    @property
    def tokenizer(self) -> OwnTokenizer | None:
        """Tokenizer that cuts raw text for this model; None: concord's own."""
        named = self.functions.tokenizer
        return None if named is None or self.words is None else OwnTokenizer(named.name, self.words)

    def _look_up(self, tables: WordTables, words: Column, bounds: Ints, unary: Floats, columns: Labels) -> None:
        """Writes the scores of all sentences to ``unary`` (N, L): from word tables, or by the function where tables
        cannot score a sentence.

        Raises `ModelError` where a spot check finds that the function departs from the tables.
        """
        used = np.flatnonzero(np.bincount(words.codes, minlength=len(words.values)))
        word = np.zeros(len(words.values), np.int64)
        word[used] = tables.ids([words.values[code] for code in used.tolist()])
        ids = word[words.codes]
        unknown, checked = tables.fill(ids, bounds, unary, columns.astype(np.int64))
        for s in np.flatnonzero(unknown | checked).tolist():
            first, last = bounds[s], bounds[s + 1]
            sentence = words[first:last].strings()
            if unknown[s]:
                unary[first:last, columns] = self.scored(sentence).sums
            elif (self.scored(sentence).sums != unary[first:last, columns]).any():
                raise ModelError(
                    f"{self.functions.features.name}: features of a word depend on more than its neighbours, as in "
                    f"{' '.join(sentence)!r}; import the model again with --no-word-tables"
                )

    def attributes_of(self, sentence: Sentence) -> list[list[tuple[str, float]]]:
        """Attributes (name, value) of each word of a sentence. Raises `DocumentError` where the feature function fails
        or does not return one set of features for each word."""
        name, words = self.functions.features.name, list(sentence[TOKENS])
        beside = {column: list(sentence[column]) for column in self.functions.columns}
        try:
            with redirect_stdout(StringIO()):  # what it prints is not the command's answer
                given = self.features(words, **beside)
            if isinstance(given, dict):
                raise DocumentError(f"{name} gave the features of one token; let it return a list, an item for each")
            items = [attributes(item) for item in given]
        except DocumentError:
            raise
        except USERS_FUNCTION_RAISES as error:
            raise DocumentError(f"{name} cannot take it: {error_line(error)}") from error
        if len(items) != len(words):
            raise DocumentError(f"{name} gave {len(items)} sets of features for {len(words)} tokens")
        return items

    def scored(self, words: Sequence[str]) -> Scored:
        """Summed weights of the attributes of each word of a sentence without other columns, see `scored_beside`."""
        return self.scored_beside({TOKENS: words})

    def scored_beside(self, sentence: Sentence) -> Scored:
        """Summed weights of the attributes of each word of a sentence. Raises as `attributes_of`."""
        items = self.attributes_of(sentence)
        known = self.rows.get
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
        return self._sums(len(items), np.array(places, np.int64), np.array(rows, np.int64), np.array(values))

    def _sums(self, size: int, place: Ints, row: Ints, value: Floats) -> Scored:
        """Sums of weight · value by token and label, where token place[i] has attribute row[i] with value[i]."""
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
        """Unit of rounding in nats, a power of two: all products of values and weights are multiples of it."""
        _, exponent = math.frexp(float(np.abs(self.weights.weight).max(initial=1.0)))
        return math.ldexp(1.0, exponent - FINENESS)

    @cached_property
    def _tables(self) -> WordTables | None:
        """Word tables of this process; None where the feature function needs the whole sentence."""
        return None if self.functions.departure else WordTables(self.scored, len(self.weights.labels))

    @property
    def marks_ends(self) -> bool:
        """Are the file's labels of BIOES or BILOU, so that scores are log-probabilities of BIO labels?"""
        return self._names.marks_ends

    @property
    def padding(self) -> tuple[str, ...]:
        """The file's labels that no token can have."""
        return self._names.padding

    def misfit(self, documents: Sequence[Document]) -> str:
        """Says where the model knows fewer of the attributes of these documents than of those of its import."""
        trial = try_function(self.attributes_of, self.rows, sentences_of(documents, self.columns))
        before = float(self.manifest.training.get(KNOWN_SHARE, 1.0))
        if not trial.made or trial.share >= min(FEW_KNOWN, FALL * before):
            return ""
        weak = ", ".join(f"{family.name}: {family.known} of {family.values} values" for family in trial.weak[:3])
        return (
            f"of the attributes that {self.functions.features.name} makes of the first {len(documents)} documents, the "
            f"model knows {trial.share:.0%} ({before:.0%} at its import; {weak}): its labels mean little there"
        )

    @cached_property
    def _names(self) -> WrittenLabels:
        """The file's labels as they were read."""
        return label_names(self.weights, self.functions)

    @cached_property
    def _ids(self) -> Labels:
        """(K,) id in the label set for each of the file's labels, `NO_LABEL` for padding."""
        index = self.labels.index
        return np.array([index[name] if name else NO_LABEL for name in self._names.written], np.int32)

    @cached_property
    def rows(self) -> dict[str, int]:
        """Number of each attribute of the model."""
        return {name: row for row, name in enumerate(self.weights.attributes)}

    @cached_property
    def _by_attribute(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        """Arrays ``start``, ``target`` and ``weight``: attribute a gives weight[k] nats to label target[k], for each k
        in start[a]:start[a + 1]."""
        order = np.argsort(self.weights.source, kind="stable")
        start = np.searchsorted(self.weights.source[order], np.arange(len(self.weights.attributes) + 1))
        return start, self.weights.target[order], self.weights.weight[order]


def attributes(item: Any, prefix: str = "") -> list[tuple[str, float]]:
    """Attributes (name, value) of one word, as python-crfsuite makes them from strings or from values by name.

    An attribute may come twice: python-crfsuite's tagger adds both up, though its `ItemSequence` does not show how
    often each occurs. ``prefix`` is put before each name. Raises `TypeError` and `ValueError` for anything else.
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


def columns_asked(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    """Names of the parameters of a feature function behind the words that have no default: columns of the corpus.

    Raises `ModelError` where such a parameter cannot be given by name.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()  # a function of C shows none, and is called with the words alone
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    asked = [p for p in parameters[1:] if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    unnamed = [p.name for p in asked if p.kind not in named]
    if unnamed:
        raise ModelError(f"{name}: its parameter {unnamed[0]!r} cannot be given by name; write a function around it")
    return tuple(p.name for p in asked)


def sentences_of(documents: Iterable[Document], columns: Sequence[str]) -> Iterator[Sentence]:
    """Token columns of each sentence."""
    for document in documents:
        bounds = [*document.sentence_starts.tolist(), len(document)]
        for first, last in pairwise(bounds):
            yield {name: document.columns[name][first:last].strings() for name in columns}


def label_names(weights: CrfsuiteWeights, functions: Functions) -> WrittenLabels:
    """The file's labels as they are read. Raises `ModelError` where they are of no scheme."""
    try:
        return read_label_names(weights.labels, plain=functions.scheme == "plain", padding=True)
    except LabelError as error:
        raise ModelError(str(error)) from error


def end_marking_chain(scores: Floats, weights: CrfsuiteWeights, bounds: Ints) -> Potentials:
    """Potentials of labels of BIOES or BILOU, with −inf for all sequences that the scheme does not allow.

    - ``scores`` (N, K): nats of the file's labels.
    - ``bounds`` (S + 1,): sentence s is bounds[s] up to bounds[s + 1].

    A label that opens a span or goes on with it and does not end it is followed by one that goes on with the same type.
    """
    kinds = [name[2:] if has_prefix(name) else "" for name in weights.labels]
    is_open = np.array([has_prefix(name) and name[0] in "BI" for name in weights.labels])
    goes_on = np.array([has_prefix(name) and name[0] in "IEL" for name in weights.labels])
    padding = np.array([bool(PADDING.fullmatch(name)) for name in weights.labels])
    same = np.array([[a == b for b in kinds] for a in kinds])
    legal = np.where(is_open[:, None], goes_on[None, :] & same, ~goes_on[None, :])
    unary = np.where(padding, -np.inf, scores)
    unary[np.ix_(bounds[:-1], goes_on)] = -np.inf
    unary[np.ix_(bounds[1:] - 1, is_open)] = -np.inf
    return Potentials(unary, np.where(legal, weights.transition, -np.inf), bounds[:-1])


def manifest_over(
    out: Path,
    weights: CrfsuiteWeights,
    functions: Functions,
    files: Sequence[str],
    training: Mapping[str, Any] = NO_TRAINING,
) -> Manifest:
    """Manifest of a model whose ``files`` were written into a folder. Raises `ModelError` for labels of no scheme."""
    labels = label_names(weights, functions).label_set
    return manifest_of(out, KIND, labels, files=files, training=training, libraries=("numpy", "python-crfsuite"))


def with_functions(weights: CrfsuiteWeights, functions: Functions, manifest: Manifest) -> CrfsuiteModel:
    """Imports the functions, which the user must have named before. Raises `ModelError`."""
    features = import_function(functions.features.name)
    words = None if functions.tokenizer is None else import_function(functions.tokenizer.name)
    return CrfsuiteModel(manifest.label_set, weights, functions, features, words, manifest)


def load(folder: Path | str) -> CrfsuiteModel:
    """CRFsuite model of a folder; its functions are imported only if the user names them in `TRUST`.

    Raises `ModelError` where the folder is damaged, a function is not trusted, or a function is of another release than
    the model was made with.
    """
    folder = Path(folder)
    manifest = read_manifest(folder, kind=KIND, files=(MODEL_FILE, FUNCTIONS_FILE))
    functions = saved_content(folder / FUNCTIONS_FILE, Functions)
    try:
        weights = weights_in(folder / MODEL_FILE)
    except ModelFileError as error:
        raise ModelError(str(error)) from error
    check_labels(folder / MODEL_FILE, label_names(weights, functions).label_set, manifest)
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
    return with_functions(weights, functions, manifest)


def trust_of(functions: Functions) -> str:
    """Value of `TRUST` that allows these functions."""
    return ",".join(function.name for function in functions.all)


def import_function(name: str) -> Callable[[Any], Any]:
    """Imports the function MODULE:FUNCTION. This runs its module's code, so only do it for a function that the user has
    named. Raises `ModelError` where it cannot be imported or called."""
    module, _, function = name.partition(":")
    try:
        found: Callable[[Any], Any] = attrgetter(function)(importlib.import_module(module))
    except ModuleNotFoundError as error:
        raise ModelError(_without_module(name, error.name or module)) from error
    except (ImportError, AttributeError) as error:
        raise ModelError(
            f"{name}: cannot be imported ({error}); install its package, or name MODULE:FUNCTION"
        ) from error
    except USERS_FUNCTION_RAISES as error:
        raise ModelError(f"{name}: its module ends with {error_line(error)}") from error
    if not callable(found):
        raise ModelError(f"{name}: is no function; name one that takes words, or a text")
    return found


def _without_module(name: str, missing: str) -> str:
    """Why a function cannot be imported for want of a module, its own or another one, and what to do."""
    module = name.partition(":")[0]
    if f"{module}.".startswith(f"{missing}."):
        remedy = "install its package, or, for a file of your own, `export PYTHONPATH=` with the path of its folder"
        return f"{name}: there is no module {missing!r}; {remedy}"
    return f"{name}: needs the module {missing!r}, which is not there; install that, too"


def function_named(name: str) -> NamedFunction:
    """A function's name with its release: the version of its distribution, or else the digest of its module's file.

    Raises `ModelError` where the name is not MODULE:FUNCTION, or the module has neither distribution nor file.
    """
    try:
        plain = NamedFunction(name=name, package="", release="")
    except ValidationError as error:
        raise ModelError(f"{name}: want MODULE:FUNCTION, such as usaddress:tokens2features") from error
    top = plain.module.partition(".")[0]
    for package in packages_distributions().get(top, []):
        return plain.model_copy(update={"package": package, "release": version(package)})
    try:
        spec = importlib.util.find_spec(plain.module)
    except ModuleNotFoundError as error:
        raise ModelError(_without_module(name, error.name or plain.module)) from error
    if spec is None:
        raise ModelError(_without_module(name, plain.module))
    if spec.origin is None or not Path(spec.origin).is_file():
        raise ModelError(f"{name}: its module has no file and is of no package, so that its release cannot be told")
    return plain.model_copy(update={"package": plain.module, "release": file_digest(Path(spec.origin))})


def weights_in(path: Path) -> CrfsuiteWeights:
    """Weights of a CRFsuite file. Raises `ModelFileError`, also where a weight is beyond `LARGEST_WEIGHT` or there are
    no labels."""
    weights = read_crfsuite(path)
    if not np.abs(np.concatenate([weights.weight, weights.transition.ravel()])).max(initial=0.0) <= LARGEST_WEIGHT:
        raise ModelFileError(f"{path}: a weight is beyond {LARGEST_WEIGHT:g} nats")
    if not weights.labels:
        raise ModelFileError(f"{path}: has no labels")
    return weights
