"""What `flows.papers` does: corpora made once, a sweep for each table, its rows, and the page of them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from concord.flows.apart import check_apart
from concord.flows.errors import PapersFailedError, RunFolderError, SweepFailedError
from concord.flows.progress import say
from concord.flows.run_context import HERE, RunContext
from concord.flows.run_sweep import SweepRequest, run_sweep
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.names import unknown
from concord.schemas.published import MeasuredRow, MeasuredTable, PaperFile, PapersReport, PublishedTable
from concord.schemas.settings import Settings
from concord.schemas.sweep import SweepFile
from concord.workers.published.made_corpora import MissingDataError, made_corpus
from concord.workers.published.page import html, markdown
from concord.workers.published.paper_file import SHIPPED, papers_of, read_paper_file
from concord.workers.published.rows import measured, unmeasured
from concord.workers.storage.files import make_folder, write_whole
from concord.workers.sweeps.planning import PlannedCell, kept, listed
from concord.workers.sweeps.results import Store

if TYPE_CHECKING:
    from concord.flows.cluster.cluster import Cluster

CORPORA, SWEEPS = "corpora", "sweeps"
"""Folders of the output: corpora that were made, and a sweep for each table."""

PAGE, HTML_PAGE = "papers.md", "papers.html"
"""Files of the output."""


class PapersRequest(Settings):
    """What `concord papers` was asked for."""

    paper: str
    out: str
    data: str | None = None
    table: str | None = None
    quick: bool = False
    context: RunContext = HERE


class Wanted(NamedTuple):
    """A table to measure; ``name``: of its paper's file."""

    name: str
    file: PaperFile
    number: str

    @property
    def table(self) -> PublishedTable:
        """The table as published."""
        return self.file.tables[self.number]

    @property
    def place(self) -> str:
        """Name of its sweep."""
        return f"{self.name}-{self.number}"


def run_papers(request: PapersRequest, *, files: Path = SHIPPED) -> PapersReport:
    """Measures every table and writes the page; ``files``: folder of the paper files.

    Raises `UsageError`, `PaperFileError` and `CorpusError` before anything runs, and `PapersFailedError`, when the page
    is written, if cells have failed.
    """
    began = time.monotonic()
    wanted = list(_wanted(request, files))
    check_apart(request.out, [request.data])
    _check_data(request)
    out = Path(request.out)
    _check_folder(out)
    tables, failed, counted = list[MeasuredTable](), dict[str, str](), set[str]()
    before: Path | None = None
    with _shared(request.context) as running:
        for one in wanted:
            sweep = Sweeping(request, out, running, before, counted)
            table, reasons, done = _measured(one, sweep)
            tables.append(table)
            failed |= reasons
            before = done or before
    write_whole(out / PAGE, markdown(tables, made_up=request.quick).encode())
    write_whole(out / HTML_PAGE, html(tables, made_up=request.quick).encode())
    report = PapersReport(
        out=str(out),
        page=str(out / PAGE),
        made_up=request.quick,
        tables=tuple(tables),
        failed=failed,
        cpu_seconds=sum(table.cpu_seconds for table in tables),
        seconds=round(time.monotonic() - began, 3),
    )
    if failed:
        raise PapersFailedError(report)
    return report


def _wanted(request: PapersRequest, files: Path) -> Iterator[Wanted]:
    """The tables that are asked for. Raises `UsageError` and `PaperFileError`."""
    read = {name: read_paper_file(files / f"{name}.yaml") for name in papers_of(request.paper, files)}
    known = dict.fromkeys(number for file in read.values() for number in file.tables)
    if request.table is not None and request.table not in known:
        raise UsageError(unknown("table", request.table, known))
    for name, file in read.items():
        yield from (Wanted(name, file, number) for number in file.tables if request.table in (None, number))


def _check_data(request: PapersRequest) -> None:
    """Raises `UsageError` where there is no data are given, `CorpusError` where their folder is missing."""
    if request.quick:
        return
    if request.data is None:
        raise UsageError("give --data, the folder of the real corpora, or --quick for made-up ones")
    if not Path(request.data).expanduser().is_dir():
        raise CorpusError(f"{request.data}: no such folder; give --data, the folder of the real corpora")


def _check_folder(out: Path) -> None:
    """Makes the folder. Raises `RunFolderError` if something else is in it."""
    if out.is_dir() and any(out.iterdir()) and not (out / SWEEPS).is_dir():
        raise RunFolderError(f"{out}: is there and has no tables of papers; give another --out")
    make_folder(out / SWEEPS)


@contextmanager
def _shared(context: RunContext) -> Iterator[Callable[[], Cluster]]:
    """One Ray for all sweeps, started when the first of them has work."""
    with ExitStack() as stack:

        @cache
        def running() -> Cluster:
            from concord.flows.cluster.cluster import cluster

            return stack.enter_context(cluster(context.ray, workers=context.workers))

        yield running


class Sweeping(NamedTuple):
    """What the sweep of a table has to do with.

    ``running``: gives the Ray that all sweeps share
    ``before``: sweep of another table, whose models and results are used again where they are the same
    ``counted``: keys of models and results whose CPU seconds are told already
    """

    request: PapersRequest
    out: Path
    running: Callable[[], Cluster]
    before: Path | None
    counted: set[str]


def _measured(wanted: Wanted, given: Sweeping) -> tuple[MeasuredTable, dict[str, str], Path | None]:
    """A table with its figures, reasons of cells that failed, and the folder of its sweep, if it has one."""
    table = wanted.table
    if table.sweep is None:
        return _without_cells(wanted, None), {}, None
    say(f"{wanted.file.paper}, table {wanted.number}: {table.title}")
    try:
        sweep = _placed(table.sweep, wanted.file, given.request, given.out / CORPORA)
    except MissingDataError as error:
        return _without_cells(wanted, str(error)), {}, None
    file, folder = given.out / SWEEPS / f"{wanted.place}.yaml", given.out / SWEEPS / wanted.place
    write_whole(file, yaml.safe_dump(sweep.model_dump(mode="json", exclude_defaults=True), sort_keys=False).encode())
    failed: dict[str, str] = {}
    try:
        run_sweep(
            SweepRequest(
                file=str(file),
                out=str(folder),
                reuse=None if given.before in (None, folder) else str(given.before),
                retry_failed=True,
                context=given.request.context,
            ),
            running=given.running,
        )
    except SweepFailedError as error:
        # Of a reason of many lines the first will do: `concord sweep log` has the others.
        failed = {f"{wanted.place}: {n}": reason.partition("\n")[0] for n, reason in error.report.failed.items()}
    return _with_cells(wanted, Store(folder), given.request, given.counted), failed, folder


def _placed(sweep: SweepFile, file: PaperFile, request: PapersRequest, folder: Path) -> SweepFile:
    """The sweep with the places of its corpora, which are made where they are not there. Raises `MissingDataError`."""
    data = None if request.quick or request.data is None else Path(request.data).expanduser()
    names = dict.fromkeys(n for corpus in sweep.corpora.values() for n in (corpus.train, corpus.test) if n is not None)
    made = {name: str(made_corpus(name, file.corpora[name], data=data, folder=folder)) for name in names}
    corpora = {
        name: corpus.model_copy(
            update={part: made[given] for part in ("train", "test") if (given := getattr(corpus, part)) is not None}
        )
        for name, corpus in sweep.corpora.items()
    }
    return sweep.model_copy(update={"corpora": corpora})


def _without_cells(wanted: Wanted, why: str | None) -> MeasuredTable:
    """A table of which nothing is measured; ``why``: reason of rows that do not say it themselves."""
    return _table(wanted, [unmeasured(row, row.missing or why) for row in wanted.table.rows], 0.0)


def _with_cells(wanted: Wanted, store: Store, request: PapersRequest, counted: set[str]) -> MeasuredTable:
    """A table whose sweep has ended; ``counted``: keys of what other tables have taken CPU seconds for."""
    planned = kept(store)
    cells = [(one.cell, row) for one, row in zip(planned, listed(planned, store, live=False), strict=True)]
    rows = [measured(row, cells, store) for row in wanted.table.rows]
    if request.quick:
        rows = [row.model_copy(update={"lies": None}) for row in rows]
    return _table(wanted, rows, _cpu_seconds(planned, store, counted))


def _table(wanted: Wanted, rows: Sequence[MeasuredRow], cpu_seconds: float) -> MeasuredTable:
    table = wanted.table
    return MeasuredTable(
        paper=wanted.file.paper,
        table=wanted.number,
        title=table.title,
        note=table.note,
        rows=tuple(rows),
        cpu_seconds=cpu_seconds,
    )


def _cpu_seconds(planned: Sequence[PlannedCell], store: Store, counted: set[str]) -> float:
    """CPU seconds of the engines of cells, and of training their models, each counted once."""
    spent = {key: marker.worker_cpu_seconds for key, marker in store.markers().items()}
    spent |= {key: made.cpu_seconds for key, made in store.models().items()}
    mine = {key for one in planned for key in (one.key, one.model.key)} & spent.keys() - counted
    counted |= mine
    return sum(spent[key] for key in sorted(mine))
