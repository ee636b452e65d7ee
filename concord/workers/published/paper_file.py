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
      "2":
        title: Every engine
        sweep: {}              # as above
        lattice: {axis: engine, figures: {F1: spans.f1}, against: certify, less: {nats: objective}}
      "3":
        title: Pairs of names
        pairs: {corpus: train, relation: same, types: [PER, LOC], published: {PER: [3141, 4], LOC: [6436]}}

Paths of constraint files are relative to the folder of the file. `mined:NAME` among them is a file of the rules of
that name under the key ``mined``, which are found in the gold labels of a corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from concord.schemas.errors import InputError, UsageError
from concord.schemas.names import nearest, unknown
from concord.schemas.published import (
    MINED,
    OF_CELLS,
    PaperFile,
    PublishedCorpus,
    PublishedLattice,
    PublishedRow,
    PublishedTable,
    rows_in,
)
from concord.schemas.settings import TrainerSettings
from concord.schemas.sweep import AXES, Cell, SweepFile, SweptConstraints, SweptModel
from concord.workers.corpus.readers.registry import READERS
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES
from concord.workers.learning.mining.rule_counts import RuleKind
from concord.workers.storage.lined_yaml import Location, mistakes_told, problems, read_lined
from concord.workers.sweeps.cells import cells_of
from concord.workers.sweeps.codl import trainer_of
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
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if name != ALL and name not in names:
        raise UsageError(unknown("paper", name, [*names, ALL]))
    return names if name == ALL else [name]


def read_paper_file(path: Path) -> PaperFile:
    """Reads a paper file and checks every corpus, sweep and row of it; constraint files get absolute paths.

    Raises `PaperFileError` with all mistakes, and `OSError` if the file cannot be read.
    """
    file, lines = read_lined(path, PaperFile, PaperFileError, keys="'paper', 'corpora' and 'tables'")
    sweeps = {
        name: looked_up(path.parent.absolute(), _declared_alone(table.sweep))
        for name, table in file.tables.items()
        if table.sweep is not None
    }
    mistakes = list(_source_mistakes(file))
    for name, table in file.tables.items():
        if name not in sweeps:
            continue
        sweep, wrong = sweeps[name]
        mistakes += [(("tables", name, "sweep", *at), what) for at, what in wrong]
        if not wrong:
            mistakes += [(("tables", name, "sweep", *at), what) for at, what in _unknown_parts(file, table)]
            mistakes += [(("tables", name, *at), what) for at, what in _row_mistakes(table, sweep)]
    if mistakes:
        raise PaperFileError(mistakes_told(path, lines, mistakes))
    tables = {name: _whole(table, sweeps[name][0]) if name in sweeps else table for name, table in file.tables.items()}
    return file.model_copy(update={"tables": tables})


def mined_in(entry: SweptConstraints) -> list[str]:
    """Names of the mined rules among the files of a constraints entry."""
    return [file.removeprefix(MINED) for file in entry.files if file.startswith(MINED)]


def taught_beside(model: SweptModel) -> dict[str, str]:
    """Options of a model's trainer that are corpora, and the names that they have in the paper file."""
    if model.folder is not None:
        return {}
    settings = trainer_of(model.trainer).settings
    return {name: str(model.options[name]) for name in settings.corpora if model.options.get(name) is not None}


def is_meant(cell: Cell, values: Mapping[str, str]) -> bool:
    """Whether a cell has these values of its axes."""
    return all(_value(cell, axis) == value for axis, value in values.items())


def _value(cell: Cell, axis: str) -> str:
    value = getattr(cell, axis)
    return EVERY if value is None else str(value)


def _declared_alone(sweep: SweepFile) -> SweepFile:
    """The sweep without files of mined rules, which are not there yet."""
    return sweep.model_copy(update={"constraints": {n: _without_mined(e) for n, e in sweep.constraints.items()}})


def _without_mined(entry: SweptConstraints) -> SweptConstraints:
    return entry.model_copy(update={"files": tuple(f for f in entry.files if not f.startswith(MINED))})


def _whole(table: PublishedTable, sweep: Sweep) -> PublishedTable:
    """The table with absolute paths of files, corpora by the names of the paper file, and the rows of its lattice."""
    assert table.sweep is not None
    entries, placed = table.sweep.constraints, sweep.file.constraints
    constraints = {
        name: entry.model_copy(update={"files": (*entry.files, *(f"{MINED}{n}" for n in mined_in(entries[name])))})
        for name, entry in placed.items()
    }
    models = {name: _with_files(model, sweep.trainers.get(name)) for name, model in sweep.file.models.items()}
    update = {"corpora": table.sweep.corpora, "models": models, "constraints": constraints}
    whole = sweep.file.model_copy(update=update)
    lattice_rows = () if table.lattice is None else _lattice_rows(table.lattice, sweep)
    return table.model_copy(update={"sweep": whole, "rows": (*lattice_rows, *table.rows)})


def _with_files(model: SweptModel, settings: TrainerSettings | None) -> SweptModel:
    """A model whose trainer's files have absolute paths."""
    files = () if settings is None else [name for name in settings.files if name in model.options]
    return model.model_copy(update={"options": {**model.options, **{name: getattr(settings, name) for name in files}}})


def _lattice_rows(lattice: PublishedLattice, sweep: Sweep) -> Iterator[PublishedRow]:
    """A row for each value of the axis and each figure."""
    for value in dict.fromkeys(_value(cell, lattice.axis) for cell in cells_of(sweep)):
        fields, note = {"name": value, "cells": {lattice.axis: value}}, lattice.notes.get(value)
        for column, figure in lattice.figures.items():
            yield PublishedRow(**fields, column=column, figure=figure, note=note)
        for column, figure in lattice.less.items():
            yield PublishedRow(**fields, column=column, figure=figure, note=note, minus={lattice.axis: lattice.against})


def _source_mistakes(file: PaperFile) -> Iterator[tuple[Location, str]]:
    """Mistakes in corpora, and names of corpora outside sweeps that are not there."""
    for name, corpus in file.corpora.items():
        yield from ((("corpora", name, *at), what) for at, what in _corpus_mistakes(corpus))
        if corpus.whole_with is not None and corpus.whole_with not in file.corpora:
            yield ("corpora", name, "whole_with"), unknown("corpus", corpus.whole_with, file.corpora)
    for name, rules in file.mined.items():
        if rules.corpus not in file.corpora:
            yield ("mined", name, "corpus"), unknown("corpus", rules.corpus, file.corpora)
        for number, kind in enumerate(rules.kinds):
            if kind not in list(map(str, RuleKind)):
                yield ("mined", name, "kinds", number), unknown("kind of rules", kind, RuleKind)
    for name, table in file.tables.items():
        if table.pairs is not None and table.pairs.corpus not in file.corpora:
            yield ("tables", name, "pairs", "corpus"), unknown("corpus", table.pairs.corpus, file.corpora)


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


def _unknown_parts(file: PaperFile, table: PublishedTable) -> Iterator[tuple[Location, str]]:
    """Corpora and mined rules of a sweep that the file does not have."""
    assert table.sweep is not None
    for name, corpus in table.sweep.corpora.items():
        for part in ("train", "test"):
            source = getattr(corpus, part)
            if source is not None and source not in file.corpora:
                yield ("corpora", name, part), f"no corpus is called {source!r}{nearest(source, file.corpora)}"
    for name, model in table.sweep.models.items():
        for option, source in taught_beside(model).items():
            if source not in file.corpora:
                yield ("models", name, "options", option), unknown("corpus", source, file.corpora)
    for name, entry in table.sweep.constraints.items():
        for rules in mined_in(entry):
            if rules not in file.mined:
                yield ("constraints", name), unknown("set of mined rules", rules, file.mined)


def _row_mistakes(table: PublishedTable, sweep: Sweep) -> Iterator[tuple[Location, str]]:
    cells, counted = cells_of(sweep), table.sweep.measures if table.sweep else ()
    if table.lattice is not None:
        yield from _lattice_mistakes(table.lattice, cells, counted)
    for number, row in enumerate(table.rows):
        names = [one.name for one in table.rows]
        for name in rows_in(row.note or ""):
            if name not in names:
                yield ("rows", number, "note"), unknown("row", name, names)
        if row.missing is not None:
            continue
        for part, values in (("cells", row.cells), ("minus", row.minus or {}), ("over", row.over or {})):
            for place, what in _axis_mistakes(values, cells):
                yield ("rows", number, part, *place), what
        yield from ((("rows", number, "figure"), what) for what in _figure_mistakes(row.figure, counted))


def _lattice_mistakes(
    lattice: PublishedLattice, cells: list[Cell], counted: Sequence[str]
) -> Iterator[tuple[Location, str]]:
    values = dict.fromkeys(_value(cell, lattice.axis) for cell in cells)
    for value in (lattice.against, *lattice.notes):
        if value is not None and value not in values:
            yield ("lattice",), f"no cell of the sweep has {lattice.axis} {value}{nearest(value, values)}"
    for key, figures in (("figures", lattice.figures), ("less", lattice.less)):
        for title, figure in figures.items():
            yield from ((("lattice", key, title), what) for what in _figure_mistakes(figure, counted))


def _axis_mistakes(values: Mapping[str, str], cells: list[Cell]) -> Iterator[tuple[Location, str]]:
    strange = [axis for axis in values if axis not in AXES]
    yield from (((axis,), unknown("axis", axis, AXES)) for axis in strange)
    if not strange and not any(is_meant(cell, values) for cell in cells):
        text = ", ".join(f"{axis} {value}" for axis, value in values.items())
        yield (), f"no cell of the sweep has {text}"


def _figure_mistakes(name: str, counted: Sequence[str]) -> Iterator[str]:
    """What is wrong with a figure; ``counted``: measures of the sweep, none for those of the label scheme."""
    measure, _, figure = name.partition(".")
    if name in OF_CELLS:
        return
    if measure not in MEASURES:
        yield unknown("measure", measure, [*MEASURES, *OF_CELLS])
    elif figure not in FIGURES:
        yield unknown("figure", figure, FIGURES) + "; want MEASURE.FIGURE, such as spans.f1"
    elif figure not in MEASURES[measure].figures:
        yield f"measure {measure} has no figure {figure!r}; it has {', '.join(MEASURES[measure].figures)}"
    elif counted and measure not in counted:
        yield f"the sweep does not count {measure!r}; name it in its 'measures'"
