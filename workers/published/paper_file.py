"""Paper files: published tables as YAML, in which every mistake is told with its line.

    paper: Authors (2005)
    corpora:
      train: {reader: conll, source: conll2003/eng.train, made_up: {kind: news, documents: 60, seed: 1}}
    tables:
      "1":
        title: What it shows
        sweep:                 # as in a sweep file; its corpora are names of those above
          corpora: {news: {train: train, folds: 5}}
          models: {crf: {trainer: sgd}}
        rows:
          - {name: Viterbi, cells: {engine: certify}, figure: spans.f1, published: 85.51}

Paths of constraint files are relative to the folder of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from concord.schemas.errors import InputError, UsageError
from concord.schemas.names import nearest, unknown
from concord.schemas.published import OBJECTIVE, PaperFile, PublishedCorpus, PublishedRow, PublishedTable
from concord.schemas.sweep import AXES, Cell, SweepFile
from concord.workers.corpus.readers.registry import READERS
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES
from concord.workers.storage.lined_yaml import Location, mistakes_told, problems, read_lined
from concord.workers.sweeps.cells import cells_of
from concord.workers.sweeps.sweep_file import Sweep, looked_up
from concord.workers.synthesis.made_up import Kind

SHIPPED = Path(__file__).parent / "tables"
"""Folder of the paper files that come with concord."""

ALL = "all"
"""Every paper."""

EVERY = "all"
"""Value of an axis on which a cell has none, such as the size of a whole corpus."""


class PaperFileError(InputError):
    """A paper file with mistakes; the message has one line for each, as file:line: mistake."""


def papers_of(name: str, folder: Path = SHIPPED) -> list[str]:
    """The papers of a folder that a name stands for: one, or `ALL`. Raises `UsageError` for one that is not there."""
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    if name != ALL and name not in known:
        raise UsageError(unknown("paper", name, [*known, ALL]))
    return known if name == ALL else [name]


def read_paper_file(path: Path) -> PaperFile:
    """Reads a paper file and checks every corpus, sweep and row of it; constraint files get absolute paths.

    Raises `PaperFileError` with all mistakes, and `OSError` if the file cannot be read.
    """
    file, lines = read_lined(path, PaperFile, PaperFileError, keys="'paper', 'corpora' and 'tables'")
    sweeps = {
        name: looked_up(path.parent.absolute(), table.sweep)
        for name, table in file.tables.items()
        if table.sweep is not None
    }
    mistakes = [(("corpora", n, *at), what) for n, c in file.corpora.items() for at, what in _corpus_mistakes(c)]
    for name, table in file.tables.items():
        if name not in sweeps:
            continue
        sweep, wrong = sweeps[name]
        mistakes += [(("tables", name, "sweep", *at), what) for at, what in (*wrong, *_unknown_corpora(file, table))]
        if not wrong:
            mistakes += [(("tables", name, *at), what) for at, what in _row_mistakes(table, sweep)]
    if mistakes:
        raise PaperFileError(mistakes_told(path, lines, mistakes))
    tables = {
        name: table.model_copy(update={"sweep": _with_names(table.sweep, sweeps[name][0])}) if table.sweep else table
        for name, table in file.tables.items()
    }
    return file.model_copy(update={"tables": tables})


def is_meant(cell: Cell, wanted: Mapping[str, str]) -> bool:
    """Whether a cell has these values of its axes."""
    found = cell._asdict()
    return all((EVERY if found[axis] is None else str(found[axis])) == value for axis, value in wanted.items())


def _with_names(given: SweepFile, sweep: Sweep) -> SweepFile:
    """The sweep with absolute paths of files, and corpora by the names of the paper file."""
    return sweep.file.model_copy(update={"corpora": given.corpora})


def _corpus_mistakes(corpus: PublishedCorpus) -> Iterator[tuple[Location, str]]:
    if corpus.reader not in READERS:
        yield ("reader",), unknown("reader", corpus.reader, READERS)
        return
    settings = READERS[corpus.reader].settings
    try:
        settings.model_validate(corpus.options)
    except ValidationError as error:
        yield from ((("options", *at), what) for at, what in problems(error, settings))
    if corpus.made_up is not None and corpus.made_up.kind not in get_args(Kind):
        yield ("made_up", "kind"), unknown("kind of corpus", corpus.made_up.kind, get_args(Kind))


def _unknown_corpora(file: PaperFile, table: PublishedTable) -> Iterator[tuple[Location, str]]:
    assert table.sweep is not None
    for name, corpus in table.sweep.corpora.items():
        for part in ("train", "test"):
            given = getattr(corpus, part)
            if given is not None and given not in file.corpora:
                yield ("corpora", name, part), f"no corpus is called {given!r}{nearest(given, file.corpora)}"


def _row_mistakes(table: PublishedTable, sweep: Sweep) -> Iterator[tuple[Location, str]]:
    cells = cells_of(sweep)
    for number, row in enumerate(table.rows):
        if row.missing is not None:
            continue
        for part, wanted in (("cells", row.cells), ("minus", row.minus or {})):
            for place, what in _axis_mistakes(wanted, cells):
                yield ("rows", number, part, *place), what
        counted = table.sweep.measures if table.sweep else ()
        yield from ((("rows", number, "figure"), what) for what in _figure_mistakes(row, counted))


def _axis_mistakes(wanted: Mapping[str, str], cells: list[Cell]) -> Iterator[tuple[Location, str]]:
    strange = [axis for axis in wanted if axis not in AXES]
    yield from (((axis,), unknown("axis", axis, AXES)) for axis in strange)
    if not strange and not any(is_meant(cell, wanted) for cell in cells):
        told = ", ".join(f"{axis} {value}" for axis, value in wanted.items())
        yield (), f"no cell of the sweep has {told}"


def _figure_mistakes(row: PublishedRow, counted: Sequence[str]) -> Iterator[str]:
    """What is wrong with a row's figure; ``counted``: measures of the sweep, none for those of the label scheme."""
    measure, _, figure = row.figure.partition(".")
    if row.figure == OBJECTIVE:
        return
    if measure not in MEASURES:
        yield unknown("measure", measure, [*MEASURES, OBJECTIVE])
    elif figure not in FIGURES:
        yield unknown("figure", figure, FIGURES) + "; want MEASURE.FIGURE, such as spans.f1"
    elif figure not in MEASURES[measure].figures:
        yield f"measure {measure} has no figure {figure!r}; it has {', '.join(MEASURES[measure].figures)}"
    elif counted and measure not in counted:
        yield f"the sweep does not count {measure!r}; name it in its 'measures'"
