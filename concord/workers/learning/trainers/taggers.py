"""A CRF learned without gold labels, from layers (taggers' answers) alone: what they agree on, and their words.

Three steps, none of which reads a gold label:

1. The taggers are witnesses of hidden entities, see `workers.learning.estimation.witnesses`. Expectation maximisation
   over all documents with an answer gives the reliability of each, and the best labels under all of them.
2. A CRF learns these labels from the words, in few passes and with much dropout, so that it takes up what is regular in
   them and little of single errors: a word is then labelled as it is in most of its other places.
3. The model adds to the CRF's scores a share (``evidence``) of log p(answers | label) by the reliabilities. The words
   have learned from the same answers, so these do not count in full a second time.

Documents are taken in the order of their ids, so that the order of shards changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.document import TOKENS, Batch, Column, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.layers import NO_ANSWER, layer_columns, types_under
from concord.schemas.potentials import Potentials
from concord.workers.features.derived import needed_columns
from concord.workers.features.extractors import clean
from concord.workers.features.incidence import Attributes, incidence
from concord.workers.features.templates import LAYER, FeatureSet, feature_set
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.estimation.chains import FeatureRules, GoldChains, TrainingChains
from concord.workers.learning.estimation.sgd import Rates, run_passes
from concord.workers.learning.estimation.witnesses import (
    EVENTS,
    NO_SYMBOL,
    Witness,
    WitnessAnswers,
    WitnessLearner,
    WitnessModel,
    WitnessStep,
    coinciding_errors,
    equal_shares,
    groups_of_one,
    independence,
    legal_pairs,
)
from concord.workers.learning.trainers.fit import LearnedChain, save_learned
from concord.workers.learning.trainers.given_features import check_pairs, features_of
from concord.workers.learning.trainers.layers import check_layers
from concord.workers.learning.trainers.trainer import Iteration, Progress, TrainingCounts
from concord.workers.models.crf import CrfModel
from concord.workers.models.folder import begin
from concord.workers.models.settings import TaggersSettings

NAME = "taggers"


class Consensus(NamedTuple):
    """What the taggers say together.

    - ``learner``, ``model``: the hidden Markov model.
    - ``labels`` (N,): best hidden label of each token.
    - ``figures``: for the manifest: iterations, loss, and what is known of the taggers.
    """

    learner: WitnessLearner
    model: WitnessModel
    labels: Labels
    figures: dict[str, Any]

    @property
    def types(self) -> LabelSet:
        """The hidden labels."""
        return self.learner.answers.labels


class PartWeights(NamedTuple):
    """Weights (A, L) in nats of some attributes."""

    attributes: Attributes
    weights: Floats


def train(
    documents: Iterable[Document], *, settings: TaggersSettings, out: Path, progress: Progress | None = None
) -> CrfModel:
    """See `workers.learning.trainers.trainer.Train`; gold labels are not read.

    Raises `TrainingError` where a layer is not there or has no answer, and `FeatureSetError`.
    """
    check_pairs(settings)
    ordered = sorted(documents, key=lambda document: (document.doc_id, document.tokens))
    names = settings.layers or layers_of(ordered)
    training = _counted(ordered, names, settings)
    answered = [document for document in ordered if any(map(partial(has_answer, document), names))]
    begin(out)
    step_progress = _StepProgress(settings, progress)
    consensus = agreed(answers_of(answered, names), names, settings, step_progress)
    layers = feature_set("+".join(f"{LAYER}{name}" for name in names))
    evidence = _evidence(answered, layers, consensus, settings)
    if settings.words:
        learned = _beside_words(answered, layers, evidence, consensus, settings, step_progress)
    else:
        transitions = np.where(legal_pairs(consensus.types), consensus.model.transition, 0.0)
        learned = _chain(layers, consensus.types, evidence, transitions)
    return save_learned(out, learned, settings=settings, training=training | consensus.figures)


def _counted(documents: Sequence[Document], names: Sequence[str], settings: TaggersSettings) -> dict[str, Any]:
    """Entries for the manifest. Raises `TrainingError` where there is no token or no such layer."""
    if any(map(len, documents)):
        if not names:
            raise TrainingError(
                "the corpus has no layer to learn from; `concord import entities` makes one of a tagger's answers"
            )
        check_layers(documents, names)
    corpus_counts = TrainingCounts((TOKENS, *names))
    for document in documents:
        corpus_counts.unlabelled(document)
    return corpus_counts.training(NAME, settings)


def _chain(features: FeatureSet, labels: LabelSet, part: PartWeights, transitions: Floats) -> LearnedChain:
    return LearnedChain(features, labels, np.arange(len(labels), dtype=np.int32), *part, transitions)


class _StepProgress:
    """Progress of both steps as one: iterations of the first, then passes of the second."""

    def __init__(self, settings: TaggersSettings, progress: Progress | None) -> None:
        self._first = settings.iterations
        self._total = settings.iterations + (settings.passes or 0) * settings.words
        self._progress = progress

    def iteration(self, number: int, loss: float) -> None:
        self._tell(Iteration(number, self._total, loss))

    def passed(self, number: int) -> None:
        self._tell(Iteration(self._first + number, self._total))

    def _tell(self, iteration: Iteration) -> None:
        if self._progress is not None:
            self._progress(iteration)


def layers_of(documents: Sequence[Document]) -> tuple[str, ...]:
    """Names of the layers that all documents have, sorted."""
    there = set.intersection(*(set(document.columns) for document in documents)) if documents else set[str]()
    return tuple(sorted(name for name in there if layer_columns(name)[1] in there))


def has_answer(document: Document, layer: str) -> bool:
    """Was the tagger of a layer asked about the document?"""
    return any(value != NO_ANSWER for value in document.columns[layer].used())


def _labelled(documents: Sequence[Document], names: Sequence[str]) -> list[Document]:
    """The documents with labels (N,) in the place of gold ones."""
    ends = np.cumsum([len(document) for document in documents]).tolist()
    return [
        replace(document, labels=Column.encode(names[end - len(document) : end]))
        for document, end in zip(documents, ends, strict=True)
    ]


# What the taggers agree on


def answers_of(documents: Sequence[Document], names: Sequence[str]) -> WitnessAnswers:
    """The answers of some layers. Raises `TrainingError` where no layer marks anything."""
    batch = Batch.of([replace(document, labels=None) for document in documents])
    columns = [batch.columns[name] for name in names]
    own = [sorted({value[2:] for value in column.used()} - {""}) for column in columns]
    types = sorted({kind for labels in own for label in labels for kind in types_under(label)})
    if not types:
        raise TrainingError(f"no layer marks anything, among {', '.join(names)}: there is no type to learn")
    witnesses, codes = [], []
    for column, labels in zip(columns, own, strict=True):
        covers = np.array([[kind in types_under(label) for kind in types] for label in labels], np.bool_)
        witness = Witness(tuple(labels), covers.reshape(len(labels), len(types)))
        number = {symbol: code for code, symbol in enumerate(witness.symbols)}
        codes.append(np.array([number.get(value, NO_SYMBOL) for value in column.values], np.int32)[column.codes])
        witnesses.append(witness)
    return WitnessAnswers(batch.sentence_bounds, tuple(witnesses), tuple(codes), LabelSet.bio(types))


def agreed(
    answers: WitnessAnswers, names: Sequence[str], settings: TaggersSettings, step_progress: _StepProgress
) -> Consensus:
    """The hidden Markov model of the taggers, and its best labels."""
    equal = equal_shares(answers)
    groups = groups_of_one(equal, len(names))
    learner = WitnessLearner(answers, independence(groups), settings.prior)
    number, step = 0, WitnessStep(learner.start(), np.inf)
    for number, step in enumerate(learner.steps(settings.iterations, settings.change), 1):
        step_progress.iteration(number, step.loss)
    potentials = Potentials(learner.scores(step.model), step.model.transition, answers.bounds[:-1])
    figures = {"iterations": number, "loss": step.loss} | {
        "taggers": dict(zip(names, _of_taggers(learner, step.model), strict=True)),
        "equal": _by_names(equal, names),
        "coinciding_errors": _by_names(coinciding_errors(learner, step.model, groups), names),
    }
    return Consensus(learner, step.model, viterbi(potentials.legal(answers.labels)), figures)


def _of_taggers(learner: WitnessLearner, model: WitnessModel) -> Iterator[dict[str, Any]]:
    types = learner.answers.labels.types
    for weight, own in zip(learner.weights, model.reliabilities, strict=True):
        rows = (dict(zip(EVENTS, row, strict=True)) for row in own.events.tolist())
        yield {"weight": weight, "alarms": float(own.alarms[1:].sum()), "types": dict(zip(types, rows, strict=True))}


def _by_names(shares: Mapping[tuple[int, int], float], names: Sequence[str]) -> dict[str, float]:
    return {f"{names[one]},{names[other]}": share for (one, other), share in shares.items()}


# Weights of the model


def _evidence(
    documents: Sequence[Document], layers: FeatureSet, consensus: Consensus, settings: TaggersSettings
) -> PartWeights:
    """Weights of the layers' labels: log p(label | hidden label), or a share of it beside the words."""
    found = incidence(Batch.of([replace(document, labels=None) for document in documents]), layers).attributes
    share = settings.evidence if settings.words else 1.0
    tables = zip(
        consensus.learner.answers.witnesses, consensus.learner.emissions(consensus.model), found.families, strict=True
    )
    rows = []
    for witness, table, family in tables:
        code = {clean(symbol): place for place, symbol in enumerate(witness.symbols)}
        texts = [found.values[family.sources[0]][i] for i in family.values[0].tolist()]
        # The row after the last symbol is for documents of which the tagger was not asked.
        rows.append(share * np.vstack([table.T, np.zeros(len(table))])[[code.get(text, NO_SYMBOL) for text in texts]])
    return PartWeights(found, np.concatenate(rows))


def _beside_words(
    documents: Sequence[Document],
    layers: FeatureSet,
    evidence: PartWeights,
    consensus: Consensus,
    settings: TaggersSettings,
    step_progress: _StepProgress,
) -> LearnedChain:
    """The weights of the words, and those of the layers beside them."""
    labelled = _labelled(documents, consensus.types.decode(consensus.labels))
    words = features_of(settings.model_copy(update={"layers": ()}), labelled)
    part, transitions = _from_words(labelled, words, consensus.types, settings, step_progress)
    features = replace(words, name=f"{words.name}+{layers.name}", templates=(*words.templates, *layers.templates))
    both = (part.attributes, evidence.attributes)
    attributes = Attributes(both[0].families + both[1].families, both[0].values | both[1].values)
    together = PartWeights(attributes, np.concatenate([part.weights, evidence.weights]))
    return _chain(features, consensus.types, together, transitions)


def _from_words(
    documents: Sequence[Document],
    words: FeatureSet,
    labels: LabelSet,
    settings: TaggersSettings,
    step_progress: _StepProgress,
) -> tuple[PartWeights, Floats]:
    """Weights of the words and transitions (L, L), learned from the documents' labels."""
    batch = Batch.of([replace(d, columns={name: d.columns[name] for name in needed_columns(words)}) for d in documents])
    assert batch.labels is not None
    found = incidence(batch, words)
    gold = labels.encode(list(batch.labels.values))[batch.labels.codes]
    rules = FeatureRules(settings.min_freq, settings.all_possible_states, settings.all_possible_transitions)
    chains = TrainingChains.of(found, GoldChains(batch.sentence_bounds, gold, len(labels)), rules)
    point, rates = np.zeros(chains.size), Rates.of(settings, len(gold))
    for number, _ in enumerate(run_passes(chains, settings.c2, point, rates, np.random.default_rng(settings.seed)), 1):
        step_progress.passed(number)
    weights = chains.weights(point)
    return PartWeights(found.attributes, weights.states), weights.transitions
