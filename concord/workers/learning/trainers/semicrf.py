"""A semi-Markov CRF by L-BFGS on all cores: labels whole segments, by their words, length and surroundings.

No segment is longer than the longest one in training. Each token outside all spans is a segment by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.blocks import Remark, Tone
from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.potentials import LARGEST_WEIGHT
from concord.workers.features.incidence import Attributes, Incidence, incidence
from concord.workers.features.scorer import FeatureWeights
from concord.workers.features.segments import WholeSegments, first_features, last_features
from concord.workers.features.templates import FeatureSet
from concord.workers.learning.estimation.chains import FeatureRules, GoldChains, TrainingChains
from concord.workers.learning.estimation.lbfgs import Limits, minimise
from concord.workers.learning.estimation.segments import GoldSegments, SegmentChains, SegmentObjective
from concord.workers.learning.trainers.fit import TrainingBatch
from concord.workers.learning.trainers.trainer import Iteration, Progress
from concord.workers.models.folder import begin
from concord.workers.models.semicrf import LearnedSemiCrf, SemiCrfModel, save
from concord.workers.models.settings import SemiCrfSettings

NAME = "semicrf"
ALL = FeatureRules(0.0, possible_states=True, possible_transitions=True)


def train(
    documents: Iterable[Document], *, settings: SemiCrfSettings, out: Path, progress: Progress | None = None
) -> SemiCrfModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `FeatureSetError` for features that are not there."""
    read = TrainingBatch.of(documents, settings=settings, trainer=NAME)
    gold = gold_of(read, settings.longest)
    features = (read.features, first_features(read.features), last_features(read.features))
    found = [incidence(read.batch, part) for part in features]
    segments = segments_of(read, gold, settings.min_whole)
    chains = chains_of(read, gold, found, segments)
    begin(out)
    limits = Limits(settings.max_iterations, settings.gradient, settings.decrease)
    for number, here in enumerate(minimise(SegmentObjective(chains, settings.c2), np.zeros(chains.size), limits)):
        if number and progress is not None:
            progress(Iteration(number, settings.max_iterations, here.value))
    figures = {"longest": gold.longest, "cut_segments": gold.cut, "whole_segments": len(segments), "iterations": number}
    return save(
        out,
        learned_of(read, chains, features, [part.attributes for part in found], segments, here.point),
        settings=settings,
        training=read.training | figures | {"loss": here.value},
    )


def remarks(figures: Mapping[str, float]) -> Iterator[Remark]:
    """How many segments were too long for it."""
    if figures.get("cut_segments"):
        cut = f"{figures['cut_segments']:,.0f} gold segments had more than {figures['longest']:.0f} tokens"
        yield Remark(f"{cut}, and were cut", Tone.NOTICE)


def gold_of(training: TrainingBatch, most: int) -> GoldSegments:
    """Gold segments of the documents, of at most ``most`` tokens each."""
    batch, labels = training.batch, training.labels
    assert batch.labels is not None
    ids = labels.encode(list(batch.labels.values))[batch.labels.codes]
    return GoldSegments.of(labels, ids, batch.sentence_starts, most)


def segments_of(training: TrainingBatch, gold: GoldSegments, least: int) -> WholeSegments:
    """Whole segments that get weights: those of gold, seen at least ``least`` times."""
    size = gold.segments.size.astype(np.int64)
    start = np.flatnonzero(size)
    return WholeSegments.of(training.batch, start, size[start], least)


def chains_of(
    training: TrainingBatch, gold: GoldSegments, found: list[Incidence], segments: WholeSegments
) -> SegmentChains:
    """Training data of the objective; ``found`` has the attributes of tokens inside, first and last in a segment."""
    bounds = training.batch.sentence_bounds
    tokens = GoldChains(bounds, gold.segments.kind, gold.width)
    inside, first, last = (TrainingChains.of(part, tokens, ALL) for part in found)
    rows = segments.found(training.batch, gold.longest)
    return SegmentChains((inside, first, last), bounds, gold, rows, len(segments), len(training.labels.types))


def learned_of(
    training: TrainingBatch,
    chains: SegmentChains,
    features: tuple[FeatureSet, ...],
    attributes: list[Attributes],
    segments: WholeSegments,
    point: Floats,
) -> LearnedSemiCrf:
    """The learned model of a point (size,). Raises `TrainingError` where a weight is too large or not a number."""
    if not np.abs(point).max() <= LARGEST_WEIGHT:
        raise TrainingError("the weights grew beyond all numbers; give a higher c2")
    views = chains.views(point)
    parts = zip(features, attributes, chains.parts, views, strict=False)
    weights = tuple(_named(one, names, part, states) for one, names, part, states in parts)
    length, transition, whole = (view.copy() for view in views[3:])
    return LearnedSemiCrf(training.labels, training.features, weights, length, transition, whole, segments)


def _named(features: FeatureSet, attributes: Attributes, part: TrainingChains, states: Floats) -> FeatureWeights:
    """Weights of attributes by name, from coordinates of classes (C, K)."""
    weights = (states / part.value[:, None])[part.class_of]
    count, width = weights.shape
    label = np.tile(np.arange(width, dtype=np.int32), count)
    return attributes.weights(features, np.arange(count + 1) * width, label, weights.ravel())
