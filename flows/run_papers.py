"""What `flows.papers` does: corpora made once, a sweep for each table, its rows, and the page of them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from concord.schemas.published import (
    MINED,
    MeasuredRow,
    MeasuredTable,
    PaperFile,
    PapersReport,
    PublishedRules,
    PublishedTable,
)
from concord.schemas.settings import Settings
from concord.schemas.sweep import SweepFile, SweptConstraints
from concord.workers.published.made_corpora import MissingDataError, Sources, made_corpus
from concord.workers.published.mined_rules import mined_file
from concord.workers.published.page import html, markdown
from concord.workers.published.pairs import counted, uncounted
from concord.workers.published.paper_file import SHIPPED, mined_in, papers_of, read_paper_file, taught_beside
from concord.workers.published.rows import measured, unmeasured
from concord.workers.storage.files import make_folder, write_whole
from concord.workers.sweeps.planning import PlannedCell, kept, listed
from concord.workers.sweeps.results import Store

if TYPE_CHECKING:
    from concord.flows.cluster.cluster import Cluster

CORPORA, SWEEPS, RULES = "corpora", "sweeps", "rules"
"""Folders of the output: corpora that were made, a sweep for each table, and mined rules."""

PAGE, HTML_PAGE = "papers.md", "papers.html"
"""Files of the output."""


class PapersRequest(Settings):
    """What `concord papers` was asked for."""

    paper: str
    out: str
    data: str | None = None
    table: str | None = None
    test_parts: str | None = None
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
    def corpora(self) -> list[str]:
        """Names of the corpora that it is measured on."""
        if self.table.pairs is not None:
            return [self.table.pairs.corpus]
        if self.table.sweep is None:
            return []
        swept, models = self.table.sweep.corpora.values(), self.table.sweep.models.values()
        judged = [name for corpus in swept for name in (corpus.train, corpus.test) if name is not None]
        return list(dict.fromkeys([*judged, *(name for model in models for name in taught_beside(model).values())]))

    @property
    def rules(self) -> dict[str, PublishedRules]:
        """The mined rules that it uses."""
        entries = () if self.table.sweep is None else self.table.sweep.constraints.values()
        return {name: self.file.mined[name] for entry in entries for name in mined_in(entry)}

    @property
    def place(self) -> str:
        """Name of its sweep."""
        return f"{self.name}-{self.number}".replace(" ", "-")


def run_papers(request: PapersRequest, *, files: Path = SHIPPED) -> PapersReport:
    """Measures every table and writes the page; ``files``: folder of the paper files.

    Raises `UsageError`, `PaperFileError` and `CorpusError` before anything runs, and `PapersFailedError`, when the page
    is written, if cells have failed.
    """
    began = time.monotonic()
    wanted = list(_wanted(request, files))
    check_apart(request.out, [request.data, request.test_parts])
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


def _sources(request: PapersRequest) -> Sources:
    return Sources(None if request.quick else _folder(request.data), _folder(request.test_parts))


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
    if table.sweep is None and table.pairs is None:
        return _without_cells(wanted, None, given.request), {}, None
    say(f"{wanted.file.paper}, table {wanted.number}: {table.title}")
    began = time.process_time()
    places, missing = _made(wanted, given)
    if table.pairs is not None and not missing:
        rows = counted(table.pairs, places[table.pairs.corpus])
        return _table(wanted, rows, time.process_time() - began, given.request), {}, None
    left = None if table.sweep is None else _without_corpora(table.sweep, missing)
    if left is None:
        return _without_cells(wanted, "; ".join(dict.fromkeys(missing.values())), given.request), {}, None
    sweep = _placed(left, wanted.file, places, given.out / RULES)
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
    return _with_cells(wanted, Store(folder), given, missing), failed, folder


def _made(wanted: Wanted, given: Sweeping) -> tuple[dict[str, Path], dict[str, str]]:
    """Places of the table's corpora and of those that its mined rules are of, and why others are missing."""
    names, sources = [*wanted.corpora, *(rules.corpus for rules in wanted.rules.values())], _sources(given.request)
    places, missing, folder = dict[str, Path](), dict[str, str](), given.out / CORPORA
    for name in dict.fromkeys(names):
        try:
            places[name] = made_corpus(name, wanted.file.corpora, sources=sources, folder=folder)
        except MissingDataError as error:
            missing[name] = str(error)
    return places, missing


def _without_corpora(sweep: SweepFile, missing: Mapping[str, str]) -> SweepFile | None:
    """The sweep without corpora whose documents are missing; None where models or all corpora want these."""
    left = {name: corpus for name, corpus in sweep.corpora.items() if not {corpus.train, corpus.test} & set(missing)}
    beside = {corpus for model in sweep.models.values() for corpus in taught_beside(model).values()}
    if not left or beside & set(missing):
        return None
    kept = ((one, one.corpus and tuple(name for name in one.corpus if name in left)) for one in sweep.cross)
    cross = tuple(one.model_copy(update={"corpus": names}) for one, names in kept if names != ())
    return sweep.model_copy(update={"corpora": left, "cross": cross})


def _placed(sweep: SweepFile, file: PaperFile, places: Mapping[str, Path], folder: Path) -> SweepFile:
    """The sweep with the places of its corpora and of the files of mined rules, which are made below ``folder``."""
    corpora = {
        name: corpus.model_copy(
            update={part: str(places[n]) for part in ("train", "test") if (n := getattr(corpus, part)) is not None}
        )
        for name, corpus in sweep.corpora.items()
    }
    models = {
        name: model.model_copy(
            update={"options": {**model.options, **{o: str(places[n]) for o, n in taught_beside(model).items()}}}
        )
        for name, model in sweep.models.items()
    }
    constraints = {name: _with_rules(entry, file, places, folder) for name, entry in sweep.constraints.items()}
    return sweep.model_copy(update={"corpora": corpora, "models": models, "constraints": constraints})


def _with_rules(entry: SweptConstraints, file: PaperFile, places: Mapping[str, Path], folder: Path) -> SweptConstraints:
    """Constraints with the places of their mined rules."""
    rules = {f"{MINED}{name}": (name, file.mined[name]) for name in mined_in(entry)}
    files = [
        str(mined_file(*rules[given], places[rules[given][1].corpus], folder)) if given in rules else given
        for given in entry.files
    ]
    return entry.model_copy(update={"files": tuple(files)})


def _without_cells(wanted: Wanted, why: str | None, request: PapersRequest) -> MeasuredTable:
    """A table of which nothing is measured; ``why``: reason of rows that do not say it themselves."""
    table = wanted.table
    rows = [unmeasured(row, row.missing or why) for row in table.rows]
    return _table(wanted, rows if table.pairs is None else uncounted(table.pairs, why), 0.0, request)


def _with_cells(wanted: Wanted, store: Store, given: Sweeping, missing: Mapping[str, str]) -> MeasuredTable:
    """A table whose sweep has ended; ``missing``: why corpora that it was to be measured on are not there."""
    planned, absent = kept(store), "; ".join(dict.fromkeys(missing.values()))
    cells = [(one.cell, row) for one, row in zip(planned, listed(planned, store, live=False), strict=True)]
    rows = [measured(row, cells, store, absent=absent) for row in wanted.table.rows]
    return _table(wanted, rows, _cpu_seconds(planned, store, given.counted), given.request)


def _table(wanted: Wanted, rows: Sequence[MeasuredRow], cpu_seconds: float, request: PapersRequest) -> MeasuredTable:
    """The table; made-up corpora prove nothing, so that beside theirs no published figure lies anywhere."""
    table, sources, corpora = wanted.table, _sources(request), wanted.file.corpora
    return MeasuredTable(
        paper=wanted.file.paper,
        table=wanted.number,
        title=table.title,
        note=table.note,
        parts=tuple(sources.told(name, corpora[name]) for name in wanted.corpora if corpora[name].test_part),
        rows=tuple(row.model_copy(update={"lies": None}) if request.quick else row for row in rows),
        cpu_seconds=cpu_seconds,
    )


def _cpu_seconds(planned: Sequence[PlannedCell], store: Store, counted: set[str]) -> float:
    """CPU seconds of the engines of cells, and of training their models, each counted once."""
    spent = {key: marker.worker_cpu_seconds for key, marker in store.markers().items()}
    spent |= {key: made.cpu_seconds for key, made in store.models().items()}
    mine = {key for one in planned for key in (one.key, one.model.key)} & spent.keys() - counted
    counted |= mine
    return sum(spent[key] for key in sorted(mine))
