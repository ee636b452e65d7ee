"""Schedule of a sweep: models are trained, constraints weighed, and cells judged as soon as they have both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from concord.workers.remote.sweep import CellUnit, SweepUnit, TrainingUnit, UnitsDone, WeighingUnit
from concord.workers.storage.files import write_whole
from concord.workers.sweeps.planning import PlannedCell, SweepCells
from concord.workers.sweeps.results import Failure, Store

if TYPE_CHECKING:
    from concord.flows.work.done import Done


class Schedule:
    """Units of the cells to do, handed out when what they want is there."""

    def __init__(self, planned: SweepCells, store: Store, todo: Sequence[PlannedCell]) -> None:
        self._planned, self._store = planned, store
        self._there = store.models().keys() | store.weighings().keys()
        self._waiting: dict[str, SweepUnit] = {}
        self._wants: dict[str, set[str]] = {}
        for cell in todo:
            self._wait(cell)
        self.total = len(self._waiting)

    def _wait(self, cell: PlannedCell) -> None:
        """Adds the units of a cell, each with the keys that it wants."""
        trained = {cell.model.key} if cell.is_trained else set[str]()
        learned, given = self._planned.trained(cell), self._planned.to_weigh(cell, self._store)
        if learned is not None and learned.key not in self._there:
            self._add(TrainingUnit(learned), set())
        if given is not None and given.key not in self._there:
            self._add(WeighingUnit(given), trained)
        self._add(CellUnit(self._planned.judged(cell, self._store), cell.content.parts), cell.wants)

    def _add(self, unit: SweepUnit, wants: set[str]) -> None:
        self._waiting[unit.id] = unit
        self._wants[unit.id] = wants - self._there

    def ready(self) -> list[SweepUnit]:
        """The units that want nothing more and were not handed out."""
        found = [key for key in self._waiting if not self._wants[key]]
        return [self._waiting.pop(key) for key in found]

    def after(self, done: Done[SweepUnit, UnitsDone]) -> list[SweepUnit]:
        """The units that only waited for this one; none for a failure."""
        if done.result is None or isinstance(done.shard, CellUnit):
            return []
        for wanted in self._wants.values():
            wanted.discard(done.shard.id)
        return self.ready()


@dataclass
class UnitsMade:
    """What has come of the units of a run; failures are kept in the sweep's folder."""

    store: Store
    units: list[SweepUnit] = field(default_factory=list)

    def count(self, kind: type[Any]) -> int:
        """Number of units of a kind that have a result."""
        return sum(isinstance(unit, kind) for unit in self.units)

    def add(self, done: Done[SweepUnit, UnitsDone]) -> None:
        """Takes the result of a unit, or keeps the reason where its worker could not: it has died, or was stopped."""
        failure = self.store.failure(done.shard.id)
        if done.result is not None:
            self.units.append(done.shard)
            self.store.forget(failure)
        elif not failure.exists():
            name = done.shard.place.partition(" ")[2]
            recorded = Failure(key=done.shard.id, name=name, reason=done.error or "", log=done.failure)
            write_whole(failure, recorded.model_dump_json().encode())
