"""A CRF with scikit-learn's interface, on sequences as lists of lists.

    from concord.sklearn import CRF

    crf = CRF(c2=0.1).fit([[{"word": "Ann"}, {"word": "ran"}]], [["B-PER", "O"]])
    crf.predict([[{"word": "Ann"}]])

A sequence is a list with the features of each token, as python-crfsuite takes them: strings, or values by name. Its
labels are a list of strings. It trains by python-crfsuite, like ``concord train --trainer crfsuite``, and is decoded by
concord's own chains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pycrfsuite
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.workers.inference.core.chain import marginals, viterbi
from concord.workers.models.crfsuite import attributes
from concord.workers.models.crfsuite_file import CrfsuiteWeights, read_crfsuite

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")
"""Training algorithms of CRFsuite."""
PRIORS = {"lbfgs": ("c1", "c2"), "l2sgd": ("c2",)}
"""Parameters of regularisation that each algorithm takes."""

SequenceFeatures = Sequence[Any]
"""Features of each token of a sequence."""


class CRF(BaseEstimator):  # type: ignore[misc]
    """A linear-chain CRF.

    - ``algorithm``: one of `ALGORITHMS`
    - ``c1``, ``c2``: weights of the L1 and L2 regularisation (``lbfgs``; ``l2sgd`` has c2 only)
    - ``max_iterations``: largest number of iterations; None for CRFsuite's own
    - ``min_freq``: smallest number of occurrences of a feature
    - ``all_possible_transitions``, ``all_possible_states``: features that training never saw, too?
    - ``verbose``: print CRFsuite's log of the training?
    - ``model_filename``: path at which `fit` writes the model file of CRFsuite, too; None for nowhere
    - ``keep_tempfiles``: for code that has used sklearn-crfsuite; `fit` leaves no temporary file, and none is needed

    After `fit` it has ``classes_`` (L,), the labels, sorted; ``transition_`` (L, L), nats, from row to column; and
    ``feature_names_`` (A,).
    """

    def __init__(
        self,
        *,
        algorithm: str = "lbfgs",
        c1: float = 0.0,
        c2: float = 1.0,
        max_iterations: int | None = None,
        min_freq: float = 0.0,
        all_possible_transitions: bool = False,
        all_possible_states: bool = False,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
    ) -> None:
        self.algorithm = algorithm
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.min_freq = min_freq
        self.all_possible_transitions = all_possible_transitions
        self.all_possible_states = all_possible_states
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles

    def fit(self, X: Sequence[SequenceFeatures], y: Sequence[Sequence[str]]) -> Self:  # noqa: N803 — scikit-learn's names
        """Trains on sequences and the labels of their tokens. Raises `ValueError` where these do not fit each other,
        where there are no tokens, for a value that is no finite number, and for a name with a NUL.

        >>> CRF().fit([["Ann", "ran"]], [["PER", "O"]]).classes_.tolist()
        ['O', 'PER']
        """
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"algorithm {self.algorithm!r}: want one of {', '.join(ALGORITHMS)}")
        trainer = pycrfsuite.Trainer(algorithm=self.algorithm, verbose=self.verbose)
        trainer.set_params(self._crfsuite_params())
        tokens = 0
        for items, labels in _pairs(X, y):
            _check_names(chain(labels, (name for item in items for name, _ in item)))
            tokens += len(items)
            if len(items):
                trainer.append(pycrfsuite.ItemSequence([dict(item) for item in items]), labels)
        if not tokens:
            raise ValueError("no tokens to learn from: all sequences are empty")
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.crfsuite"
            trainer.train(str(path))
            weights, self._file = read_crfsuite(path), path.read_bytes()
        if self.model_filename is not None:
            Path(self.model_filename).write_bytes(self._file)
        order = np.argsort(np.array(weights.labels, dtype=object))
        rank = np.argsort(order)
        self.classes_ = np.array(weights.labels, dtype=object)[order]
        self.transition_ = weights.transition[np.ix_(order, order)]
        self.feature_names_ = np.array(weights.attributes, dtype=object)
        self._states = _States.of(weights, rank)
        return self

    def predict(self, X: Sequence[SequenceFeatures]) -> list[list[str]]:  # noqa: N803
        """The best labels of each sequence under the model.

        >>> CRF().fit([["Ann", "ran"]], [["PER", "O"]]).predict([["Ann"], []])
        [['PER'], []]
        """
        names: list[list[str]] = []
        for potentials in self._potentials(X):
            labels: Labels = viterbi(potentials) if len(potentials.unary) else np.zeros(0, np.int32)
            names.append(self.classes_[labels].tolist())
        return names

    def predict_single(self, xseq: SequenceFeatures) -> list[str]:
        """The best labels of one sequence.

        >>> CRF().fit([["Ann", "ran"]], [["PER", "O"]]).predict_single(["Ann"])
        ['PER']
        """
        return self.predict([xseq])[0]

    def predict_marginals_single(self, xseq: SequenceFeatures) -> list[dict[str, float]]:
        """The probability of each label of each token of one sequence.

        >>> sorted(CRF().fit([["Ann", "ran"]], [["PER", "O"]]).predict_marginals_single(["Ann"])[0])
        ['O', 'PER']
        """
        return self.predict_marginals([xseq])[0]

    @property
    def tagger_(self) -> pycrfsuite.Tagger:
        """CRFsuite's own tagger with the trained model, opened anew at each call."""
        check_is_fitted(self)
        tagger = pycrfsuite.Tagger()
        tagger.open_inmemory(self._file)
        return tagger

    @property
    def transition_features_(self) -> dict[tuple[str, str], float]:
        """Weights in nats of the transitions that the model has, by the labels before and after.

        >>> CRF().fit([["Ann", "ran"]] * 9, [["PER", "O"]] * 9).transition_features_.keys()
        dict_keys([('PER', 'O')])
        """
        weights: dict[tuple[str, str], float] = self.tagger_.info().transitions
        return weights

    @property
    def state_features_(self) -> dict[tuple[str, str], float]:
        """Weights in nats of the features that the model has, by feature and label.

        >>> sorted(CRF().fit([["Ann", "ran"]] * 9, [["PER", "O"]] * 9).state_features_)
        [('Ann', 'PER'), ('ran', 'O')]
        """
        weights: dict[tuple[str, str], float] = self.tagger_.info().state_features
        return weights

    @property
    def attributes_(self) -> list[str]:
        """The features of the model.

        >>> CRF().fit([["Ann", "ran"]], [["PER", "O"]]).attributes_
        ['Ann', 'ran']
        """
        check_is_fitted(self)
        names: list[str] = self.feature_names_.tolist()
        return names

    def predict_marginals(self, X: Sequence[SequenceFeatures]) -> list[list[dict[str, float]]]:  # noqa: N803
        """The probability of each label of each token, under the model.

        >>> found = CRF().fit([["Ann", "ran"]], [["PER", "O"]]).predict_marginals([["Ann"]])
        >>> sorted(found[0][0])
        ['O', 'PER']
        """
        names = self._names()
        return [
            [dict(zip(names, row, strict=True)) for row in (marginals(p).tolist() if len(p.unary) else [])]
            for p in self._potentials(X)
        ]

    def score(self, X: Sequence[SequenceFeatures], y: Sequence[Sequence[str]]) -> float:  # noqa: N803
        """The share of tokens with the right label. Raises `ValueError` as `fit`, and for no tokens.

        >>> CRF().fit([["Ann", "ran"]], [["PER", "O"]]).score([["Ann"]], [["PER"]])
        1.0
        """
        gold = [labels for _, labels in _pairs(X, y)]
        right = total = 0
        for labels, predicted in zip(gold, self.predict(X), strict=True):
            right += sum(a == b for a, b in zip(labels, predicted, strict=True))
            total += len(labels)
        if not total:
            raise ValueError("no tokens to score")
        return right / total

    def __sklearn_tags__(self) -> Any:
        """Sequences of features are no numbers in two dimensions."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.input_tags.dict = True
        tags.target_tags.required = True
        tags.non_deterministic = self.algorithm == "l2sgd"
        return tags

    def _crfsuite_params(self) -> dict[str, Any]:
        params: dict[str, Any] = {
            "feature.minfreq": self.min_freq,
            "feature.possible_transitions": self.all_possible_transitions,
            "feature.possible_states": self.all_possible_states,
            **{name: getattr(self, name) for name in PRIORS.get(self.algorithm, ())},
        }
        if self.max_iterations is not None:
            params["max_iterations"] = self.max_iterations
        return params

    def _names(self) -> list[str]:
        check_is_fitted(self)
        names: list[str] = self.classes_.tolist()
        return names

    def _potentials(self, X: Sequence[SequenceFeatures]) -> Iterator[Potentials]:  # noqa: N803
        width = len(self._names())
        for items in map(_items, _sequences(X)):
            unary = self._states.scores(items, width)
            starts = np.zeros(1 if len(items) else 0, np.int64)
            yield Potentials(unary, self.transition_, starts)


class _States(NamedTuple):
    """Weights of features: feature f gives weight[k] nats to label target[k], for each k in start[f]:start[f + 1]."""

    rows: Mapping[str, int]
    start: NDArray[np.int64]
    target: NDArray[np.int64]
    weight: Floats

    @classmethod
    def of(cls, weights: CrfsuiteWeights, rank: NDArray[np.int64]) -> _States:
        """Of a model file whose label i has the place rank[i]."""
        order = np.argsort(weights.source, kind="stable")
        start = np.searchsorted(weights.source[order], np.arange(len(weights.attributes) + 1))
        rows = {name: row for row, name in enumerate(weights.attributes)}
        return cls(rows, start, rank[weights.target[order]], weights.weight[order])

    def scores(self, items: Sequence[list[tuple[str, float]]], width: int) -> Floats:
        """(N, L) nats of the features of N tokens; those that training did not see count nothing."""
        pairs = [
            (t, self.rows[name], value) for t, item in enumerate(items) for name, value in item if name in self.rows
        ]
        place, row = (np.array([pair[k] for pair in pairs], np.int64) for k in (0, 1))
        value = np.array([pair[2] for pair in pairs], np.float64)
        counts = self.start[row + 1] - self.start[row]
        ends = np.cumsum(counts)
        entry = np.arange(counts.sum()) + np.repeat(self.start[row] - ends + counts, counts)
        unary = np.zeros((len(items), width))
        np.add.at(unary, (np.repeat(place, counts), self.target[entry]), np.repeat(value, counts) * self.weight[entry])
        return unary


def _sequences(X: Iterable[Any]) -> list[Any]:  # noqa: N803
    """The sequences. Raises `ValueError` for what is no list of sequences."""
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise ValueError(
            f"want a list of sequences, each a list with the features of each token, not {type(X).__name__}"
        )
    return list(X)


def _items(sequence: Any) -> list[list[tuple[str, float]]]:
    """Features and values of each token. Raises `ValueError` for another form."""
    if isinstance(sequence, str | bytes | Mapping) or not hasattr(sequence, "__iter__"):
        raise ValueError(f"want a sequence as a list with the features of each token, not {sequence!r:.40}")
    try:
        return [_summed(attributes([item] if isinstance(item, str | bytes) else item)) for item in sequence]
    except TypeError as error:
        raise ValueError(f"features of a token must be strings, or values by name: {error}") from error


def _summed(pairs: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Each feature once, with the sum of its values. Raises `ValueError` for a sum that is no finite number."""
    sums: dict[str, float] = {}
    for name, value in pairs:
        sums[name] = sums.get(name, 0.0) + value
        if not math.isfinite(sums[name]):
            raise ValueError(f"feature {name!r} has the value {sums[name]}; give a finite number")
    return list(sums.items())


def _check_names(names: Iterable[str]) -> None:
    """Raises `ValueError` for a label or feature with a NUL: CRFsuite's names end there, and two would be one."""
    for name in names:
        if "\0" in name:
            raise ValueError(f"{name!r} has a NUL, at which CRFsuite ends a name; leave it out")


def _pairs(
    rows: Sequence[SequenceFeatures], y: Sequence[Sequence[str]]
) -> Iterator[tuple[list[list[tuple[str, float]]], list[str]]]:
    """Sequences with their labels. Raises `ValueError` where their numbers differ, or a label is no string."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: a list of labels for each sequence")
    sequences, labels = _sequences(rows), [list(row) if hasattr(row, "__iter__") else [row] for row in _sequences(y)]
    if len(sequences) != len(labels):
        raise ValueError(f"{len(sequences)} sequences, and labels of {len(labels)}")
    if not sequences:
        raise ValueError("no sequences to learn from")
    for number, (sequence, row) in enumerate(zip(sequences, labels, strict=True)):
        items = _items(sequence)
        if len(items) != len(row):
            raise ValueError(f"sequence {number} has {len(items)} tokens, and {len(row)} labels")
        wrong = [label for label in row if not isinstance(label, str)]
        if wrong:
            raise ValueError(f"sequence {number}: label {wrong[0]!r} is no string")
        yield items, row
