"""Choice of a model by climbing a ladder: from a base, step by step, each judged on documents that it has not seen.

A step changes one thing of the best model so far: it adds a family of features, tags the ends of entities, changes the
prior or dropout, reads pairs of labels, or averages several models. It is kept if entity F1 rises by at least the
standard error of the gain (paired bootstrap over documents); a smaller gain is as likely chance. Steps come in the
order of `RUNGS`. What was chosen is then measured on documents that had no part in the choice, beside the base.

F1 is that of Viterbi over legal labels. Parts are made of whole documents, since words of one document are not
independent; `Validation` says which documents judge.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Any, NamedTuple

from pydantic import ValidationError

from concord.schemas.document import Document
from concord.schemas.errors import InputError, ShardsError
from concord.schemas.gains import Comparison
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.settings import TrainerSettings, Validation
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.derived import needed_columns
from concord.workers.features.gazetteers import ENTITIES, GAZETTEER, PHRASE_SETS
from concord.workers.features.resources import ResourceKind, available
from concord.workers.features.settings import WORD_TABLE_NAME
from concord.workers.features.templates import CLUSTERS, OF_PAIRS, VECTORS, feature_set
from concord.workers.learning.search.folds import counts_by_rounds
from concord.workers.learning.search.trials import Trial
from concord.workers.learning.trainers import ensemble, sgd
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.trainer import Train, gold_of, labels_of
from concord.workers.models.model import Model
from concord.workers.models.settings import EnsembleSettings, FeatureSettings
from concord.workers.storage.files import OutputError
from concord.workers.storage.scratch import scratch_folder

FOLDS = 5

FEATURES, LISTS, SCHEME = "features", "gazetteers", "scheme"
PRIOR, CUT_OFF, PASSES, DROPOUT = "c2", "min_freq", "passes", "dropout"
"""Options that steps change."""

FIELDS = "fields"
"""Feature set of citations and addresses, which is tried in the place of the default."""

FAMILIES = ("pos", "sentence", "mentions", CLUSTERS, ENTITIES)
"""Feature sets that are added, in this order, if the corpus has the columns that they read."""

PAIR_SETS = (f"{OF_PAIRS}kinds", f"{OF_PAIRS}pos")
"""Feature sets of pairs of labels that are added."""

LEAST_SECONDS = 1e-9
"""What a step costs at least, in CPU seconds."""

FACTOR = 3.0
"""Factor by which the prior's weight is multiplied or divided."""

RARE_FEATURES = 2.0
"""Cut-off that is tried: features seen once are dropped."""

ENCODER_SHARE, STATE_SIZES = 0.4, (50, 200, 1000)
"""How much an encoder says, and the numbers of clusters of its states."""

CLUSTER_WORDS = 10
"""Words of the documents, for a cluster of states: the first models of a trial learn from a fifth of them."""

DROPOUTS = (0.0, 0.5)
"""Fractions that are tried beside the default."""


class TrainerChoice(NamedTuple):
    """A way to train: a trainer by name, and its settings."""

    trainer: str
    settings: TrainerSettings


TrainNamed = Callable[[str], Train]
"""The trainer of a name."""


class Judged(NamedTuple):
    """What a candidate's models answered: counts (D, 3) of entities, and CPU seconds of training and labelling."""

    counts: Counts
    cpu_seconds: float


class LadderStep(NamedTuple):
    """A candidate on the ladder.

    - ``name``: what it changes, for people; ``base`` for the base.
    - ``trial``: the candidate with its counts (D, 3).
    - ``gain``: over the best candidate before it; None for the base.
    - ``cpu_seconds``: of its trainings and labellings.
    - ``is_kept``: does it take the place of the best one?
    """

    name: str
    trial: Trial[TrainerChoice]
    gain: Comparison | None
    cpu_seconds: float
    is_kept: bool


SettingsChange = Callable[[TrainerChoice], TrainerChoice]

TimeLeft = Callable[[TrainerChoice, float], bool]
"""Is there time for a candidate, whose trial costs so many times what the base's does?"""


class Rung(NamedTuple):
    """Steps that change one option.

    - ``option``: steps are left out where the user gives it, or the trainer does not have it; None for all trainers.
    - ``cost``: of a step, as a multiple of the best candidate's before it.
    - ``changes``: what the steps change of the best candidate, for these documents, by their names.
    - ``label_cost``: what each label of the documents adds to the cost.
    """

    option: str | None
    cost: float
    changes: Callable[[TrainerChoice, Sequence[Document]], Iterator[tuple[str, SettingsChange]]]
    label_cost: float = 0.0


class Climb(NamedTuple):
    """A ladder that was climbed.

    - ``steps``: all that was judged, the base first.
    - ``untried``: names of steps for which no time was left.
    - ``failures``: reasons of steps that failed, by name.
    """

    steps: Sequence[LadderStep]
    untried: Sequence[str]
    failures: Mapping[str, str]

    @property
    def best(self) -> TrainerChoice:
        """The candidate of the last step that was kept."""
        return self._kept.trial.setting

    @property
    def cost(self) -> float:
        """CPU seconds of the best candidate's trials, as a multiple of the base's."""
        return self._kept.cpu_seconds / max(self.steps[0].cpu_seconds, LEAST_SECONDS)

    @property
    def _kept(self) -> LadderStep:
        return [step for step in self.steps if step.is_kept][-1]


def climb_ladder(
    documents: Sequence[Document],
    base: TrainerChoice,
    judge: Callable[[TrainerChoice], Judged],
    *,
    has_time: TimeLeft = lambda _, __: True,
    progress: Callable[[LadderStep], None] = lambda _: None,
    foresee: Callable[[Iterator[TrainerChoice]], None] = lambda _: None,
) -> Climb:
    """The steps from a base; options that its settings were given stay as they are. A step that fails is left out.

    - ``has_time``: is there time for a candidate that costs so many times what the base does?
    - ``progress``: called after each step.
    - ``foresee``: called before each step with all that are to be judged if none is kept, this one first.

    Raises `TrainingError` where documents have no gold labels, the errors of ``judge`` for the base, and `OutputError`.
    """
    for document in documents:
        gold_of(document)
    labels = labels_of(documents)
    rungs = [_for_labels(rung, labels) for rung in RUNGS.values() if _is_open(rung, base.settings)]
    foresee(chain([base], _changed(rungs, base, documents, has_time)))
    first = _first(base, judge)
    steps, untried, failures, tried, best = [first], list[str](), dict[str, str](), {base}, first
    progress(first)

    def has_time_after(candidate: TrainerChoice, cost: float) -> bool:
        """Is there time for a step that costs so many times what the best candidate does?"""
        return has_time(candidate, cost * best.cpu_seconds / max(first.cpu_seconds, LEAST_SECONDS))

    for number, rung in enumerate(rungs, 1):
        changes = list(rung.changes(best.trial.setting, documents))
        for place, (name, change) in enumerate(changes, 1):
            setting = best.trial.setting
            candidate = _changed_by(change, setting)
            if candidate is None or candidate in tried:
                continue
            if not has_time_after(candidate, rung.cost):
                untried.append(name)
                continue
            tried.add(candidate)
            same_rung = _each_changed_by([change for _, change in changes[place:]], setting)
            try:
                foresee(chain([candidate], same_rung, _changed(rungs[number:], setting, documents, has_time_after)))
                steps.append(_step(name, candidate, best.trial, judge))
            except OutputError:
                raise  # a full disk is no fault of the step
            except (InputError, ShardsError) as error:
                failures[name] = str(error)
                continue
            progress(steps[-1])
            best = steps[-1] if steps[-1].is_kept else best
    return Climb(steps, untried, failures)


def _changed(
    rungs: Iterable[Rung], best: TrainerChoice, documents: Sequence[Document], has_time: TimeLeft
) -> Iterator[TrainerChoice]:
    """Candidates of all steps of these rungs from the best one."""
    for rung in rungs:
        candidates = _each_changed_by((change for _, change in rung.changes(best, documents)), best)
        yield from (candidate for candidate in candidates if has_time(candidate, rung.cost))


def _each_changed_by(changes: Iterable[SettingsChange], best: TrainerChoice) -> Iterator[TrainerChoice]:
    candidates = (_changed_by(change, best) for change in changes)
    return (candidate for candidate in candidates if candidate is not None)


def _changed_by(change: SettingsChange, best: TrainerChoice) -> TrainerChoice | None:
    """The candidate of a change; None where its settings, with what the user gave, do not go together."""
    try:
        candidate = change(best)
        type(candidate.settings).model_validate(candidate.settings.model_dump())
    except ValidationError:
        return None
    return candidate


def _first(base: TrainerChoice, judge: Callable[[TrainerChoice], Judged]) -> LadderStep:
    answer = judge(base)
    return LadderStep("base", Trial(base, answer.counts, f1_of_counts), None, answer.cpu_seconds, is_kept=True)


def _step(
    name: str, candidate: TrainerChoice, best: Trial[TrainerChoice], judge: Callable[[TrainerChoice], Judged]
) -> LadderStep:
    answer = judge(candidate)
    trial = Trial(candidate, answer.counts, f1_of_counts)
    gain = trial.gain(best)
    return LadderStep(name, trial, gain, answer.cpu_seconds, is_worth(gain))


def is_worth(gain: Comparison) -> bool:
    """Is a gain at least its standard error, a quarter of its interval of 95 %?"""
    return gain.difference > 0.0 and gain.difference >= (gain.high - gain.low) / 4.0


def _for_labels(rung: Rung, labels: LabelSet) -> Rung:
    """The rung with the cost that its steps have with so many labels."""
    return rung._replace(cost=rung.cost + rung.label_cost * len(labels), label_cost=0.0)


def _is_open(rung: Rung, settings: TrainerSettings) -> bool:
    if rung.option is None:
        return True
    return rung.option in type(settings).model_fields and rung.option not in settings.model_fields_set


def _with(**values: Any) -> SettingsChange:
    def change(best: TrainerChoice) -> TrainerChoice:
        return best._replace(settings=best.settings.model_copy(update=values))

    return change


def _and(name: str) -> SettingsChange:
    """Adds a feature set."""

    def change(best: TrainerChoice) -> TrainerChoice:
        return _with(features=f"{_value(best, FEATURES)}+{name}")(best)

    return change


def _beside(option: str, name: str, usual: tuple[str, ...] = ()) -> SettingsChange:
    """Adds a resource to those that an option has, or has by default."""

    def change(best: TrainerChoice) -> TrainerChoice:
        return _with(**{option: (*(_value(best, option) or usual), name)})(best)

    return change


def _value(best: TrainerChoice, option: str) -> Any:
    return getattr(best.settings, option)


def _bases(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    del best, documents
    yield f"features {FIELDS}", _with(features=FIELDS)


def _families(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    yield from _added(best, documents, FAMILIES)


def _pairs(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    if isinstance(best.settings, FeatureSettings) and best.settings.learns_pairs:
        yield from _added(best, documents, PAIR_SETS)


def _added(
    best: TrainerChoice, documents: Sequence[Document], names: Iterable[str]
) -> Iterator[tuple[str, SettingsChange]]:
    """Further feature sets, of those that the corpus has the columns for."""
    columns = set.intersection(*(set(document.columns) for document in documents))
    for name in names:
        own = name.removeprefix(OF_PAIRS)
        is_readable = own in (CLUSTERS, *PHRASE_SETS) or set(needed_columns(feature_set(own))) <= columns
        if is_readable and name not in _value(best, FEATURES).split("+"):
            yield f"+{name}", _and(name)


def _without_lists(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    """Lists that the user gave may be worth nothing, but for those that features need."""
    del documents
    if getattr(best.settings, LISTS, ()) and GAZETTEER not in _value(best, FEATURES).split("+"):
        yield "without the lists of phrases", _with(**{LISTS: ()})


def _lists(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    """Lists of phrases that are there by name."""
    del best, documents
    for name in available(ResourceKind.GAZETTEERS):
        yield f"gazetteer {name}", _beside(LISTS, name)


def _clusters(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    """Clusters that are there by name, beside those that are read by default."""
    del documents
    for name in available(ResourceKind.CLUSTERS):
        if name != WORD_TABLE_NAME and CLUSTERS in _value(best, FEATURES).split("+"):
            yield f"clusters {name}", _beside(CLUSTERS, name, (WORD_TABLE_NAME,))


def _vectors(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    """Vectors of words that are there by name."""
    del best, documents
    for name in available(ResourceKind.VECTORS):
        yield f"vectors {name}", _with(vectors=name)


def _encoders(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    """Encoders that are installed, with what runs them, and clusters of their states, of which each has some words."""
    del best
    words = sum(map(len, documents))
    sizes = tuple(size for size in STATE_SIZES if size * CLUSTER_WORDS <= words)
    for name in available(ResourceKind.ENCODER) if find_spec("onnxruntime") else ():
        yield f"encoder {name}", _with(encoder=name, share=ENCODER_SHARE, state_clusters=sizes)


def _schemes(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    del best
    if labels_of(documents).scheme is Scheme.BIO:
        yield "scheme bilou", _with(scheme="bilou")


def _priors(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    del documents
    for weight in (_value(best, PRIOR) * FACTOR, _value(best, PRIOR) / FACTOR):
        yield f"c2 {weight:.3g}", _with(c2=weight)


def _cut_offs(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    del best, documents
    yield f"min_freq {RARE_FEATURES:g}", _with(min_freq=RARE_FEATURES)


def _passes(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    """More passes, or fewer, where there is no prior: an early end replaces it."""
    del documents
    passes = _value(best, PASSES)
    if not hasattr(best.settings, PRIOR):
        for number in (passes * 2, max(passes // 2, 1)):
            yield f"passes {number}", _with(passes=number)


def _dropouts(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    del best, documents
    for share in DROPOUTS:
        yield f"dropout {share:g}", _with(dropout=share)


def _averages(best: TrainerChoice, documents: Sequence[Document]) -> Iterator[tuple[str, SettingsChange]]:
    """Models of different seeds, averaged, with the settings of the one."""
    del documents
    if best.trainer == sgd.NAME:
        yield (
            "models averaged",
            lambda one: TrainerChoice(ensemble.NAME, EnsembleSettings.model_validate(one.settings.model_dump())),
        )


RUNGS: dict[str, Rung] = {
    "base": Rung(FEATURES, 1.0, _bases),
    "families": Rung(FEATURES, 1.3, _families),
    "no lists": Rung(None, 1.0, _without_lists),
    "lists": Rung(LISTS, 1.3, _lists),
    "clusters": Rung(CLUSTERS, 1.3, _clusters),
    "vectors": Rung(VECTORS, 1.3, _vectors),
    "cut-off": Rung(CUT_OFF, 1.0, _cut_offs),
    "dropout": Rung(DROPOUT, 1.0, _dropouts),
    "prior": Rung(PRIOR, 1.0, _priors),
    "passes": Rung(PASSES, 2.0, _passes),
    "scheme": Rung(SCHEME, 1.1, _schemes, label_cost=0.03),
    "pairs": Rung(FEATURES, 1.2, _pairs, label_cost=0.07),
    "encoders": Rung("encoder", 12.0, _encoders),
    "averages": Rung(None, 6.0, _averages),
}
"""The ladder: what features read, then how they are learned, then what costs much; one line each."""


class ExpectedFigures(NamedTuple):
    """What is to be expected on new documents: figures of documents that had no part in the choice.

    - ``base``, ``chosen``: trials of the base and of what was chosen.
    - ``model``: of what was chosen, trained on the documents that chose it.
    - ``gain``: of what was chosen over the base.
    - ``tokens_a_second``: tokens that the chosen model scores and labels by Viterbi in a CPU second.
    """

    base: Trial[TrainerChoice]
    chosen: Trial[TrainerChoice]
    model: Model
    gain: Comparison
    tokens_a_second: float


def expected(
    inside: Sequence[Document],
    outside: Sequence[Document],
    base: TrainerChoice,
    chosen: TrainerChoice,
    train: TrainNamed,
) -> ExpectedFigures:
    """Trains base and choice on the documents that chose, and labels others. Raises the errors of training."""
    labels, trials, seconds = labels_of([*inside, *outside]), dict[TrainerChoice, Trial[TrainerChoice]](), 0.0
    for candidate in dict.fromkeys((base, chosen)):  # the choice is the last one
        with scratch_folder() as folder:
            model = train(candidate.trainer)(inside, settings=candidate.settings, out=folder / "model")
            viterbi_counts(model, outside[:1], labels)  # what is compiled, or loaded, costs once
            started = time.process_time()
            counts = viterbi_counts(model, outside, labels)
            seconds = time.process_time() - started
        trials[candidate] = Trial(candidate, counts, f1_of_counts)
    gain = trials[chosen].gain(trials[base])
    speed = sum(map(len, outside)) / max(seconds, 1e-9)
    return ExpectedFigures(trials[base], trials[chosen], model, gain, speed)


def judged(documents: Sequence[Document], train: Train, settings: TrainerSettings, validation: Validation) -> Judged:
    """What models of these settings answer on documents that they have not seen. Raises the errors of `rounds`."""
    started = time.process_time()
    counts = cross_validated(documents, train, settings, folds=FOLDS, validation=validation)
    return Judged(counts, time.process_time() - started)


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

    def judge(inside: list[Document], outside: list[Document]) -> Counts:
        with scratch_folder() as folder:
            return viterbi_counts(train(inside, settings=settings, out=folder / "model"), outside, labels)

    return counts_by_rounds(documents, folds, validation, judge)
