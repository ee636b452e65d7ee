"""Planning of a sweep: the content of every cell, and the state that a folder of results leaves it in."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from concord.schemas.sweep import Cell, CellRow, CellState, SweepPlan
from concord.workers.learning.trainers.registry import DEFAULT
from concord.workers.storage.files import write_whole
from concord.workers.sweeps.cells import cells_of, engine_of, entry_of, rules_of, settings_of
from concord.workers.sweeps.content import TRAINER, Content, cell_content, model_content, weights_content
from concord.workers.sweeps.documents import Documents, Fold, read_by
from concord.workers.sweeps.judging import JudgingJob
from concord.workers.sweeps.results import Failure, LearnedPart, Marker, ResultError, Store
from concord.workers.sweeps.sweep_file import Sweep
from concord.workers.sweeps.training import TrainingJob, TrainingPart
from concord.workers.sweeps.weighing import ToWeigh


class PlannedCell(NamedTuple):
    """A cell with the content of its model, of its weights (None: as declared) and of itself."""

    cell: Cell
    model: Content
    weights: Content | None
    content: Content

    @property
    def key(self) -> str:
        """Key of the result."""
        return self.content.key

    @property
    def is_trained(self) -> bool:
        """Whether the sweep trains the model; otherwise its folder is there."""
        return TRAINER in self.model.parts

    @property
    def wants(self) -> set[str]:
        """Keys of the model to train and of the weights that the cell is judged with."""
        trained = {self.model.key} if self.is_trained else set[str]()
        return trained if self.weights is None else {*trained, self.weights.key}


class SweepCells(NamedTuple):
    """A sweep, the digests of its corpora by place, and its cells in order."""

    sweep: Sweep
    digests: Mapping[str, str]
    cells: Sequence[PlannedCell]

    @classmethod
    def of(cls, sweep: Sweep, digests: Mapping[str, str]) -> SweepCells:
        """Plans every cell; ``digests`` are those of `digests_of`. Raises `CorpusError` for one that cannot be."""
        cells = list[PlannedCell]()
        for cell in cells_of(sweep):
            model = model_content(sweep, cell, digests)
            weights = weights_content(sweep, cell, model, digests)
            cells.append(PlannedCell(cell, model, weights, cell_content(sweep, cell, model, weights, digests)))
        return cls(sweep, digests, cells)

    def trained(self, planned: PlannedCell) -> TrainingJob | None:
        """The model to train for a cell; None for a model folder that is there."""
        cell, model = planned.cell, self.sweep.file.models[planned.cell.model]
        if model.folder is not None:
            return None
        settings = settings_of(self.sweep, cell)
        beside = [place for option in (*settings.corpora, *settings.files) for place in read_by(settings, option)]
        return TrainingJob(
            key=planned.model.key,
            name="/".join([cell.corpus, cell.model, *_drawn(cell)]),
            part=self._part(cell),
            trainer=model.trainer or DEFAULT,
            settings=settings,
            beside={place: self.digests[place] for place in beside},
            consistency=model.consistency,
        )

    def to_weigh(self, planned: PlannedCell, store: Store) -> ToWeigh | None:
        """The constraints to weigh for a cell; None where their weights are as declared."""
        cell = planned.cell
        if planned.weights is None:
            return None
        return ToWeigh(
            key=planned.weights.key,
            name="/".join([cell.corpus, cell.model, *_drawn(cell), cell.constraints, cell.penalty]),
            part=self._part(cell),
            model=self._model(planned, store),
            training=self.trained(planned),
            declared=rules_of(self.sweep, cell.constraints),
            known_only=self.sweep.file.constraints[entry_of(self.sweep, cell.constraints)].known_labels_only,
            weighing=self.sweep.weighings[cell.penalty],
        )

    def judged(self, planned: PlannedCell, store: Store) -> JudgingJob:
        """The cell as a worker takes it."""
        cell, file = planned.cell, self.sweep.file
        corpus, entry = file.corpora[cell.corpus], file.constraints[entry_of(self.sweep, cell.constraints)]
        place = corpus.test or corpus.train
        assert place is not None
        return JudgingJob(
            key=planned.key,
            name=cell.name,
            model=self._model(planned, store),
            model_digest=None if planned.is_trained else planned.model.parts["model"],
            documents=Documents(place, self.digests[place], self._fold(cell)),
            declared=rules_of(self.sweep, cell.constraints),
            weights=None if planned.weights is None else store.weights(planned.weights.key),
            learned=entry.learned,
            consistency=entry.consistency,
            known_only=entry.known_labels_only,
            settings=engine_of(self.sweep, cell),
            measures=file.measures,
        )

    def _part(self, cell: Cell) -> TrainingPart:
        place = self.sweep.file.corpora[cell.corpus].train
        assert place is not None, "its content says so"
        return TrainingPart(Documents(place, self.digests[place], self._fold(cell)), cell.size, cell.subset)

    def _model(self, planned: PlannedCell, store: Store) -> Path:
        """Folder of a cell's model."""
        folder = self.sweep.file.models[planned.cell.model].folder
        return store.model(planned.model.key) if folder is None else Path(folder)

    def _fold(self, cell: Cell) -> Fold | None:
        corpus = self.sweep.file.corpora[cell.corpus]
        if cell.fold is None or corpus.folds is None:
            return None
        return Fold(cell.fold, corpus.folds, corpus.validation)


def _drawn(cell: Cell) -> list[str]:
    """Coordinates that decide the training documents, where they are not the whole corpus."""
    coordinates = {"fold": cell.fold, "size": cell.size, "subset": cell.subset}
    return [f"{name}={value}" for name, value in coordinates.items() if value is not None]


PLAN = "plan.json"
"""File of a sweep's folder: its cells and their content, as they were when it last ran."""


def keep(cells: Sequence[PlannedCell], store: Store) -> None:
    """Writes the plan to the folder. Raises `OutputError`."""
    entries = [
        {
            "cell": c.cell._asdict(),
            "model": c.model.parts,
            "weights": None if c.weights is None else c.weights.parts,
            "content": c.content.parts,
        }
        for c in cells
    ]
    write_whole(store.folder / PLAN, json.dumps(entries).encode())


def kept(store: Store) -> list[PlannedCell]:
    """The plan of the folder. Raises `ResultError` if there is none."""
    path = store.folder / PLAN
    try:
        entries = json.loads(path.read_bytes())
        return [
            PlannedCell(
                Cell(**one["cell"]),
                Content(one["model"]),
                None if one["weights"] is None else Content(one["weights"]),
                Content(one["content"]),
            )
            for one in entries
        ]
    except (OSError, ValueError, KeyError, TypeError):
        raise ResultError(f"{store.folder}: no folder of a sweep (no {PLAN} that can be read in it)") from None


def listed(cells: Sequence[PlannedCell], store: Store, *, live: bool) -> list[CellRow]:
    """The state of every cell; ``live``: is a run at work in the folder? Raises `ResultError`."""
    markers, failures = store.markers(), store.failures()
    by_name: dict[str, Marker] = {marker.name: marker for marker in markers.values()}
    # Cells of one content, such as seeds of an engine without chance, have one result, under the name of one of them.
    before = {cell.key: by_name[cell.cell.name] for cell in cells if cell.cell.name in by_name}
    rows = []
    for cell in cells:
        name, old = cell.cell.name, before.get(cell.key)
        row = CellRow(name=name, key=cell.key, state=CellState.PLANNED)
        failed = failure_of(cell, failures)
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


def failure_of(cell: PlannedCell, failures: Mapping[str, Failure]) -> Failure | None:
    """The last failed attempt at a cell, or at what it wants; ``failures`` by key."""
    return next((failures[key] for key in (cell.key, *sorted(cell.wants)) if key in failures), None)


def estimated(cells: Sequence[PlannedCell], store: Store, rows: Sequence[CellRow]) -> SweepPlan:
    """What is left to do, with its cost by results that are there."""
    markers, parts = store.markers(), store.models() | store.weighings()
    unfinished = [c for c, row in zip(cells, rows, strict=True) if row.state not in (CellState.DONE, CellState.DROPPED)]
    todo = {cell.key: cell for cell in unfinished}.values()
    models = {c.model.key for c in todo if c.is_trained} - parts.keys()
    weights = {c.weights.key for c in todo if c.weights is not None} - parts.keys()
    seconds = _means({m.key: (_engine(m.name), m.worker_cpu_seconds) for m in markers.values()})
    sizes = [marker.bytes for marker in markers.values()]
    costs = [seconds.get(c.cell.engine) for c in todo]
    measured_costs = [cost for cost in costs if cost is not None]
    learning = [_costs(store.models().values(), len(models)), _costs(store.weighings().values(), len(weights))]
    total = None
    if len(measured_costs) == len(costs) and None not in learning:
        total = sum(measured_costs) + sum(cost for cost in learning if cost is not None)
    return SweepPlan(
        out=str(store.folder),
        cells=tuple(rows),
        models=len(models),
        weights=len(weights),
        cpu_seconds=total,
        bytes=round(len(todo) * sum(sizes) / len(sizes)) if sizes else None,
    )


def _costs(parts: Collection[LearnedPart], count: int) -> float | None:
    """CPU seconds of so many more, by the mean of those that are there; None without any."""
    if not count:
        return 0.0
    return count * sum(one.cpu_seconds for one in parts) / len(parts) if parts else None


def _engine(name: str) -> str:
    """The engine in the name of a cell."""
    return name.split("/")[-2]


def _means(numbers: Mapping[str, tuple[str, float]]) -> dict[str, float]:
    """Mean of the numbers by name."""
    by_name: dict[str, list[float]] = {}
    for name, value in numbers.values():
        by_name.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in by_name.items()}
