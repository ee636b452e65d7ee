"""Sweep files: YAML in which every mistake is told with its line, before anything runs.

    corpora:
      cora: {train: cora/train, test: cora/dev}
    models:
      crf: {trainer: sgd}
    constraints:
      none: []
      rules: [citations.yaml]
    engines:
      viterbi: {}
      gibbs: {options: {sweeps: 100}}
    seeds: [0, 1]

Paths are relative to the folder of the file. Every combination is a cell, unless ``cross`` names some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from concord.schemas.errors import InputError, UsageError
from concord.schemas.names import nearest, unknown
from concord.schemas.run import RunSettings
from concord.schemas.settings import TrainerSettings
from concord.schemas.sweep import (
    AXES,
    DECLARED,
    Size,
    SweepFile,
    SweptConstraints,
    SweptCorpus,
    SweptEngine,
    SweptModel,
    SweptPenalty,
)
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.rows import ConstraintError
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES, check_measures
from concord.workers.features.resources import known_resources, place_of
from concord.workers.labelling.labelled import check_settings
from concord.workers.learning.trainers.registry import DEFAULT
from concord.workers.learning.weights.penalties import (
    PENALTIES,
    By,
    LearnedSettings,
    PenaltySettings,
    TunedSettings,
    check_figure,
)
from concord.workers.storage.lined_yaml import Location, mistakes_told, problems, read_content
from concord.workers.sweeps.codl import trainer_of
from concord.workers.sweeps.grids import spread
from concord.workers.sweeps.sound_content import SoundContent

POOL_OF = "pool"
"""Option of trainers that learn on from documents without labels."""


class SweepFileError(InputError):
    """A sweep file with mistakes; the message has one line for each, as file:line: mistake."""


class Weighing(NamedTuple):
    """How constraints are weighed: name of the penalty, and all of its options."""

    penalty: str
    settings: PenaltySettings

    @property
    def trains(self) -> bool:
        """Whether models are trained for it, on parts of the training documents."""
        return PENALTIES[self.penalty].by is not By.COUNTS


class Sweep(NamedTuple):
    """A sweep file whose parts are all known and whose paths are absolute.

    - ``trainers``: settings by model, for models that are trained
    - ``declared``: constraints by entry
    - ``weighings``: by penalty of the file, apart from those that leave weights as declared
    - ``engines``: engine, options (all of them), seed 0 and budget by entry
    """

    file: SweepFile
    trainers: Mapping[str, TrainerSettings]
    declared: Mapping[str, DeclaredConstraints]
    weighings: Mapping[str, Weighing]
    engines: Mapping[str, RunSettings]


def read_sweep_file(path: Path) -> Sweep:
    """Reads a sweep file and checks every name, option and constraint file in it.

    Raises `SweepFileError` with all mistakes, and `OSError` if the file cannot be read.
    """
    sweep, mistakes = read_sound_parts(path, lambda _: ())
    if mistakes or sweep is None:
        raise SweepFileError("\n".join(mistakes))
    return sweep


def read_sound_parts(
    path: Path, further: Callable[[Sweep], Iterable[tuple[Location, str]]]
) -> tuple[Sweep | None, list[str]]:
    """The sweep of all entries of a file without mistakes, and a line for each mistake.

    So what is wrong with an entry hides nothing that is wrong with others. The sweep is None where too little is left,
    or where its cells are not known.

    - ``further``: place and reason of what else is wrong with a sweep

    Raises `SweepFileError` for what is no such file, and `OSError`.
    """
    content, lines = read_content(path, SweepFileError, keys="'corpora', 'models' and 'engines'")
    mistakes = dict[tuple[Location, str], None]()
    sound = SoundContent(content)
    while True:
        sweep, new = _checked(path, sound.content, further)
        mistakes |= dict.fromkeys(new)
        if not new or not sound.drop([place for place, _ in new]):
            messages = mistakes_told(path, lines, mistakes).splitlines()
            return (sweep if not new and sound.has_cells else None), messages


def _checked(
    path: Path, content: Mapping[str, Any], further: Callable[[Sweep], Iterable[tuple[Location, str]]]
) -> tuple[Sweep | None, list[tuple[Location, str]]]:
    """The sweep of a file's content, None where it is of another shape, and its mistakes."""
    try:
        file = SweepFile.model_validate(content)
    except ValidationError as error:
        return None, list(problems(error, SweepFile))
    sweep, mistakes = looked_up(path.parent.absolute(), file)
    return sweep, [*mistakes, *further(sweep)]


def looked_up(folder: Path, file: SweepFile) -> tuple[Sweep, list[tuple[Location, str]]]:
    """A sweep whose paths are relative to a folder, and the place and reason of every part that is not there."""
    parts = _Checked(folder, file)
    return Sweep(parts.placed(), parts.trainers, parts.declared, parts.weighings, parts.engines), parts.mistakes


def is_rising(sizes: Sequence[Size]) -> bool:
    """Whether each size is larger than the one before it; all documents are the largest."""
    numbers = [np.inf if size == "all" else size for size in sizes]
    return all(one < other for one, other in pairwise(numbers))


def is_figure(name: str) -> bool:
    """Whether a measure has such a figure, as MEASURE.FIGURE."""
    measure, _, figure = name.partition(".")
    return measure in MEASURES and figure in FIGURES and figure in MEASURES[measure].figures


class _Checked:
    """A sweep file whose parts are looked up; ``mistakes`` are the places and reasons of those that are not there."""

    def __init__(self, folder: Path, file: SweepFile) -> None:
        self.folder = folder
        self._given = file
        self.file, self._origins = spread(file)
        self.mistakes: list[tuple[Location, str]] = []
        self.trainers: dict[str, TrainerSettings] = {}
        self.declared: dict[str, DeclaredConstraints] = {}
        self.weighings: dict[str, Weighing] = {}
        self.engines: dict[str, RunSettings] = {}
        for name, model in self.file.models.items():
            self._check_model(name, model)
        for name, constraints in self.file.constraints.items():
            self._check_constraints(name, constraints)
        for name, penalty in self.file.penalties.items():
            self._check_penalty(name, penalty)
        for name, engine in self.file.engines.items():
            self._check_engine(name, engine)
        try:
            check_measures(file.measures)
        except UsageError as error:
            self.mistakes.append((("measures",), str(error)))
        self._check_cross()
        self._check_search()
        self._check_select()

    def placed(self) -> SweepFile:
        """The file with absolute paths."""
        file = self.file
        corpora = {name: self._corpus(corpus) for name, corpus in file.corpora.items()}
        models = {
            name: model if model.folder is None else model.model_copy(update={"folder": self._place(model.folder)})
            for name, model in file.models.items()
        }
        constraints = {
            name: entry.model_copy(update={"files": tuple(map(self._place, entry.files))})
            for name, entry in file.constraints.items()
        }
        return file.model_copy(update={"corpora": corpora, "models": models, "constraints": constraints})

    def _corpus(self, corpus: SweptCorpus) -> SweptCorpus:
        places = {name: getattr(corpus, name) for name in ("train", "test", "pool")}
        return corpus.model_copy(update={n: p if p is None else self._place(p) for n, p in places.items()})

    def _place(self, place: str) -> str:
        return place if "://" in place else str(self.folder / Path(place).expanduser())

    def _check_model(self, name: str, model: SweptModel) -> None:
        place: Location = ("models", self._origins[name])
        if model.folder is not None:
            return
        if (untaught := self._untaught) and all(one.corpus is None for one in self.file.cross):
            message = f"is trained, but corpus {untaught[0]!r} has no 'train'; give one, or a model 'folder'"
            self.mistakes.append((place, f"model {name!r} {message}"))
        try:
            settings = trainer_of(model.trainer).settings
        except UsageError as error:
            self.mistakes.append(((*place, "trainer"), str(error)))
            return
        try:
            options = {POOL_OF: "", **model.options} if model.pool and POOL_OF in settings.corpora else model.options
            self.trainers[name] = self._with_places(settings.model_validate(options))
        except ValidationError as error:
            grid = self._given.models[self._origins[name]].grid
            for at, what in problems(error, settings):
                message = what if at and at[0] in grid else what + _several(model.options, at)
                mistake = (*place, "grid" if at and at[0] in grid else "options", *at), message
                if mistake not in self.mistakes:
                    self.mistakes.append(mistake)

            return
        for option in settings.files:
            for file in self.trainers[name].places([option]):
                if not place_of(option, file).exists():
                    self.mistakes.append(((*place, "options", option), f"{file}: no such file"))
        self._check_pool(place, name, model, settings)

    def _check_pool(self, place: Location, name: str, model: SweptModel, settings: type[TrainerSettings]) -> None:
        """A model learns on from a pool if its trainer can, and where there is one."""
        if not model.pool:
            return
        without = [corpus for corpus, entry in self.file.corpora.items() if entry.pool is None]
        if POOL_OF not in settings.corpora:
            self.mistakes.append(((*place, POOL_OF), f"trainer {model.trainer or DEFAULT!r} learns from no pool"))
        elif without and all(one.corpus is None for one in self.file.cross):
            message = f"model {name!r} learns on from a pool, and corpus {without[0]!r} has none"
            self.mistakes.append(((*place, POOL_OF), message))

    def _with_places(self, settings: TrainerSettings) -> TrainerSettings:
        """The settings with absolute paths of corpora and files."""
        placed: dict[str, Any] = {}
        for name in (*settings.corpora, *settings.files):
            value = getattr(settings, name)
            if isinstance(value, tuple | list):
                placed[name] = tuple(self._named_place(name, str(one)) for one in value)
            elif value:
                placed[name] = type(value)(self._named_place(name, str(value)))
        return settings.model_copy(update=placed)

    def _named_place(self, option: str, place: str) -> str:
        """An absolute path, or the name of a resource, which is none."""
        is_name = place in known_resources().get(option, {})
        return place if is_name else self._place(place)

    def _check_constraints(self, name: str, entry: SweptConstraints) -> None:
        place: Location = ("constraints", name)
        parts = list[DeclaredConstraints]()
        for number, file in enumerate(entry.files):
            try:
                parts.append(load_constraints(self._place(file)))
            except ConstraintError as error:
                self.mistakes += [((*place, "files", number), line) for line in str(error).splitlines()]
            except OSError as error:
                message = f"constraint file {file}: {error.strerror or error}"
                self.mistakes.append(((*place, "files", number), message))
        try:
            self.declared[name] = DeclaredConstraints(
                tuple(template for part in parts for template in part.templates),
                tuple(origin for part in parts for origin in part.origins),
            )
        except ConstraintError as error:
            self.mistakes.append((place, str(error)))

    @property
    def _untaught(self) -> list[str]:
        """Corpora without training documents."""
        return [corpus for corpus, entry in self.file.corpora.items() if entry.train is None]

    def _check_penalty(self, name: str, entry: SweptPenalty) -> None:
        place: Location = ("penalties", self._origins[name])
        penalty = entry.penalty or name
        if penalty == DECLARED:
            self.mistakes += [((*place, "options"), f"weights {DECLARED!r} have no options")] if entry.options else []
            return
        if penalty not in PENALTIES:
            self.mistakes.append((place, unknown("penalty", penalty, [DECLARED, *PENALTIES])))
            return
        kind = PENALTIES[penalty].settings
        try:
            weighing = Weighing(penalty, kind.model_validate(entry.options))
            if isinstance(weighing.settings, TunedSettings | LearnedSettings):
                check_figure(weighing.settings.measure, weighing.settings.figure)
        except ValidationError as error:
            self.mistakes += [
                ((*place, "options", *at), what + _several(entry.options, at)) for at, what in problems(error, kind)
            ]
            return
        except UsageError as error:
            self.mistakes.append(((*place, "options"), str(error)))
            return
        self.weighings[name] = weighing
        message = f"penalty {penalty!r} weighs constraints on training documents"
        if (untaught := self._untaught) and all(one.corpus is None for one in self.file.cross):
            self.mistakes.append((place, f"{message}, but corpus {untaught[0]!r} has no 'train'"))
        there = [model for model, one in self.file.models.items() if one.folder is not None]
        if weighing.trains and there and all(one.model is None for one in self.file.cross):
            self.mistakes.append(
                (place, f"{message} that a model has not seen, but model {there[0]!r} is not trained here")
            )

    def _check_engine(self, name: str, engine: SweptEngine) -> None:
        settings = {"engine": engine.engine or name, "options": engine.options}
        budget = {"work": engine.work, "seconds": engine.seconds}
        try:
            self.engines[name] = check_settings(RunSettings.model_validate(settings | budget))
        except UsageError as error:
            lists = [option for option in engine.options if f" {option}: " in str(error)]
            message = "".join(_several(engine.options, (option,)) for option in lists)
            self.mistakes.append((("engines", self._origins[name]), f"{error}{message}"))

    def _check_search(self) -> None:
        """Halving wants a choice, and models that are trained on more and more documents."""
        if self.file.search.kind != "halving":
            return
        mistakes = {
            "wants 'select', the corpus that chooses": self.file.select is None,
            "wants two 'sizes' or more": len(self.file.sizes) < 2,
            "wants 'sizes' from small to large": not is_rising(self.file.sizes),
            "wants models that are trained": any(one.folder is not None for one in self.file.models.values()),
        }
        message = [f"halving {what}" for what, is_wrong in mistakes.items() if is_wrong]
        self.mistakes += [(("search", "kind"), what) for what in message]

    def _check_select(self) -> None:
        """A choice has corpora that are there, other documents for its figures, and a baseline that is there."""
        select = self.file.select
        if select is None:
            return
        for key, names in (("on", (select.on,)), ("report", select.report)):
            for name in names:
                if name not in self.file.corpora:
                    self.mistakes.append((("select", key), unknown("corpus", name, self.file.corpora)))
        reported = select.report or tuple(name for name in self.file.corpora if name != select.on)
        if not select.same_documents and (not reported or select.on in reported):
            message = f"corpus {select.on!r} would choose and be reported on; give another to 'report'"
            self.mistakes.append((("select",), f"{message}, or say `same_documents: true`"))
        if select.baseline is not None:
            for key, entries in self._settings().items():
                if (name := getattr(select.baseline, key)) not in entries:
                    self.mistakes.append((("select", "baseline", key), unknown(key, name, entries)))
        if select.measure is not None and not is_figure(select.measure):
            message = f"want MEASURE.FIGURE, such as spans.f1 (given: {select.measure})"
            self.mistakes.append((("select", "measure"), message))

    def _settings(self) -> Mapping[str, Collection[str]]:
        """The names that a setting is made of."""
        return {
            "model": self.file.models,
            "constraints": self.file.constraints,
            "penalty": {*self.file.penalties, DECLARED},
            "engine": self.file.engines,
        }

    def _check_cross(self) -> None:
        names = {
            "corpus": list(self.file.corpora),
            "model": list(self.file.models),
            "constraints": list(self.file.constraints),
            "penalty": list(self.file.penalties),
            "engine": list(self.file.engines),
        }
        for number, crossing in enumerate(self.file.cross):
            for axis in AXES:
                for value in getattr(crossing, axis) or ():
                    if axis in names and value not in names[axis]:
                        message = f"no {axis} is called {value!r}{nearest(value, names[axis])}"
                        self.mistakes.append((("cross", number, axis), message))


def _several(options: Mapping[str, Any], place: Location) -> str:
    """How a file gives several values of the option at a place, where the option was given a list of them."""
    values = options.get(str(place[0])) if len(place) == 1 else None
    if not isinstance(values, list):
        return ""
    message = ", ".join(map(str, values))
    return f"; for a model or an engine with each of several values write `grid: {{{place[0]}: [{message}]}}`"
