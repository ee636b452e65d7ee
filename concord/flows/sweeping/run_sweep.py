"""What `flows.sweep` does on one pool of Ray: models, weights and cells; results and failures stay in the folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.errors import RunFolderError
from concord.flows.inputs.jobs import check_sources, run_tags
from concord.flows.inputs.output_places import check_inputs, check_output_place
from concord.flows.runfolder.locks import LOCK, is_at_work, locked
from concord.flows.screen.progress import meter, say
from concord.flows.sweeping.errors import SweepFailedError
from concord.flows.sweeping.sweep_schedule import Schedule, UnitsMade
from concord.schemas.errors import InputError
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import SweepRequest
from concord.schemas.run_context import RunContext
from concord.schemas.sweep import Cell, CellRow, CellState, SweepFile, SweepPlan, SweepReport
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.models.loaders import load_model
from concord.workers.remote.sweep import SWEEP, SweepParts, TrainingUnit, WeighingUnit
from concord.workers.storage.files import TEMPORARY, copy, make_folder, staged, write_whole, writing
from concord.workers.storage.folder_kinds import kind_of, say_kind
from concord.workers.storage.lined_yaml import Location
from concord.workers.sweeps.content import corpora_of, digests_of, folders_of
from concord.workers.sweeps.documents import Documents, documents_of
from concord.workers.sweeps.foresight import cell_mistakes
from concord.workers.sweeps.planning import PlannedCell, SweepCells, estimated, keep, kept, listed
from concord.workers.sweeps.results import MODELS, RUNNING, WEIGHINGS, Marker, Store
from concord.workers.sweeps.searching import Choice, keep_choice, standing, without_dropped
from concord.workers.sweeps.sweep_file import Sweep, SweepFileError, read_sound_parts
from concord.workers.sweeps.tables import check_documents_apart, long_table

if TYPE_CHECKING:
    from concord.flows.tracking.tracking import Run, Tracking

COPY = "sweep.yaml"
"""File of the folder: the sweep file as it was when it last ran."""

CELLS_TABLE, TIMES_TABLE = "cells.parquet", "times.parquet"
"""Files of the folder: every figure of every cell; CPU seconds of cells and models."""


MOST_RUNS = 200
"""Number of cells up to which each is a run in MLflow, unless the file says otherwise; a run takes 20 ms of CPU."""


def plan_sweep(file: str, out: str) -> SweepPlan:
    """What a sweep would do; nothing is written. Raises `SweepFileError`, `CorpusError` and `ModelError`."""
    planned, store = _planned(file), Store(Path(out))
    check_output_place(out, [file, *_inputs(planned.sweep)], makes=FolderKind.SWEEP)
    _check_choice(planned)
    rows = _states(planned, store, live=is_at_work(store.folder))
    return estimated(planned.cells, store, rows)


def run_sweep(request: SweepRequest) -> SweepReport:
    """Plans, trains, judges, and writes the tables. Raises `SweepFailedError` if a cell has failed."""
    began = time.monotonic()
    planned, store = _planned(request.file), Store(Path(request.out))
    check_inputs(request.out, [request.file, request.reuse, *_inputs(planned.sweep)])
    _check_choice(planned)
    tracker = cache(partial(_tracker, request.context.tracking))
    with _alone(store):
        if request.retry_failed:
            _forget_failures(planned.cells, store)
        before = listed(planned.cells, store, live=False)
        keep(planned.cells, store)
        keep_choice(Choice.of(planned.sweep.file), store)
        write_whole(store.folder / COPY, Path(request.file).read_bytes())
        reused = 0 if request.reuse is None else _reuse(planned.cells, store, Store(Path(request.reuse)))
        made = _work(planned, store, request.context, meanwhile=tracker)
        rows = _states(planned, store, live=False)
        report = _report(rows, store, made, reused)
        _write_tables(planned.cells, rows, store)
        if made.units or reused or report.failed:
            pairs = zip(planned.cells, rows, before, strict=True)
            new = [(cell.cell, row) for cell, row, former in pairs if row.state is not former.state]
            cells = new if _has_runs(planned.sweep.file, len(rows)) else []
            report = _tracked(tracker(), request, report, store, cells)
        report = report.model_copy(update={"seconds": round(time.monotonic() - began, 3)})
    if report.failed:
        raise SweepFailedError(report)
    return report


def _planned(file: str) -> SweepCells:
    """The sweep with the content of every cell, none of which is known to fail.

    Raises `SweepFileError` with all that is wrong with the file and its cells, `CorpusError` and `ModelError`.
    """
    sweep, mistakes = read_sound_parts(Path(file).expanduser(), _missing_places)
    if sweep is not None:
        planned = SweepCells.of(sweep, digests_of(sweep))
        mistakes += cell_mistakes(file, sweep, [one.cell for one in planned.cells], planned.digests)
    if mistakes or sweep is None:
        raise SweepFileError("\n".join(mistakes))
    return planned


def _missing_places(sweep: Sweep) -> Iterator[tuple[Location, str]]:
    """Corpora and model folders of a sweep that are not there. URIs are not asked."""
    for name, corpus in sweep.file.corpora.items():
        for key in ("train", "test", "pool"):
            place = getattr(corpus, key)
            if place is not None:
                yield from _fault(("corpora", name, key), partial(check_sources, [place]))
    for name, model in sweep.file.models.items():
        if model.folder is not None:
            yield from _fault(("models", name, "folder"), partial(check_sources, [], model=model.folder))


def _fault(place: Location, check: Callable[[], None]) -> Iterator[tuple[Location, str]]:
    try:
        check()
    except InputError as error:
        yield place, str(error)


def _states(planned: SweepCells, store: Store, *, live: bool) -> list[CellRow]:
    """The state of every cell, with those that the search has dropped."""
    rows, cells = listed(planned.cells, store, live=live), [one.cell for one in planned.cells]
    found = standing(list(zip(cells, rows, strict=True)), store, Choice.of(planned.sweep.file))
    return without_dropped(rows, cells, found)


def _check_choice(planned: SweepCells) -> None:
    """Raises `ResultError` if a document would choose a setting and be reported on, unless the file says so."""
    select = planned.sweep.file.select
    if select is None or select.same_documents:
        return
    corpora, ids = planned.sweep.file.corpora, dict[str, set[str]]()
    for name in (select.on, *Choice.of(planned.sweep.file).reported):
        place = corpora[name].test or corpora[name].train
        assert place is not None
        read = documents_of(Documents(place, planned.digests[place]))
        ids[name] = {document.doc_id for document in read}
    for name in ids.keys() - {select.on}:
        check_documents_apart(ids[select.on], ids[name])


def _inputs(sweep: Sweep) -> list[str]:
    """Everything that a sweep reads, by its place."""
    rules = [place for entry in sweep.file.constraints.values() for place in entry.files]
    beside = [place for settings in sweep.trainers.values() for place in settings.places()]
    return [*corpora_of(sweep), *folders_of(sweep), *beside, *rules]


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Makes the folder and keeps other runs out of it; files of runs that were killed are removed.

    Raises `RunFolderError` if another run is at work there, or something else than a sweep is in it.
    """
    folder = store.folder
    if kind_of(folder) is not FolderKind.SWEEP and folder.is_dir() and not _is_left(folder):
        raise RunFolderError(f"{folder}: is there and is no sweep; give another --out")
    make_folder(folder)
    with locked(folder / LOCK, folder):
        say_kind(folder, FolderKind.SWEEP)
        store.make()
        for left in (folder / RUNNING).iterdir():
            store.forget(left)
        yield


def _is_left(folder: Path) -> bool:
    """Has a folder nothing but what a sweep leaves that is killed before it has said what the folder is?"""
    return all(path.name == LOCK or path.name.startswith(TEMPORARY) for path in folder.iterdir())


def _reuse(cells: Sequence[PlannedCell], store: Store, other: Store) -> int:
    """Copies results, models and weights of equal content from another sweep; returns the number of cells.

    What is damaged there is told, and done again.
    """
    kept(other)
    there, missing = other.markers(), {cell.key: cell.cell.name for cell in cells if not store.is_done(cell.key)}
    results = [key for key in missing if key in there and _is_whole(partial(other.read, key))]
    for key in results:
        copy(other.table(key), store.table(key))
        marker = there[key].model_copy(update={"name": missing[key]})
        write_whole(store.marker(key), marker.model_dump_json().encode())
    wanted, models, weighings = {key for cell in cells for key in cell.wants}, other.models(), other.weighings()
    for key in sorted(wanted & models.keys() - store.models().keys()):
        if _is_whole(partial(load_model, other.model(key))):
            with staged(store.model(key)) as place, writing(place):
                shutil.copytree(other.model(key), place, dirs_exist_ok=True)
            store.note(MODELS, models[key])
    for key in sorted(wanted & weighings.keys() - store.weighings().keys()):
        if _is_whole(partial(load_constraints, other.weights(key))):
            copy(other.weights(key), store.weights(key))
            store.note(WEIGHINGS, weighings[key])
    return sum(cell.key in set(results) for cell in cells)


def _is_whole(read: Callable[[], Any]) -> bool:
    """Whether something of another sweep can be read; if not, it says so."""
    try:
        read()
    except InputError as error:
        say(f"not used again: {error}")
        return False
    return True


def _forget_failures(cells: Sequence[PlannedCell], store: Store) -> None:
    for key in {key for cell in cells for key in (cell.key, *cell.wants)}:
        store.forget(store.failure(key))


def _work(planned: SweepCells, store: Store, context: RunContext, *, meanwhile: Callable[[], object]) -> UnitsMade:
    """Trains, weighs and judges what is left; ``meanwhile`` is called once as the workers start."""
    made = UnitsMade(store)
    if not _left(planned, store):
        return made
    # Ray takes a second to import, and a sweep with nothing to do needs none.
    from concord.flows.cluster.cluster import cluster

    with (
        cluster(context.ray, workers=context.workers) as running,
        running.pool(SWEEP, SweepParts(store.folder), most=len(planned.cells)) as work,
    ):
        meanwhile()
        # What a search tries next depends on what it has found.
        while todo := _left(planned, store):
            schedule = Schedule(planned, store, todo)
            with meter("sweep", schedule.total) as bar:
                for done in work(schedule.ready(), schedule.after):
                    made.add(done)
                    bar.advance(note=done.shard.place)
    return made


def _left(planned: SweepCells, store: Store) -> list[PlannedCell]:
    """The cells to do now, one of each content: it has one result, whatever its cells are called."""
    rows = listed(planned.cells, store, live=False)
    pairs = [(cell.cell, row) for cell, row in zip(planned.cells, rows, strict=True)]
    may = standing(pairs, store, Choice.of(planned.sweep.file)).open
    left = {CellState.PLANNED, CellState.STALE}
    todo = [cell for cell, row in zip(planned.cells, rows, strict=True) if row.state in left and cell.cell in may]
    return list({cell.key: cell for cell in reversed(todo)}.values())[::-1]


def _report(rows: Sequence[CellRow], store: Store, made: UnitsMade, reused: int) -> SweepReport:
    markers, now = store.markers(), {unit.id for unit in made.units}
    mine = {row.key for row in rows if row.state is CellState.DONE}
    return SweepReport(
        out=str(store.folder),
        cells=len(rows),
        done=sum(row.state is CellState.DONE for row in rows),
        made=sum(row.key in now for row in rows),
        reused=reused,
        models=made.count(TrainingUnit),
        weights=made.count(WeighingUnit),
        failed={row.name: row.reason or "" for row in rows if row.state is CellState.FAILED},
        cpu_seconds=sum(markers[key].cpu_seconds for key in sorted(mine)),
        seconds=0.0,
    )


def _write_tables(cells: Sequence[PlannedCell], rows: Sequence[CellRow], store: Store) -> None:
    """Writes the tables of the folder. Raises `OutputError`."""
    markers = store.markers()
    pairs = [(cell.cell, row) for cell, row in zip(cells, rows, strict=True)]
    _write(long_table(pairs, markers), store.folder / CELLS_TABLE)
    _write(_times(cells, markers, store), store.folder / TIMES_TABLE)


def _times(cells: Sequence[PlannedCell], markers: Mapping[str, Marker], store: Store) -> pa.Table:
    """CPU seconds of each cell's engine and worker, of its model (null: a folder) and its weights (null: declared)."""
    models, weighings = store.models(), store.weighings()
    done = [cell for cell in cells if cell.key in markers]
    training = [models[c.model.key].cpu_seconds if c.model.key in models else None for c in done]
    weighed = [weighings.get(cell.weights.key) if cell.weights is not None else None for cell in done]
    return pa.table(
        {
            "cell": pa.array([cell.cell.name for cell in done], pa.string()),
            "cpu_seconds": pa.array([markers[cell.key].cpu_seconds for cell in done], pa.float64()),
            "worker_cpu_seconds": pa.array([markers[cell.key].worker_cpu_seconds for cell in done], pa.float64()),
            "training_cpu_seconds": pa.array(training, pa.float64()),
            "weighing_cpu_seconds": pa.array([None if w is None else w.cpu_seconds for w in weighed], pa.float64()),
        }
    )


def _write(table: pa.Table, path: Path) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())


def _has_runs(file: SweepFile, cells: int) -> bool:
    """Whether each cell is a run in MLflow."""
    return file.tracking == "runs" or (file.tracking is None and cells <= MOST_RUNS)


def _tracker(uri: str | None) -> Tracking:
    """MLflow; it takes seconds to import, and what is wrong with its address is told before the work."""
    from concord.flows.tracking.tracking import Tracking

    return Tracking(uri)


def _tracked(
    tracking: Tracking,
    request: SweepRequest,
    report: SweepReport,
    store: Store,
    cells: Sequence[tuple[Cell, CellRow]],
) -> SweepReport:
    """The report with the id of the MLflow run that has its figures and tables; ``cells`` are runs within it."""
    from concord.flows.tracking.tracking import Outcome

    with tracking.run(f"sweep {Path(request.file).name}", tags=run_tags(job="sweep", out=request.out)) as run:
        run.params({"file": request.file, "cells": report.cells})
        for name in (COPY, CELLS_TABLE, TIMES_TABLE):
            run.file(store.folder / name)
        markers = store.markers()
        for cell, row in cells:
            if row.state in (CellState.DONE, CellState.FAILED):
                _track_cell(tracking, run, cell, row, markers.get(row.key))
        figures = {"done": report.done, "made": report.made, "models": report.models, "failed": len(report.failed)}
        failures = [f"{name}: {reason}" for name, reason in report.failed.items()]
        run.end(Outcome.now({**figures, "cpu_seconds": report.cpu_seconds}, failures=failures))
        return report.model_copy(update={"mlflow_run": run.id})


def _track_cell(tracking: Tracking, run: Run, cell: Cell, row: CellRow, marker: Marker | None) -> None:
    """A cell as a run in MLflow: its axes, its figures, and the CPU seconds of its worker as its length."""
    from concord.flows.tracking.tracking import Outcome

    figures = dict[str, float]() if marker is None else {name: value for name, (value, _, _) in marker.figures.items()}
    seconds = 0.0
    if marker is not None:
        figures |= {name: total for name, total in marker.sums.items() if total is not None}
        seconds = figures["cpu_seconds"] = marker.worker_cpu_seconds
    outcome = Outcome.now(figures, failures=[row.reason or ""] if row.state is CellState.FAILED else ())
    start = outcome.time_ms - round(1000 * seconds)
    tracking.child(run, row.name, params={**cell._asdict(), "key": row.key}, outcome=outcome, start_ms=start)
