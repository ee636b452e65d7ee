"""Task of sweeps: units train a model, weigh constraints or judge a cell, and leave the result in its folder."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from concord.schemas.settings import TextSettings
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.remote.task import Task, itself, nothing
from concord.workers.storage.files import write_whole
from concord.workers.sweeps.judging import JudgingJob, judge
from concord.workers.sweeps.results import MODELS, WEIGHINGS, Failure, LearnedPart, Store
from concord.workers.sweeps.training import TrainingJob, train_into
from concord.workers.sweeps.weighing import ToWeigh, weighed


@dataclass(frozen=True)
class UnitsDone:
    """Number of units that are done, and the CPU seconds that they took."""

    units: int
    cpu_seconds: float

    @classmethod
    def merge(cls, parts: Iterable[Self]) -> Self:
        """All parts together."""
        units = list(parts)
        return cls(sum(part.units for part in units), sum(part.cpu_seconds for part in units))


class SweepParts(NamedTuple):
    """Shared parts: the folder of the sweep, which driver and workers share. ``text`` is not used."""

    folder: Path
    text: TextSettings = DEFAULT_TEXT

    @property
    def store(self) -> Store:
        """The folder's files."""
        return Store(self.folder)


@dataclass(frozen=True)
class _LearningUnit:
    """What cells need and the sweep learns first; see `Unit`.

    - ``what``, ``kind``: name in messages, and folder of the results.
    """

    job: TrainingJob | ToWeigh
    what: ClassVar[str]
    kind: ClassVar[str]

    @property
    def id(self) -> str:
        """Key of the result."""
        return self.job.key

    @property
    def size(self) -> int:
        """Training documents; unknown sizes, which are whole corpora, are handed out first."""
        return self.job.part.size or 1 << 40

    @property
    def place(self) -> str:
        """Description for messages."""
        return f"{self.what} {self.job.name}"

    def run(self, store: Store) -> None:
        """Learns, and notes the CPU seconds beside the result."""
        began = time.process_time()
        self.learn(store)
        seconds = time.process_time() - began
        store.note(self.kind, LearnedPart(key=self.job.key, name=self.job.name, cpu_seconds=seconds))

    def learn(self, store: Store) -> None:
        """Writes the result."""
        raise NotImplementedError


@dataclass(frozen=True)
class TrainingUnit(_LearningUnit):
    """A model to train."""

    job: TrainingJob
    what = "model"
    kind = MODELS

    def learn(self, store: Store) -> None:
        """Trains the model."""
        train_into(self.job, store.model(self.job.key))


@dataclass(frozen=True)
class WeighingUnit(_LearningUnit):
    """Constraints to weigh."""

    job: ToWeigh
    what = "weights"
    kind = WEIGHINGS

    def learn(self, store: Store) -> None:
        """Weighs the constraints and writes them as a file."""
        write_whole(store.weights(self.job.key), constraints_text(weighed(self.job), {}).encode())


class CellUnit(NamedTuple):
    """A cell to judge; see `Unit`.

    - ``content``: what decides the result, by part.
    """

    job: JudgingJob
    content: Mapping[str, Any]

    @property
    def size(self) -> int:
        """The same for all: cells are handed out in their order, in which those of a model follow each other."""
        return 1

    @property
    def id(self) -> str:
        """Key of the cell."""
        return self.job.key

    @property
    def place(self) -> str:
        """Description for messages."""
        return f"cell {self.job.name}"

    def run(self, store: Store) -> None:
        """Judges the cell and writes its result."""
        store.write(judge(self.job), self.content)


SweepUnit = TrainingUnit | WeighingUnit | CellUnit


def _run(unit: SweepUnit, parts: SweepParts) -> UnitsDone:
    began = time.process_time()
    with _noted(unit, parts.store):
        unit.run(parts.store)
    return UnitsDone(1, time.process_time() - began)


@contextmanager
def _noted(unit: SweepUnit, store: Store) -> Iterator[None]:
    """Shows that a worker is at the unit; of an error it keeps the traceback."""
    name = unit.place.partition(" ")[2]
    store.begin(unit.id, name)
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        failure = Failure(key=unit.id, name=name, reason=reason, log=traceback.format_exc())
        write_whole(store.failure(unit.id), failure.model_dump_json().encode())
        raise
    finally:
        store.forget(store.running(unit.id))


SWEEP = Task("sweep", SweepParts, run=_run, counts=itself, rehearse=_run, warm=nothing)
