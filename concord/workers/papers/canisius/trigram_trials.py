"""Trials of settings of memory-based n-grams: some tokens are remembered, others are classified by them.

The tokens of a fifth of the documents are classified, by tokens of the others. Van den Bosch (2004) splits by tokens
instead. But windows of neighbouring tokens share words, and a document repeats its own words: a token's nearest
neighbour would be the token beside it, and settings that rely on the nearest neighbours would look best. Samples are
tokens in random order; a larger sample contains the smaller ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.arrays import Ids, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet
from concord.workers.inference.core.engine import document_rng
from concord.workers.learning.search.folds import fold_of
from concord.workers.learning.search.progressive import Sampling, TrialTally, asked_of
from concord.workers.learning.trainers.trainer import Trainer, labels_of
from concord.workers.papers.canisius import timbl
from concord.workers.papers.canisius.nearest import Vote
from concord.workers.papers.canisius.neighbourhoods import Classifier
from concord.workers.papers.canisius.settings import Decay, Metric, TrigramSettings, Weighting
from concord.workers.papers.canisius.trigram import NEAREST, Instances, nearest
from concord.workers.papers.canisius.trigram_trainer import entities_for, label_set, labels_around, remembered, train
from concord.workers.papers.canisius.windows import Windows, numbered, values_of
from concord.workers.storage.scratch import scratch_folder

SEARCHED: dict[str, Sequence[Any]] = {
    "k": (1, 3, 5, 7, 11, 15, 25, 35),
    "metric": tuple(Metric),
    "weighting": tuple(Weighting),
    "decay": tuple(Decay),
}
"""Values that are searched for each setting, unless it is given; the default comes first."""
REMEMBERED = {NEAREST: 40, "igtree": 100, "tribl2": 250, "ib1": 250}
"""Bytes for each remembered value (22 a token) at the peak of a trial, by learner; measured, see
`workers.remote.memory`."""
SAMPLE_FOLDS = 5
"""Folds of the documents; the tokens of one fold are classified."""


def grid(settings: TrigramSettings) -> list[TrigramSettings]:
    """The settings to try, those with the default values first; settings that are given stay as they are.

    Of settings with the same effect only the first is tried. IGTree uses nothing but feature weights. At k = 1 all
    neighbours are at one distance and weigh the same, whatever the decay (except for ties, which the next distance
    decides). Raises `TrainingError` if only one setting is left.
    """
    names = [name for name in SEARCHED if name not in settings.model_fields_set]
    by_meaning: dict[tuple[object, ...], TrigramSettings] = {}
    for values in product(*(SEARCHED[name] for name in names)):
        one = settings.model_copy(update=dict(zip(names, values, strict=True)))
        by_meaning.setdefault(_meaning(one), one)
    if len(by_meaning) == 1:
        raise TrainingError(f"nothing is left to be chosen: give fewer options; chosen are {', '.join(SEARCHED)}")
    return list(by_meaning.values())


def chosen_of(settings: TrigramSettings) -> dict[str, str | float]:
    """The values of the searched settings, by name."""
    return settings.model_dump(mode="json", include=set(SEARCHED))


def _meaning(settings: TrigramSettings) -> tuple[object, ...]:
    if settings.learner == "igtree":
        return (settings.weighting,)
    decay = None if settings.k == 1 else settings.decay
    return settings.weighting, settings.metric, settings.k, decay


class Sample(NamedTuple):
    """M tokens to remember and T tokens to classify, each in random order, with F features.

    - ``values`` (F, M): value of each feature of the tokens to remember.
    - ``around`` (M, n): their labels and those of their neighbours, −1 beyond the sentence.
    - ``asked`` (T, F): value of each feature of the tokens to classify, −1 for one that no token to remember has.
    - ``wanted`` (T, n): their labels and those of their neighbours, −1 beyond the sentence.
    """

    values: Ids
    around: Ints
    asked: Ids
    wanted: Ints

    @classmethod
    def of(cls, documents: Sequence[Document], settings: TrigramSettings, *, seed: int = 0) -> Sample:
        """Sample of documents with gold labels, of which a fifth is to be classified.

        Raises `TrainingError` for fewer than five documents, for documents without labels and for too few tokens.
        """
        labels = label_set(labels_of(documents, settings.labels), settings)
        folds = fold_of(documents, SAMPLE_FOLDS)
        inside, outside = (
            [one for one, fold in zip(documents, folds, strict=True) if (fold == 0) is out] for out in (False, True)
        )
        entities = entities_for(inside, settings)
        batch, other = Batch.of(inside), Batch.of(outside)
        if not batch.token_count or not other.token_count:
            raise TrainingError("too few documents have tokens to choose settings by; give more")
        read = [values_of(column) for column in Windows(settings.windows, entities).features(batch)]
        windows = Windows(settings.windows, None if entities is None else entities.for_all)
        queries = numbered(windows.features(other), [names for names, _ in read])
        first, second = _order(batch, seed), _order(other, seed)
        return cls(
            np.stack([codes[first] for _, codes in read]),
            _around(batch, labels, settings.n)[first],
            queries[second],
            _around(other, labels, settings.n)[second],
        )

    @property
    def tokens(self) -> int:
        """The number M of tokens to remember."""
        return len(self.around)

    def part(self, size: int) -> Sample:
        """The first ``size`` tokens to remember, and a fifth as many to classify; their values are numbered anew."""
        queries = self.asked[: asked_of(size, len(self.asked))]
        pairs = [_numbered(mine, theirs) for mine, theirs in zip(self.values[:, :size], queries.T, strict=True)]
        values, numbers = (np.stack(column) for column in zip(*pairs, strict=True))
        return Sample(values, self.around[:size], np.ascontiguousarray(numbers.T), self.wanted[: len(queries)])


def _order(batch: Batch, seed: int) -> Ints:
    """Random order of the tokens; each document draws from its own stream, so that batches do not matter."""
    sizes = np.diff(batch.doc_starts).tolist()
    drawn = [document_rng(seed, name).random(size) for name, size in zip(batch.doc_ids, sizes, strict=True)]
    return np.argsort(np.concatenate(drawn), kind="stable")


def _around(batch: Batch, labels: LabelSet, n: int) -> Ints:
    assert batch.labels is not None
    return labels_around(labels.encode(batch.labels.strings()), batch.sentence_bounds, n)


def _numbered(values: Ids, queries: Ids) -> tuple[Ids, Ids]:
    """The values (M,) renumbered in ascending order, and those asked for (T,) likewise; −1 if not among the first."""
    distinct, numbers = np.unique(values, return_inverse=True)
    place = np.minimum(np.searchsorted(distinct, queries), len(distinct) - 1)
    return numbers.astype(np.int32), np.where(distinct[place] == queries, place, -1).astype(np.int32)


def together(every: Iterable[TrigramSettings]) -> list[list[TrigramSettings]]:
    """Groups of settings that differ only in k and decay, so that distances are computed once for a group.

    Each setting of TiMBL is a group by itself.
    """
    groups: dict[tuple[object, ...], list[TrigramSettings]] = {}
    for one in every:
        alike = (one.metric, one.weighting) if one.learner == NEAREST else tuple(chosen_of(one).values())
        groups.setdefault(alike, []).append(one)
    return list(groups.values())


def tried(sample: Sample, group: Sequence[TrigramSettings], size: int) -> list[TrialTally]:
    """Tally of each setting of a group: tokens with the right class (all its labels), by ``size`` remembered tokens.

    CPU seconds are divided evenly among the group. Raises `TimblError`.
    """
    started = time.process_time()
    part, first = sample.part(size), group[0]
    instances = remembered(part.values, part.around, first)
    queries, place = np.unique(part.asked, axis=0, return_inverse=True)
    if first.learner == NEAREST:
        votes = [Vote(one.k, one.decay) for one in group]
        neighbourhoods = nearest(instances, first).by_votes(votes, queries)
    else:
        neighbourhoods = [_timbl(instances, one).neighbourhoods(queries) for one in group]
    right = [_right(one.predicted[place.ravel()], instances.labels, part.wanted) for one in neighbourhoods]
    seconds = (time.process_time() - started) / len(group)
    return [TrialTally(count, len(part.wanted), seconds) for count in right]


def _right(predicted: Ints, labels: Ints, gold: Ints) -> int:
    return int((labels[predicted] == gold).all(axis=1).sum())


def _timbl(instances: Instances, settings: TrigramSettings) -> Classifier:
    with scratch_folder() as name:
        timbl.write_base(name, instances.values, instances.classes, settings)
        return timbl.Timbl.read(name, settings)


def token_bytes(sample: Sample, settings: TrigramSettings) -> int:
    """Bytes for each remembered token at the peak of a trial of these settings."""
    return REMEMBERED[settings.learner] * len(sample.values)


SAMPLING = Sampling(
    TrigramSettings,
    grid,
    chosen_of,
    together,
    Sample.of,
    tried,
    (TrigramSettings(), TrigramSettings(metric=Metric.MVDM)),
    token_bytes,
)
"""Trials of the trainer's settings. Jeffrey's divergence has MVDM's kernels."""

TRIGRAM = Trainer(
    train,
    TrigramSettings,
    SAMPLING,
    comparison=True,
    kernels=({"metric": "mvdm"},),  # Jeffrey's divergence has MVDM's
)
"""The trainer as it is registered."""
