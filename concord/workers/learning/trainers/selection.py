"""Choice of a trainer's settings by cross-validation over documents: features, prior, cut-off, passes, dropout.

The settings are chosen one after another, each step kept only if entity F1 rises:

1. features: families of features are added;
2. prior: its weight is multiplied or divided by a factor, again and again;
3. cut-off: rare features are dropped;
4. passes, for a trainer without a prior: more, or fewer, since an early end replaces the prior;
5. dropout, for a trainer that has it: none, or a larger share.

F1 is that of Viterbi over legal labels. Folds are made of whole documents, since words of one document are not
independent; `Validation` says which documents are in a fold.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.derived import needed_columns
from concord.workers.features.gazetteers import ENTITIES, GAZETTEER, PHRASE_SETS
from concord.workers.features.templates import CLUSTERS, feature_set
from concord.workers.learning.search.folds import rounds
from concord.workers.learning.search.trials import SettingsSearch, Trial
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.trainer import Train, labels_of
from concord.workers.storage.scratch import scratch_folder

FOLDS = 5

FEATURES, PRIOR, CUT_OFF, PASSES, DROPOUT = CHOSEN = ("features", "c2", "min_freq", "passes", "dropout")
"""Settings to choose, in this order, if they are not given; passes only for a trainer without a prior."""

BASES = ("core", "fields")
"""Feature sets to start from; the better one is taken."""

FAMILIES = ("pos", "sentence", "mentions", CLUSTERS, ENTITIES, GAZETTEER)
"""Feature sets that are tried beside it, in this order, if the corpus has the columns that they read."""

FILES = {CLUSTERS: "clusters", GAZETTEER: "gazetteers"}
"""Feature sets that read files, with the setting that names these."""

FACTOR = 3.0
"""Factor by which the prior's weight is multiplied or divided."""

RARE_FEATURES = 2.0
"""Cut-off that is tried: features seen once are dropped."""

DROPOUTS = (0.0, 0.5)
"""Fractions that are tried beside the default."""

MORE, FEWER = (20, 40, 80), (5, 2, 1)
"""Numbers of passes that are tried one after another, as long as F1 rises; ten are the default."""


def chosen_of(settings: TrainerSettings) -> dict[str, Any]:
    """The values of the settings that can be chosen for the trainer, by name."""
    return settings.model_dump(include=set(_choices(settings)))


def with_sets_of_files(settings: TrainerSettings) -> TrainerSettings:
    """The settings with the feature sets that read the given files, where features are still to be chosen.

    A search tries them in turn, so the files have to be readable though no feature set names them yet.
    """
    if FEATURES not in _choices(settings) or FEATURES in settings.model_fields_set:
        return settings
    phrases = [GAZETTEER] if getattr(settings, FILES[GAZETTEER]) else []
    return settings.model_copy(update={FEATURES: "+".join((chosen_of(settings)[FEATURES], *phrases))})


def select(
    documents: Sequence[Document],
    train: Train,
    settings: TrainerSettings,
    *,
    folds: int = FOLDS,
    validation: Validation = Validation.RANDOM,
    progress: Callable[[Trial[TrainerSettings]], None] | None = None,
) -> list[Trial[TrainerSettings]]:
    """The trials in the order in which they were made, with counts (D, 3) of entities; `best_of` gives the chosen one.

    Settings that are given stay as they are; the others of `CHOSEN` are searched. Raises `TrainingError` where there
    are too few documents or all settings are given, and the errors of training.
    """
    names = [name for name in _choices(settings) if name not in settings.model_fields_set]
    if not names:
        raise TrainingError(f"nothing is left to be chosen: give fewer options; chosen are {', '.join(CHOSEN)}")

    def attempt(tried: TrainerSettings) -> Counts:
        return cross_validated(documents, train, tried, folds=folds, validation=validation)

    search = SettingsSearch(attempt, f1_of_counts, progress=progress)
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
    """Copies of the settings, with each of several values for one field."""
    ((name, given),) = values.items()
    for value in given:
        yield settings.model_copy(update={name: value})


def _weights(settings: TrainerSettings, factor: float) -> Iterator[TrainerSettings]:
    """Copies of the settings with the prior's weight times factor, factor², and so on, without end."""
    first = chosen_of(settings)[PRIOR]
    return _with(settings, c2=itertools.accumulate(itertools.repeat(factor), operator.mul, initial=first * factor))


def _further(
    search: SettingsSearch[TrainerSettings], base: TrainerSettings, ways: Iterable[Iterable[TrainerSettings]]
) -> TrainerSettings:
    """The last settings up to which F1 rises, on the first of the ways on which it does; ``base`` if on none."""
    for steps in ways:
        best = search.along(base, steps)
        if best is not base:
            return best
    return base


def _features(
    search: SettingsSearch[TrainerSettings], settings: TrainerSettings, documents: Sequence[Document]
) -> TrainerSettings:
    """The settings with the better one of `BASES`, and each of `FAMILIES` that raises F1."""
    files = settings.model_dump(include=set(FILES.values()))
    none = {name: type(settings).model_fields[name].default for name in files}
    best = search.best(settings.model_copy(update={FEATURES: name, **none}) for name in _usable(BASES, documents))
    for name in _usable(FAMILIES, documents):
        added = {field: value for field, value in files.items() if FILES.get(name) == field}
        if name != GAZETTEER or all(added.values()):
            more = {FEATURES: f"{chosen_of(best)[FEATURES]}+{name}", **added}
            best = search.along(best, [best.model_copy(update=more)])
    return best


def _usable(names: Iterable[str], documents: Sequence[Document]) -> Iterator[str]:
    """The feature sets whose columns all documents have."""
    there = set.intersection(*(set(document.columns) for document in documents))
    for name in names:
        if name in (CLUSTERS, *PHRASE_SETS) or set(needed_columns(feature_set(name))) <= there:
            yield name


def _choices(settings: TrainerSettings) -> list[str]:
    """Names of the settings that can be chosen for a trainer, in the order of `CHOSEN`."""
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
    """(D, 3) gold, predicted and correct entities of each judged document, by a model that has not seen it.

    Raises the errors of `rounds` and of training.
    """
    labels = labels_of(documents)
    counts: dict[int, Any] = {}
    for learned, judged in rounds(documents, folds, validation):
        with scratch_folder() as folder:
            model = train([documents[i] for i in learned], settings=settings, out=folder / "model")
            counts |= zip(judged, viterbi_counts(model, [documents[i] for i in judged], labels), strict=True)
    return np.stack([counts[i] for i in sorted(counts)])
