"""What `flows.papers` does: corpora made once, a sweep for each table, its rows, and the page of them all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import ValidationError

from concord.flows.errors import RunFolderError
from concord.flows.inputs.left_ray import one_ray
from concord.flows.inputs.output_places import check_output_place
from concord.flows.screen.progress import say
from concord.flows.sweeping.errors import PapersFailedError, SweepFailedError
from concord.flows.sweeping.run_sweep import run_sweep
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import SweepRequest
from concord.schemas.names import unknown
from concord.schemas.published import MeasuredRow, MeasuredTable, PapersReport
from concord.schemas.requests import PapersRequest
from concord.schemas.shown import Report
from concord.schemas.sweep import SweepFile
from concord.workers.published.made_corpora import DataFolders
from concord.workers.published.page import html, markdown
from concord.workers.published.pairs import counted, uncounted
from concord.workers.published.paper_file import SHIPPED, papers_of, read_paper_file
from concord.workers.published.placing import TableRequest, gathered, placed
from concord.workers.published.rows import measured, unmeasured, with_figures
from concord.workers.storage.files import make_folder, write_whole
from concord.workers.storage.folder_kinds import kind_of, say_kind
from concord.workers.sweeps.planning import PlannedCell, kept, listed
from concord.workers.sweeps.results import Store

CORPORA, SWEEPS, RULE_FILES = "corpora", "sweeps", "rules"
"""Folders of the output: corpora that were made, a sweep for each table, and mined rules."""

PAGE, HTML_PAGE, TABLES = "papers.md", "papers.html", "tables.json"
"""Files of the output: the page of all papers that were measured in it, and the tables of the page."""


def run_papers(request: PapersRequest, *, files: Path = SHIPPED) -> PapersReport:
    """Measures every table, and writes the page of those so far after each; ``files``: folder of the paper files.

    Raises `UsageError`, `PaperFileError` and `CorpusError` before anything runs, and `PapersFailedError`, when the page
    is written, if cells have failed.
    """
    began = time.monotonic()
    check_output_place(request.out, [request.data, request.test_parts], makes=FolderKind.TABLES)
    wanted = list(_wanted(request, files))
    _check_data(request)
    out = Path(request.out)
    _check_folder(out)
    before = _measured_before(out, made_up=request.quick)
    tables, failed = list[MeasuredTable](), dict[str, str]()
    with one_ray():
        given = Sweeping(request, out, {}, set())
        for one in wanted:
            table, reasons = _measured(one, given)
            tables.append(table)
            failed |= reasons
            page = _replaced(before, tables)
            there = {(one.paper, one.table) for one in page}
            left = sum((one.file.paper, one.number) not in there for one in wanted)
            _write_page(out, page, made_up=request.quick, left=left)
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


class _PageTables(Report):
    """The tables of the page, as they stand in its folder."""

    made_up: bool
    tables: tuple[MeasuredTable, ...]


def _measured_before(out: Path, *, made_up: bool) -> Sequence[MeasuredTable]:
    """The tables that the page in a folder has.

    Raises `RunFolderError` if they are of made-up corpora and those to come are not, or the other way round.
    """
    path = out / TABLES
    if not path.exists():
        return ()
    try:
        page = _PageTables.model_validate_json(path.read_bytes())
    except ValidationError:
        raise RunFolderError(f"{path}: is damaged; remove it, or give another --out") from None
    if page.made_up != made_up:
        there = "made-up" if page.made_up else "real"
        raise RunFolderError(f"{out}: its page has tables of {there} corpora; give another --out")
    return page.tables


def _replaced(before: Sequence[MeasuredTable], tables: Sequence[MeasuredTable]) -> list[MeasuredTable]:
    """The tables of a folder, those that are measured again in their places; tables of one paper stand together."""
    new = {(table.paper, table.table): table for table in tables}
    every = {(table.paper, table.table): table for table in before} | new
    papers = list(dict.fromkeys(paper for paper, _ in every))
    return sorted(every.values(), key=lambda table: papers.index(table.paper))


def _write_page(out: Path, tables: Sequence[MeasuredTable], *, made_up: bool, left: int) -> None:
    write_whole(out / TABLES, _PageTables(made_up=made_up, tables=tuple(tables)).model_dump_json().encode())
    write_whole(out / PAGE, markdown(tables, made_up=made_up, unmeasured=left).encode())
    write_whole(out / HTML_PAGE, html(tables, made_up=made_up, unmeasured=left).encode())


def _wanted(request: PapersRequest, files: Path) -> Iterator[TableRequest]:
    """The tables that are asked for. Raises `UsageError` and `PaperFileError`."""
    read = {name: read_paper_file(files / f"{name}.yaml") for name in papers_of(request.paper, files)}
    known = dict.fromkeys(number for file in read.values() for number in file.tables)
    if request.table is not None and request.table not in known:
        raise UsageError(unknown("table", request.table, known))
    for name, file in read.items():
        yield from (TableRequest(name, file, number) for number in file.tables if request.table in (None, number))


def _check_data(request: PapersRequest) -> None:
    """Raises `UsageError` for data that are not given, or test parts without them, `CorpusError` for no such folder."""
    if request.quick:
        if request.test_parts is not None:
            raise UsageError("--test-parts goes with --data; --quick reads made-up corpora alone")
        return
    if request.data is None:
        raise UsageError("give --data, the folder of the real corpora, or --quick for made-up ones")
    if _folder(request.data) is None:
        raise CorpusError(f"{request.data}: no such folder; give --data, the folder of the real corpora")
    if request.test_parts is not None and _folder(request.test_parts) is None:
        raise CorpusError(f"{request.test_parts}: no such folder; give --test-parts, the folder of official test parts")


def _folder(given: str | None) -> Path | None:
    place = None if given is None else Path(given).expanduser()
    return place if place is not None and place.is_dir() else None


def _sources(request: PapersRequest) -> DataFolders:
    return DataFolders(None if request.quick else _folder(request.data), _folder(request.test_parts))


def _check_folder(out: Path) -> None:
    """Makes the folder. Raises `RunFolderError` if something else is in it."""
    if out.is_dir() and any(out.iterdir()) and kind_of(out) is not FolderKind.TABLES:
        raise RunFolderError(f"{out}: is there and has no tables of papers; give another --out")
    make_folder(out / SWEEPS)
    say_kind(out, FolderKind.TABLES)


class Sweeping(NamedTuple):
    """What the sweep of a table has to do with.

    - ``ended``: sweeps of other tables by folder, whose models and results are used again where they are the same
    - ``counted``: keys of models and results whose CPU seconds are told already
    """

    request: PapersRequest
    out: Path
    ended: dict[Path, SweepFile]
    counted: set[str]


def _measured(wanted: TableRequest, given: Sweeping) -> tuple[MeasuredTable, dict[str, str]]:
    """A table with its figures, and reasons of cells that failed."""
    table = wanted.table
    if table.sweep is None and table.pairs is None:
        return _without_cells(wanted, None, given.request), {}
    say(f"{wanted.file.paper}, table {wanted.number}: {table.title}")
    made = gathered(wanted, _sources(given.request), given.out / CORPORA)
    if table.pairs is not None and not made.missing:
        rows = counted(table.pairs, made.places[table.pairs.corpus])
        return _table(wanted, rows, 0.0, given.request), {}
    sweep = placed(wanted, made, given.out / RULE_FILES)
    if sweep is None:
        return _without_cells(wanted, made.why, given.request), {}
    file, folder = given.out / SWEEPS / f"{wanted.place}.yaml", given.out / SWEEPS / wanted.place
    write_whole(file, yaml.safe_dump(sweep.model_dump(mode="json", exclude_defaults=True), sort_keys=False).encode())
    failed: dict[str, str] = {}
    try:
        run_sweep(
            SweepRequest(
                file=str(file),
                out=str(folder),
                reuse=_nearest(sweep, given.ended),
                retry_failed=True,
                context=given.request.context,
            )
        )
    except SweepFailedError as error:
        # Of a reason of many lines the first will do: `concord sweep log` has the others.
        failed = {f"{wanted.place}: {n}": reason.partition("\n")[0] for n, reason in error.report.failed.items()}
    given.ended[folder] = sweep
    return _with_cells(wanted, Store(folder), given, made.why), failed


def _nearest(sweep: SweepFile, ended: Mapping[Path, SweepFile]) -> str | None:
    """The folder of the sweep that shares most models with this one, the later of two; None where none shares any."""
    mine = sweep.models.values()
    shared = {folder: sum(model in other.models.values() for model in mine) for folder, other in ended.items()}
    best = max(reversed(shared), key=lambda folder: shared[folder], default=None)
    return None if best is None or not shared[best] else str(best)


def _without_cells(wanted: TableRequest, why: str | None, request: PapersRequest) -> MeasuredTable:
    """A table of which nothing is measured; ``why``: reason of rows that do not say it themselves."""
    table = wanted.table
    rows = [unmeasured(row, row.missing or why) for row in table.rows]
    return _table(wanted, rows if table.pairs is None else uncounted(table.pairs, why), 0.0, request)


def _with_cells(wanted: TableRequest, store: Store, given: Sweeping, absent: str) -> MeasuredTable:
    """A table whose sweep has ended; ``absent``: why corpora that it was to be measured on are not there."""
    planned = kept(store)
    cells = [(one.cell, row) for one, row in zip(planned, listed(planned, store, live=False), strict=True)]
    rows = [measured(row, cells, store, absent=absent) for row in wanted.table.rows]
    return _table(wanted, rows, _cpu_seconds(planned, store, given.counted), given.request)


def _table(
    wanted: TableRequest, rows: Sequence[MeasuredRow], cpu_seconds: float, request: PapersRequest
) -> MeasuredTable:
    """The table; made-up corpora prove nothing, so that beside theirs no published figure lies anywhere."""
    table, sources, corpora = wanted.table, _sources(request), wanted.file.corpora
    return MeasuredTable(
        paper=wanted.file.paper,
        table=wanted.number,
        title=table.title,
        note=table.note,
        parts=tuple(sources.origin(name, corpora[name]) for name in wanted.corpora if corpora[name].test_part),
        rows=tuple(row.model_copy(update={"lies": None}) if request.quick else row for row in with_figures(rows)),
        cpu_seconds=cpu_seconds,
    )


def _cpu_seconds(planned: Sequence[PlannedCell], store: Store, counted: set[str]) -> float:
    """CPU seconds of the engines of cells, and of training their models, each counted once."""
    spent = {key: marker.worker_cpu_seconds for key, marker in store.markers().items()}
    spent |= {key: made.cpu_seconds for key, made in store.models().items()}
    mine = {key for one in planned for key in (one.key, one.model.key)} & spent.keys() - counted
    counted |= mine
    return sum(spent[key] for key in sorted(mine))
