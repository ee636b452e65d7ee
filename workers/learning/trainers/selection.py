"""Settings of a trainer chosen by cross-validation over documents: features, prior, cut-off, passes, dropout.

One choice after another. A family of features stays if entity F1 rises with it; then the prior's weight is moved by a
factor as long as that helps; then rare features are dropped, if that does; then, of a trainer without a prior, the
passes are more or fewer as long as that helps: to end early is what it has instead; then steps see all features or
fewer, of a trainer that can leave some out. F1 is that of Viterbi over legal labels. A fold is a share of the
documents, since words of one document know each other; `Validation` says which documents it has.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.derived import needed_columns
from concord.workers.features.gazetteers import ENTITIES, GAZETTEER, LISTS
from concord.workers.features.templates import CLUSTERS, feature_set
from concord.workers.learning.search.folds import rounds
from concord.workers.learning.search.trials import SettingsSearch, Trial
from concord.workers.learning.trainers.trainer import Train, gold_of
from concord.workers.models.model import Model, viterbi_labels
from concord.workers.storage.scratch import scratch_folder

FOLDS = 5

FEATURES, PRIOR, CUT_OFF, PASSES, DROPOUT = CHOSEN = ("features", "c2", "min_freq", "passes", "dropout")
"""What is chosen, in this order, of what is not given; passes where there is no prior."""

BASES = ("core", "fields")
"""Feature sets of which one is the start."""

FAMILIES = ("pos", "sentence", "mentions", CLUSTERS, ENTITIES, GAZETTEER)
"""Feature sets that are added to it, in this order, where each helps and the corpus has what it needs."""

FILES = {CLUSTERS: "clusters", GAZETTEER: "gazetteers"}
"""The settings that have the files of feature sets; without one they are not tried."""

FACTOR = 3.0
"""What the prior's weight is multiplied or divided by."""

RARE_FEATURES = 2.0
"""The cut-off that is tried: features seen once are dropped."""

DROPOUTS = (0.0, 0.5)
"""The shares that are tried beside the default."""

MORE, FEWER = (20, 40, 80), (5, 2, 1)
"""Passes that are tried one after another, as long as F1 rises; ten are the default."""


def chosen_of(settings: TrainerSettings) -> dict[str, Any]:
    """The values of those of `CHOSEN` that can be chosen for the trainer."""
    return settings.model_dump(include=set(_choices(settings)))


def select(
    documents: Sequence[Document],
    train: Train,
    settings: TrainerSettings,
    *,
    folds: int = FOLDS,
    validation: Validation = Validation.RANDOM,
    progress: Callable[[Trial[TrainerSettings]], None] | None = None,
) -> list[Trial[TrainerSettings]]:
    """The trials in the order in which they were made, with counts (D, 3) of entities; `best_of` them is chosen.

    Settings that are given stay as they are; of `CHOSEN` the others are searched. Raises `TrainingError` where there
    are too few documents, or where nothing is left to be chosen, and what training raises.
    """
    names = [name for name in _choices(settings) if name not in settings.model_fields_set]
    if not names:
        raise TrainingError(f"nothing is left to be chosen: give fewer options; chosen are {', '.join(CHOSEN)}")

    def attempt(tried: TrainerSettings) -> Counts:
        return cross_validated(documents, train, tried, folds=folds, validation=validation)

    search = SettingsSearch(attempt, f1_of_counts, told=progress)
    best = settings
    if FEATURES in names:
        best = _features(search, settings, documents)
    if PRIOR in names:
        best = _further(search, best, (_weights(best, FACTOR), _weights(best, 1.0 / FACTOR)))
    if CUT_OFF in names:
        best = search.along(best, _with(best, min_freq=[RARE_FEATURES]))
    if PASSES in names:
        best = _further(search, best, (_with(best, passes=MORE), _with(best, passes=FEWER)))
    if DROPOUT in names:
        for share in DROPOUTS:
            best = search.along(best, _with(best, dropout=[share]))
    return search.trials


def _with(settings: TrainerSettings, **values: Iterable[object]) -> Iterator[TrainerSettings]:
    """The settings with each of the values of one of them."""
    ((name, given),) = values.items()
    for value in given:
        yield settings.model_copy(update={name: value})


def _weights(settings: TrainerSettings, factor: float) -> Iterator[TrainerSettings]:
    """Ever lower or ever higher weights of the prior, without end."""
    first = chosen_of(settings)[PRIOR]
    return _with(settings, c2=itertools.accumulate(itertools.repeat(factor), operator.mul, initial=first * factor))


def _further(
    search: SettingsSearch[TrainerSettings], base: TrainerSettings, ways: Iterable[Iterable[TrainerSettings]]
) -> TrainerSettings:
    """As far as F1 rises on the first way on which it does."""
    for steps in ways:
        best = search.along(base, steps)
        if best is not base:
            return best
    return base


def _features(
    search: SettingsSearch[TrainerSettings], settings: TrainerSettings, documents: Sequence[Document]
) -> TrainerSettings:
    """The better one of `BASES`, and `FAMILIES` where they help."""
    files = settings.model_dump(include=set(FILES.values()))
    none = {name: type(settings).model_fields[name].default for name in files}
    best = search.best(settings.model_copy(update={FEATURES: name, **none}) for name in _usable(BASES, documents))
    for name in _usable(FAMILIES, documents):
        added = {field: value for field, value in files.items() if FILES.get(name) == field}
        if all(added.values()):
            more = {FEATURES: f"{chosen_of(best)[FEATURES]}+{name}", **added}
            best = search.along(best, [best.model_copy(update=more)])
    return best


def _usable(names: Iterable[str], documents: Sequence[Document]) -> Iterator[str]:
    """The feature sets whose columns every document has."""
    there = set.intersection(*(set(document.columns) for document in documents))
    for name in names:
        if name in (CLUSTERS, *LISTS) or set(needed_columns(feature_set(name))) <= there:
            yield name


def _choices(settings: TrainerSettings) -> list[str]:
    """Those of `CHOSEN` that can be chosen for a trainer."""
    fields = type(settings).model_fields
    return [name for name in CHOSEN if name in fields and not (name == PASSES and PRIOR in fields)]


def cross_validated(
    documents: Sequence[Document],
    train: Train,
    settings: TrainerSettings,
    *,
    folds: int,
    validation: Validation = Validation.RANDOM,
) -> Counts:
    """(D, 3) gold, predicted and correct entities of each document that is judged, by a model that has not seen it.

    Raises as `rounds` and training do.
    """
    labels = LabelSet.infer(name for document in documents for name in gold_of(document))
    counts: dict[int, Any] = {}
    for learned, judged in rounds(documents, folds, validation):
        with scratch_folder() as folder:
            model = train([documents[i] for i in learned], settings=settings, out=folder / "model")
            counts |= zip(judged, _counts(model, [documents[i] for i in judged], labels), strict=True)
    return np.stack([counts[i] for i in sorted(counts)])


def _counts(model: Model, documents: Sequence[Document], labels: LabelSet) -> Counts:
    batch = Batch.of(documents)
    assert batch.labels is not None
    found = viterbi_labels(model, batch)
    # A part of the documents may lack a label that others have.
    mine: Labels = labels.encode(list(model.labels.names))[found]
    gold = labels.encode(batch.labels.strings())
    counts: Counts = spans(Pair(batch, labels, gold, mine)).by_document().sum(axis=1)
    return counts
