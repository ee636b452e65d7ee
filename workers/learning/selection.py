"""Settings of a trainer chosen by cross-validation over documents: features, prior, cut-off, passes, dropout.

One choice after another. A family of features stays if entity F1 rises with it; then the prior's weight is moved by a
factor as long as that helps; then rare features are dropped, if that does; then, of a trainer without a prior, the
passes are more or fewer as long as that helps: to end early is what it has instead; then steps see all features or
fewer, of a trainer that can leave some out. F1 is that of Viterbi over legal labels. A fold is a share of the
documents, since words of one document know each other; `Validation` says which documents it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.evaluation.bootstrap import Comparison, paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.derived import needed_columns
from concord.workers.features.gazetteers import ENTITIES, GAZETTEER, LISTS
from concord.workers.features.templates import CLUSTERS, feature_set
from concord.workers.learning.folds import rounds
from concord.workers.learning.trainers.trainer import Train, TrainingError, gold_of
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

RARE = 2.0
"""The cut-off that is tried: features seen once are dropped."""

DROPOUTS = (0.0, 0.5)
"""The shares that are tried beside the default."""

MORE, FEWER = (20, 40, 80), (5, 2, 1)
"""Passes that are tried one after another, as long as F1 rises; ten are the default."""


@dataclass(frozen=True)
class SettingsTrial:
    """Entities (D, 3) gold, predicted and correct of each judged document, by models of these settings without it."""

    settings: TrainerSettings
    counts: Counts

    @property
    def chosen(self) -> dict[str, Any]:
        """Those of `CHOSEN` that can be chosen for the trainer."""
        return self.settings.model_dump(include=set(_choices(self.settings)))

    @property
    def f1(self) -> float:
        """Entity F1 over all documents, a fraction."""
        return float(f1_of_counts(self.counts.sum(axis=0)))

    def against(self, base: SettingsTrial) -> Comparison:
        """The gain over another trial on the same documents."""
        return paired_bootstrap(base.counts, self.counts, rng=np.random.default_rng(0))


def select(
    documents: Sequence[Document],
    train: Train,
    settings: TrainerSettings,
    *,
    folds: int = FOLDS,
    validation: Validation = Validation.RANDOM,
    progress: Callable[[SettingsTrial], None] | None = None,
) -> list[SettingsTrial]:
    """The trials in the order in which they were made. The first with the highest F1 is chosen, see `best_of`.

    Settings that are given stay as they are; of `CHOSEN` the others are searched. Raises `TrainingError` where there
    are too few documents, or where nothing is left to be chosen, and what training raises.
    """
    names = [name for name in _choices(settings) if name not in settings.model_fields_set]
    if not names:
        raise TrainingError(f"nothing is left to be chosen: give fewer options; chosen are {', '.join(CHOSEN)}")
    search = _Search(documents, train, folds, validation, progress, [])
    best = search.features(settings) if FEATURES in names else search.attempt(settings)
    if PRIOR in names:
        best = search.prior(best)
    if CUT_OFF in names:
        best = search.better(best, min_freq=RARE)
    if PASSES in names:
        best = search.passes(best)
    if DROPOUT in names:
        for share in DROPOUTS:
            best = search.better(best, dropout=share)
    return search.trials


def _choices(settings: TrainerSettings) -> list[str]:
    """Those of `CHOSEN` that can be chosen for a trainer."""
    fields = type(settings).model_fields
    return [name for name in CHOSEN if name in fields and not (name == PASSES and PRIOR in fields)]


def best_of(trials: Sequence[SettingsTrial]) -> SettingsTrial:
    """The one that is chosen."""
    return max(trials, key=lambda trial: trial.f1)


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


@dataclass(frozen=True)
class _Search:
    """The trials so far, and how they are made."""

    documents: Sequence[Document]
    train: Train
    folds: int
    validation: Validation
    progress: Callable[[SettingsTrial], None] | None
    trials: list[SettingsTrial]

    def attempt(self, settings: TrainerSettings) -> SettingsTrial:
        """The trial of some settings."""
        judged = cross_validated(self.documents, self.train, settings, folds=self.folds, validation=self.validation)
        trial = SettingsTrial(settings, judged)
        self.trials.append(trial)
        if self.progress is not None:
            self.progress(trial)
        return trial

    def better(self, base: SettingsTrial, **changes: Any) -> SettingsTrial:
        """The trial with some settings changed if its F1 is higher, or the one before."""
        trial = self.attempt(base.settings.model_copy(update=changes))
        return trial if trial.f1 > base.f1 else base

    def features(self, settings: TrainerSettings) -> SettingsTrial:
        """The better one of `BASES`, and `FAMILIES` where they help."""
        files = settings.model_dump(include=set(FILES.values()))
        none = {name: type(settings).model_fields[name].default for name in files}
        alone = [settings.model_copy(update={FEATURES: name, **none}) for name in self._usable(BASES)]
        best = best_of([self.attempt(given) for given in alone])
        for name in self._usable(FAMILIES):
            added = {field: value for field, value in files.items() if FILES.get(name) == field}
            if all(added.values()):
                best = self.better(best, features=f"{best.chosen[FEATURES]}+{name}", **added)
        return best

    def prior(self, base: SettingsTrial) -> SettingsTrial:
        """A lower or a higher weight of the prior, as long as F1 rises."""
        for factor in (FACTOR, 1.0 / FACTOR):
            best = base
            while (now := self.better(best, c2=best.chosen[PRIOR] * factor)) is not best:
                best = now
            if best is not base:
                return best
        return base

    def passes(self, base: SettingsTrial) -> SettingsTrial:
        """More passes or fewer, as long as F1 rises."""
        for counts in (MORE, FEWER):
            best = base
            for count in counts:
                if (now := self.better(best, passes=count)) is best:
                    break
                best = now
            if best is not base:
                return best
        return base

    def _usable(self, names: Iterable[str]) -> Iterator[str]:
        """The feature sets whose columns every document has."""
        there = set.intersection(*(set(document.columns) for document in self.documents))
        for name in names:
            if name in (CLUSTERS, *LISTS) or set(needed_columns(feature_set(name))) <= there:
                yield name
