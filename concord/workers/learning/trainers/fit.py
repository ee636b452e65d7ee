"""Steps of fitting a CRF before and after its optimiser: training data, the starting point, and the saved model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ids, Mask
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import LARGEST_WEIGHT
from concord.schemas.settings import TrainerSettings
from concord.workers.features.derived import needed_columns
from concord.workers.features.incidence import Attributes, Family, Incidence, incidence, pair_incidence
from concord.workers.features.scorer import FeatureWeights
from concord.workers.features.templates import FeatureSet, vector_templates
from concord.workers.learning.estimation.chains import FeatureRules, GoldChains, TrainingChains
from concord.workers.learning.estimation.token_vectors import TokenVectors, word_scores
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.learning.trainers.trainer import TrainingCounts, gold_of
from concord.workers.models.attribute_names import ATTRIBUTES_FILE, PAIR_ATTRIBUTES_FILE, read_names, write_names
from concord.workers.models.crf import CrfModel, LearnedCrf, load, save
from concord.workers.models.end_marks import EndMarks
from concord.workers.models.folder import Manifest, begin
from concord.workers.models.settings import ChainLabelSettings, FeatureSettings, FittingSettings


class TrainingBatch(NamedTuple):
    """Documents to learn from, as a batch with the columns that the features read.

    - ``features``: feature templates.
    - ``training``: entries for the manifest.
    - ``labels``: the label set.
    """

    features: FeatureSet
    training: dict[str, Any]
    batch: Batch
    labels: LabelSet
    order: Ids
    """Ids in ``labels`` of the labels that occur, ascending."""

    @classmethod
    def of(
        cls, documents: Iterable[Document], *, settings: FeatureSettings, trainer: str, beside: Iterable[Document] = ()
    ) -> TrainingBatch:
        """Reads all documents. Raises `TrainingError`, and `FeatureSetError` for features that are not there.

        - ``beside``: documents whose labels and attributes belong to the model, too, and that count for nothing else.
        """
        given = list(documents)
        features = features_of(settings, given)
        columns = needed_columns(features)
        counts, texts = TrainingCounts(columns), []
        for document in given:
            counts.gold(document)
            texts.append(replace(document, columns={name: document.columns[name] for name in columns}))
        for document in beside:
            counts.names.update(gold_of(document))
            texts.append(replace(document, columns={name: document.columns[name] for name in columns}))
        training = counts.training(trainer, settings)
        labels = counts.label_set()
        return cls(features, training, Batch.of(texts), labels, np.sort(labels.encode(sorted(counts.names))))


@dataclass(frozen=True, eq=False)
class Fitting:
    """Training data of a CRF, with the names behind its numbers.

    - ``features``: feature templates.
    - ``settings``: the trainer's settings.
    - ``training``: entries for the manifest.
    - ``attributes``: the attributes by number.
    - ``chains``: features and gold labels of all tokens.
    - ``labels``: the label set.
    - ``order`` (L,): id in ``names`` of each label of the chains.
    - ``vectors``: word vectors of the tokens; a trainer moves their weights, which are 0 before, in place.
    - ``pair_attributes``: the attributes of pairs of labels by number.
    - ``marks``: BILOU labels that stand for those of the label set; None where these are the chains' own.
    """

    features: FeatureSet
    settings: FittingSettings
    training: dict[str, Any]
    attributes: Attributes
    chains: TrainingChains
    labels: LabelSet
    order: Ids
    vectors: TokenVectors
    pair_attributes: Attributes
    marks: EndMarks | None = None

    @classmethod
    def of(
        cls, documents: Iterable[Document], *, settings: FittingSettings, trainer: str, beside: Iterable[Document] = ()
    ) -> Fitting:
        """Reads all documents, as `TrainingBatch.of`."""
        features, training, batch, labels, order = TrainingBatch.of(
            documents, settings=settings, trainer=trainer, beside=beside
        )
        marks = marks_of(settings, labels)
        found, pairs = incidence(batch, features.without_vectors), pair_incidence(batch, features)
        rules = FeatureRules(settings.min_freq, settings.all_possible_states, settings.all_possible_transitions)
        inner = order if marks is None else marks.possible(order)
        check_size(pairs, len(inner))
        chains = TrainingChains.of(found, _gold(batch, labels, inner, marks), rules, pairs)
        vectors = _token_vectors(features, batch, len(inner))
        attributes = found.attributes, pairs.attributes
        return cls(features, settings, training, attributes[0], chains, labels, inner, vectors, attributes[1], marks)

    def start(self, out: Path) -> Floats:
        """Starting point (size,): zeros, or the weights of an earlier model. Makes the folder of the new model.

        Raises `ModelError` where the earlier model cannot be read.
        """
        start = np.zeros(self.chains.size) if self.settings.start_from is None else self._earlier()
        begin(out)
        return start

    def _earlier(self) -> Floats:
        folder = Path(str(self.settings.start_from)).expanduser()
        model = load(folder)
        self.training["start_from"] = model.digest
        # Labels and attributes that the earlier model does not know start at 0.
        column = np.array([model.names.index(name) if name in model.names else -1 for name in self._names])
        transition = np.pad(model.transition, (0, 1))
        states = _dense(folder, model.manifest, ATTRIBUTES_FILE, model.weights, self.attributes, len(model.names))
        weights = self.chains.of_states(states[:, column])._replace(transitions=transition[np.ix_(column, column)])
        if model.pairs is not None and len(self.pair_attributes):
            size = len(model.names)
            of_pairs = model.manifest, PAIR_ATTRIBUTES_FILE, model.pairs, self.pair_attributes, size * size
            # The column after the last is 0: pairs of which a label is new begin there.
            place = np.where((column[:, None] < 0) | (column < 0), size * size, column[:, None] * size + column)
            weights = weights._replace(pairs=_dense(folder, *of_pairs)[:, place.ravel()])
        return self.chains.point(weights)

    @property
    def _names(self) -> list[str]:
        names = self.labels.names if self.marks is None else self.marks.names
        return [names[i] for i in self.order.tolist()]

    def save(self, out: Path, point: Floats, *, beside: Sequence[str] = (), **figures: float) -> CrfModel:
        """The model of a point (size,), and of the weights of the vectors, saved as a folder.

        ``beside`` are further files of the folder, ``figures`` of its training go into the manifest. Raises
        `TrainingError` where a weight is too large, or a weight or figure is not finite, and the errors of
        `workers.models.crf.save`.
        """
        weights = self.chains.weights(point)
        if not all(map(math.isfinite, figures.values())):
            raise TrainingError(GREW)
        of_pairs = self.chains.pairs
        chain = LearnedChain(
            self.features,
            self.labels,
            self.order,
            self.attributes,
            weights.states,
            weights.transitions,
            self.marks,
            PairWeights(self.pair_attributes, weights.pairs, of_pairs.states[of_pairs.class_of]),
        )
        states = self.chains.states[self.chains.class_of]
        if self.features.vectors is not None:
            by_word = word_scores(self.features.vectors.points, self.vectors.weights)
            chain, states = _with_vectors(chain, states, by_word)
        return save_learned(
            out, chain, settings=self.settings, training=self.training | figures, states=states, beside=beside
        )


def _dense(
    folder: Path, manifest: Manifest, names: str, weights: FeatureWeights, attributes: Attributes, width: int
) -> Floats:
    """(A, W + 1) weights that an earlier model of W labels has for attributes, in nats; 0 where it has none.

    ``names`` is the file of its attributes' names. Raises `ModelError`.
    """
    start, label, weight = weights.sparse
    earlier = read_names(folder, manifest, len(start) - 1, names)
    row = np.asarray(pc.fill_null(pc.index_in(attributes.names(), value_set=earlier), -1)).astype(np.int64)
    dense = np.zeros((len(start), width + 1))
    dense[np.repeat(np.arange(len(start) - 1), np.diff(start)), label] = weight
    by_name: Floats = dense[row]
    return by_name


MOST_PAIR_WEIGHTS = 200_000_000
"""Largest number of weights of features of pairs: 1.6 GB."""


def check_size(pairs: Incidence, width: int) -> None:
    """Raises `TrainingError` where features of pairs of so many labels would have too many weights."""
    count = len(pairs.attributes) * width * width
    if count > MOST_PAIR_WEIGHTS:
        raise TrainingError(
            f"features of pairs of labels: {len(pairs.attributes):,} attributes with {width}² pairs are {count:,} "
            f"weights, and {MOST_PAIR_WEIGHTS:,} is the most; name a set with fewer values, such as pairs:kinds"
        )


class PairWeights(NamedTuple):
    """Weights of features of pairs of labels, in nats.

    - ``attributes``: the B attributes.
    - ``weights`` (B, L · L): of each attribute with each pair, the label before first.
    - ``there`` (B, L · L): weights that there are.
    """

    attributes: Attributes
    weights: Floats
    there: Mask

    def placed(self, order: Ids, marks: EndMarks | None, missing: Mask) -> PairWeights:
        """The weights for a chain of W labels, whose labels ``order`` (L,) these L are.

        - ``marks``: BILOU labels, to which the weights are fitted, see `EndMarks.tied`; None for others.
        - ``missing`` (W,): labels that were not seen.
        """
        size, width = len(missing), len(order)
        shape = len(self.weights), size, size
        weights, there = np.zeros(shape), np.zeros(shape, np.bool_)
        place = slice(None), order[:, None], order
        weights[place], there[place] = (one.reshape(-1, width, width) for one in (self.weights, self.there))
        if marks is not None:
            weights = marks.tied(weights, missing)
            there = weights != 0.0
        return PairWeights(self.attributes, weights.reshape(-1, size * size), there.reshape(-1, size * size))


class LearnedChain(NamedTuple):
    """Weights of a CRF, in nats, with the names behind their numbers.

    - ``features``, ``labels``: feature templates, and the label set.
    - ``order`` (L,): id in ``labels``, or in the names of ``marks``, of each label of the weights.
    - ``attributes``: the A attributes.
    - ``weights`` (A, L), ``transitions`` (L, L): weights of attributes, and of pairs of labels.
    - ``marks``: see `Fitting`.
    - ``pairs``: weights of attributes of pairs of labels; None if the features have none.
    """

    features: FeatureSet
    labels: LabelSet
    order: Ids
    attributes: Attributes
    weights: Floats
    transitions: Floats
    marks: EndMarks | None = None
    pairs: PairWeights | None = None


def _token_vectors(features: FeatureSet, batch: Batch, width: int) -> TokenVectors:
    """Vectors of a batch's tokens, with weights of 0; tokens have none where the features have none."""
    if features.vectors is None:
        return TokenVectors.none(batch.token_count, width)
    return TokenVectors.of(features.vectors.rows(batch), features.vectors.points, width)


def _with_vectors(chain: LearnedChain, states: Mask, by_word: Floats) -> tuple[LearnedChain, Mask]:
    """The chain and its mask, where what vectors give (K, V, L) is the weight of an attribute for each word's row."""
    assert chain.features.vectors is not None
    offsets, words, width = by_word.shape
    templates = vector_templates(chain.features.vectors)
    rows = np.arange(words, dtype=np.int32)
    families = tuple(Family(template, (rows,)) for template in templates)
    values = chain.attributes.values | {templates[0].source: [str(row) for row in rows.tolist()]}
    whole = chain._replace(
        attributes=Attributes((*chain.attributes.families, *families), values),
        weights=np.concatenate([chain.weights, by_word.reshape(offsets * words, width)]),
    )
    return whole, np.concatenate([states, np.ones((offsets * words, width), np.bool_)])


GREW = "the weights grew beyond all numbers; give a lower rate or a higher c2"


def save_learned(
    out: Path,
    learned: LearnedChain,
    *,
    settings: TrainerSettings,
    training: dict[str, Any],
    states: Mask | None = None,
    beside: Sequence[str] = (),
) -> CrfModel:
    """Writes a CRF into a folder that `begin` has made.

    - ``states`` (A, L): weights that there are; None: all.
    - ``beside``: names of further files of the folder.

    Raises `TrainingError` where a weight is too large or no number, and the errors of `workers.models.crf.save`.
    """
    features, marks = learned.features, learned.marks
    parts = [learned.weights, learned.transitions, *([] if learned.pairs is None else [learned.pairs.weights])]
    if not all(np.abs(part).max(initial=0.0) <= LARGEST_WEIGHT for part in parts):
        raise TrainingError(GREW)
    there = np.ones(learned.weights.shape, np.bool_) if states is None else states
    attributes, weights = _compiled(features, learned.attributes, learned.weights, there, learned.order)
    size = len(learned.labels if marks is None else marks.names)
    transitions, missing = _placed(learned.transitions, learned.order, size)
    pairs = None
    if features.pairs is not None and learned.pairs is not None:
        placed = learned.pairs.placed(learned.order, marks, missing)
        of_pairs, pairs = _compiled(features.pairs, *placed, np.arange(size * size, dtype=np.int32))
        write_names(out / PAIR_ATTRIBUTES_FILE, of_pairs.names())
        beside = (*beside, PAIR_ATTRIBUTES_FILE)
    write_names(out / ATTRIBUTES_FILE, attributes.names())
    return save(
        out,
        LearnedCrf(learned.labels, features, weights, transitions, missing, marks, pairs),
        settings=settings,
        training=training,
        libraries=("numba", "pyarrow"),
        beside=(ATTRIBUTES_FILE, *beside),
    )


def _compiled(
    features: FeatureSet, attributes: Attributes, weights: Floats, there: Mask, order: Ids
) -> tuple[Attributes, FeatureWeights]:
    """The attributes that have a weight, and the weights of these for the scorer.

    - ``weights``, ``there`` (A, L): weights in nats, and which of them there are.
    - ``order`` (L,): id of each label, or pair of labels, in the model.
    """
    occurring = np.asarray(there.any(axis=1))
    start = np.concatenate([[0], np.cumsum(there[occurring].sum(axis=1))]).astype(np.int64)
    label = np.tile(order.astype(np.int32), (len(there), 1))[there]
    used = attributes.only(occurring)
    return used, used.weights(features, start, label, weights[there])


def marks_of(settings: ChainLabelSettings, labels: LabelSet) -> EndMarks | None:
    """BILOU labels that the settings ask for; None if they do not. Raises `LabelError` for plain labels."""
    return EndMarks(labels) if settings.scheme == "bilou" else None


def _gold(batch: Batch, labels: LabelSet, order: Ids, marks: EndMarks | None) -> GoldChains:
    assert batch.labels is not None
    place = np.zeros(int(order[-1]) + 1, np.int32)
    place[order] = np.arange(len(order))
    own = labels.encode(list(batch.labels.values))[batch.labels.codes]
    inner = own if marks is None else marks.marked(own, batch.sentence_starts)
    return GoldChains(batch.sentence_bounds, place[inner], len(order))


def _placed(transitions: Floats, order: Ids, size: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Transitions (size, size) of the whole label set, 0 for labels that were not seen, and a mask (size,) of these."""
    whole, missing = np.zeros((size, size)), np.ones(size, np.bool_)
    whole[np.ix_(order, order)] = transitions
    missing[order] = False
    return whole, missing
