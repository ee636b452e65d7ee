"""Planning of a sweep: the content of every cell, and the state that a folder of results leaves it in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from concord.schemas.sweep import Cell, CellRow, CellState, SweepPlan
from concord.workers.learning.trainers.registry import DEFAULT
from concord.workers.storage.files import write_whole
from concord.workers.sweeps.cells import cells_of, entry_of, rules_of
from concord.workers.sweeps.content import TRAINER, Content, cell_content, model_content
from concord.workers.sweeps.documents import Documents, Fold
from concord.workers.sweeps.judging import Judged
from concord.workers.sweeps.results import Marker, ResultError, Store
from concord.workers.sweeps.sweep_file import Sweep
from concord.workers.sweeps.training import Learned


class PlannedCell(NamedTuple):
    """A cell with the content of its model and of itself."""

    cell: Cell
    model: Content
    content: Content

    @property
    def key(self) -> str:
        """Key of the result."""
        return self.content.key

    @property
    def is_trained(self) -> bool:
        """Whether the sweep trains the model; otherwise its folder is there."""
        return TRAINER in self.model.parts


class Planned(NamedTuple):
    """A sweep, the digests of its corpora by place, and its cells in order."""

    sweep: Sweep
    digests: Mapping[str, str]
    cells: Sequence[PlannedCell]

    @classmethod
    def of(cls, sweep: Sweep, digests: Mapping[str, str]) -> Planned:
        """Plans every cell. Raises `ModelError` for a model folder that cannot be read."""
        cells = [
            PlannedCell(cell, model_content(sweep, cell, digests), cell_content(sweep, cell, digests))
            for cell in cells_of(sweep)
        ]
        return cls(sweep, digests, cells)

    def trained(self, planned: PlannedCell) -> Learned | None:
        """The model to train for a cell; None for a model folder that is there."""
        cell, file = planned.cell, self.sweep.file
        model, corpus = file.models[cell.model], file.corpora[cell.corpus]
        if model.folder is not None:
            return None
        assert corpus.train is not None
        parts = [cell.corpus, cell.model, *(f"{n}={v}" for n, v in _drawn(cell).items())]
        return Learned(
            key=planned.model.key,
            name="/".join(parts),
            documents=Documents(corpus.train, self.digests[corpus.train], self._fold(cell)),
            size=cell.size,
            subset=cell.subset,
            trainer=model.trainer or DEFAULT,
            settings=self.sweep.trainers[cell.model],
            consistency=model.consistency,
        )

    def judged(self, planned: PlannedCell, store: Store) -> Judged:
        """The cell as a worker takes it."""
        cell, file = planned.cell, self.sweep.file
        corpus, model = file.corpora[cell.corpus], file.models[cell.model]
        place = corpus.test or corpus.train
        assert place is not None
        return Judged(
            key=planned.key,
            name=cell.name,
            model=store.model(planned.model.key) if model.folder is None else Path(model.folder),
            documents=Documents(place, self.digests[place], self._fold(cell)),
            declared=rules_of(self.sweep, cell.constraints),
            consistency=file.constraints[entry_of(self.sweep, cell.constraints)].consistency,
            known_only=file.constraints[entry_of(self.sweep, cell.constraints)].known_labels_only,
            settings=self.sweep.engines[cell.engine].model_copy(update={"seed": cell.seed}),
            measures=file.measures,
        )

    def _fold(self, cell: Cell) -> Fold | None:
        corpus = self.sweep.file.corpora[cell.corpus]
        if cell.fold is None or corpus.folds is None:
            return None
        return Fold(cell.fold, corpus.folds, corpus.validation)


def _drawn(cell: Cell) -> dict[str, int]:
    """Coordinates that decide the training documents, where they are not the whole corpus."""
    given = {"fold": cell.fold, "size": cell.size, "subset": cell.subset}
    return {name: value for name, value in given.items() if value is not None}


PLAN = "plan.json"
"""File of a sweep's folder: its cells and their content, as they were when it last ran."""


def keep(cells: Sequence[PlannedCell], store: Store) -> None:
    """Writes the plan to the folder. Raises `OutputError`."""
    told = [{"cell": c.cell._asdict(), "model": dict(c.model.parts), "content": dict(c.content.parts)} for c in cells]
    write_whole(store.folder / PLAN, json.dumps(told).encode())


def kept(store: Store) -> list[PlannedCell]:
    """The plan of the folder. Raises `ResultError` if there is none."""
    path = store.folder / PLAN
    try:
        told = json.loads(path.read_bytes())
        return [PlannedCell(Cell(**one["cell"]), Content(one["model"]), Content(one["content"])) for one in told]
    except (OSError, ValueError, KeyError, TypeError):
        raise ResultError(f"{store.folder}: no folder of a sweep (no {PLAN} that can be read in it)") from None


def listed(cells: Sequence[PlannedCell], store: Store, *, live: bool) -> list[CellRow]:
    """The state of every cell; ``live``: is a run at work in the folder? Raises `ResultError`."""
    markers, failures = store.markers(), store.failures()
    by_name: dict[str, Marker] = {marker.name: marker for marker in markers.values()}
    rows = []
    for cell in cells:
        name, old = cell.cell.name, by_name.get(cell.cell.name)
        row = CellRow(name=name, key=cell.key, state=CellState.PLANNED)
        failed = failures.get(cell.key) or failures.get(cell.model.key)
        if cell.key in markers:
            row = row.model_copy(update={"state": CellState.DONE})
        elif live and store.running(cell.key).exists():
            row = row.model_copy(update={"state": CellState.RUNNING})
        elif failed is not None:
            row = row.model_copy(update={"state": CellState.FAILED, "reason": failed.reason})
        elif old is not None:
            row = row.model_copy(update={"state": CellState.STALE, "changed": cell.content.changed(old.content)})
        rows.append(row)
    return rows


def estimated(cells: Sequence[PlannedCell], store: Store, rows: Sequence[CellRow]) -> SweepPlan:
    """What is left to do, with its cost by results that are there."""
    markers, models = store.markers(), store.models()
    todo = [c for c, row in zip(cells, rows, strict=True) if row.state not in (CellState.DONE, CellState.DROPPED)]
    missing = {c.model.key for c in todo if c.is_trained} - models.keys()
    seconds = _means({m.key: (_engine(m.name), m.worker_cpu_seconds) for m in markers.values()})
    sizes = [marker.bytes for marker in markers.values()]
    costs = [seconds.get(c.cell.engine) for c in todo]
    known = [cost for cost in costs if cost is not None]
    training = [made.cpu_seconds for made in models.values()]
    total = None
    if len(known) == len(costs) and (training or not missing):
        total = sum(known) + len(missing) * (sum(training) / len(training) if training else 0.0)
    return SweepPlan(
        out=str(store.folder),
        cells=tuple(rows),
        models=len(missing),
        cpu_seconds=total,
        bytes=round(len(todo) * sum(sizes) / len(sizes)) if sizes else None,
    )


def _engine(name: str) -> str:
    """The engine in the name of a cell."""
    return name.split("/")[-2]


def _means(given: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """Mean of the numbers by name."""
    found: dict[str, list[float]] = {}
    for name, value in given.values():
        found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}
