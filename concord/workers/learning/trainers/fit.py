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
from concord.workers.features.incidence import Attributes, Family, incidence
from concord.workers.features.templates import FeatureSet, vector_templates
from concord.workers.learning.estimation.chains import FeatureRules, GoldChains, TrainingChains
from concord.workers.learning.estimation.token_vectors import TokenVectors, word_scores
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.learning.trainers.trainer import TrainingCounts
from concord.workers.models.attribute_names import ATTRIBUTES_FILE, read_names, write_names
from concord.workers.models.crf import CrfModel, LearnedCrf, load, save
from concord.workers.models.end_marks import EndMarks
from concord.workers.models.folder import begin
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
    def of(cls, documents: Iterable[Document], *, settings: FeatureSettings, trainer: str) -> TrainingBatch:
        """Reads all documents. Raises `TrainingError`, and `FeatureSetError` for features that are not there."""
        given = list(documents)
        features = features_of(settings, given)
        columns = needed_columns(features)
        counts, texts = TrainingCounts(columns), []
        for document in given:
            counts.gold(document)
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
    marks: EndMarks | None = None

    @classmethod
    def of(cls, documents: Iterable[Document], *, settings: FittingSettings, trainer: str) -> Fitting:
        """Reads all documents. Raises `TrainingError`, and `FeatureSetError` for features that are not there."""
        features, training, batch, labels, order = TrainingBatch.of(documents, settings=settings, trainer=trainer)
        marks = marks_of(settings, labels)
        found = incidence(batch, features.without_vectors)
        rules = FeatureRules(settings.min_freq, settings.all_possible_states, settings.all_possible_transitions)
        inner = order if marks is None else marks.possible(order)
        chains = TrainingChains.of(found, _gold(batch, labels, inner, marks), rules)
        vectors = _token_vectors(features, batch, len(inner))
        return cls(features, settings, training, found.attributes, chains, labels, inner, vectors, marks)

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
        row = pc.index_in(
            self.attributes.names(), value_set=read_names(folder, model.manifest, len(model.weights.start) - 1)
        )
        column = [model.names.index(name) if name in model.names else -1 for name in self._names]
        earlier = np.zeros((len(model.weights.start), len(model.names) + 1))
        start, label, weight = model.weights.sparse
        earlier[np.repeat(np.arange(len(start) - 1), np.diff(start)), label] = weight
        transition = np.pad(model.transition, (0, 1))
        rows = np.asarray(pc.fill_null(row, -1)).astype(np.int64)
        return self.chains.point(earlier[rows][:, column], transition[np.ix_(column, column)])

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
        weights, transitions = self.chains.weights(point)
        if not all(map(math.isfinite, figures.values())):
            raise TrainingError(GREW)
        chain = LearnedChain(self.features, self.labels, self.order, self.attributes, weights, transitions, self.marks)
        states = self.chains.states[self.chains.class_of]
        if self.features.vectors is not None:
            by_word = word_scores(self.features.vectors.points, self.vectors.weights)
            chain, states = _with_vectors(chain, states, by_word)
        return save_learned(
            out, chain, settings=self.settings, training=self.training | figures, states=states, beside=beside
        )


class LearnedChain(NamedTuple):
    """Weights of a CRF, in nats, with the names behind their numbers.

    - ``features``, ``labels``: feature templates, and the label set.
    - ``order`` (L,): id in ``labels``, or in the names of ``marks``, of each label of the weights.
    - ``attributes``: the A attributes.
    - ``weights`` (A, L), ``transitions`` (L, L): weights of attributes, and of pairs of labels.
    - ``marks``: see `Fitting`.
    """

    features: FeatureSet
    labels: LabelSet
    order: Ids
    attributes: Attributes
    weights: Floats
    transitions: Floats
    marks: EndMarks | None = None


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
    largest = max(np.abs(learned.weights).max(initial=0.0), np.abs(learned.transitions).max())
    if not largest <= LARGEST_WEIGHT:
        raise TrainingError(GREW)
    there = np.ones(learned.weights.shape, np.bool_) if states is None else states
    occurring = np.asarray(there.any(axis=1))
    start = np.concatenate([[0], np.cumsum(there[occurring].sum(axis=1))]).astype(np.int64)
    label = np.tile(learned.order.astype(np.int32), (len(there), 1))[there]
    attributes, marks = learned.attributes.only(occurring), learned.marks
    write_names(out / ATTRIBUTES_FILE, attributes.names())
    model = LearnedCrf(
        learned.labels,
        learned.features,
        attributes.weights(learned.features, start, label, learned.weights[there]),
        *_placed(learned.transitions, learned.order, len(learned.labels if marks is None else marks.names)),
        marks,
    )
    return save(
        out,
        model,
        settings=settings,
        training=training,
        libraries=("numba", "pyarrow"),
        beside=(ATTRIBUTES_FILE, *beside),
    )


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
