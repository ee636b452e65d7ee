"""The cells of a sweep file: each combination once, in the order in which the file names its parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from concord.schemas.errors import CorpusError
from concord.schemas.run import RunSettings
from concord.schemas.settings import TrainerSettings, Validation
from concord.schemas.sweep import AXES, DECLARED, Cell, Crossing, Setting, SweepFile, SweptCorpus
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.search.folds import first_judged
from concord.workers.sweeps.sweep_file import POOL_OF, Sweep

ONLY, WITHOUT = " only ", " without "
"""Between the name of a constraints entry and that of a constraint, in cells of an ablation."""

ALL = "all"


def cells_of(sweep: Sweep) -> list[Cell]:
    """The cells, without repeats."""
    cells = list(dict.fromkeys(cell for crossing in sweep.file.cross for cell in _crossed(sweep, crossing)))
    return _drawn(cells, sweep.file)


def _drawn(cells: list[Cell], file: SweepFile) -> list[Cell]:
    """The cells of the settings that the search draws; the baseline stays."""
    search, every = file.search, list(dict.fromkeys(map(Setting.of, cells)))
    if search.settings is None or search.settings >= len(every):
        return cells
    order = np.random.default_rng(search.seed).permutation(len(every))
    drawn = {every[place] for place in order[: search.settings]}
    if file.select is not None and file.select.baseline is not None:
        drawn.add(Setting.of(file.select.baseline))
    return [cell for cell in cells if Setting.of(cell) in drawn]


def rules_of(sweep: Sweep, name: str) -> DeclaredConstraints:
    """The declared constraints of a cell, by the name that the cell has for them."""
    for mark in (ONLY, WITHOUT):
        entry, separator, title = name.partition(mark)
        if separator and entry in sweep.declared:
            whole = sweep.declared[entry]
            return whole.only([title]) if mark == ONLY else whole.without(title)
    return sweep.declared[name]


def settings_of(sweep: Sweep, cell: Cell) -> TrainerSettings:
    """Settings of the trainer of a cell's model, with the pool of its corpus. Raises `CorpusError` without one."""
    settings, pool = sweep.trainers[cell.model], sweep.file.corpora[cell.corpus].pool
    if not sweep.file.models[cell.model].pool:
        return settings
    if pool is None:
        raise CorpusError(f"cell {cell.name} learns on from a pool, and corpus {cell.corpus!r} has none")
    return settings.model_copy(update={POOL_OF: pool})


def engine_of(sweep: Sweep, cell: Cell) -> RunSettings:
    """Engine, options, budget and seed of a cell; the seed is 0 for an engine without chance."""
    settings = sweep.engines[cell.engine]
    return settings.model_copy(update={"seed": cell.seed if SOLVERS[settings.engine].chance else 0})


def entry_of(sweep: Sweep, name: str) -> str:
    """The constraints entry of the file that a cell's constraints are made from."""
    for mark in (ONLY, WITHOUT):
        entry, separator, _ = name.partition(mark)
        if separator and entry in sweep.declared:
            return entry
    return name


def _crossed(sweep: Sweep, crossing: Crossing) -> Iterator[Cell]:
    values = {axis: _values(sweep, crossing, axis) for axis in AXES}
    if not crossing.zip:
        for combination in product(*values.values()):
            yield from _cells(sweep, dict(zip(AXES, combination, strict=True)))
        return
    axes = [axis for axis in AXES if getattr(crossing, axis) is not None]
    for beside in zip(*(values[axis] for axis in axes), strict=True):
        fixed = dict(zip(axes, ([value] for value in beside), strict=True))
        for combination in product(*(fixed.get(axis, values[axis]) for axis in AXES)):
            yield from _cells(sweep, dict(zip(AXES, combination, strict=True)))


def _values(sweep: Sweep, crossing: Crossing, axis: str) -> Sequence[Any]:
    names = getattr(crossing, axis)
    if names is not None:
        return list(names)
    file = sweep.file
    if axis == "constraints":
        return [name for entry in file.constraints for name in _ablated(sweep, entry)]
    every: Mapping[str, Sequence[Any]] = {
        "corpus": list(file.corpora),
        "model": list(file.models),
        "size": file.sizes,
        "subset": range(file.subsets) if file.subsets else [None],
        "penalty": list(file.penalties),
        "engine": list(file.engines),
        "seed": file.seeds,
    }
    return every[axis]


def _ablated(sweep: Sweep, entry: str) -> Iterator[str]:
    """The entry itself, and what its ``each`` asks for."""
    yield entry
    for way in sweep.file.constraints[entry].each:
        mark = ONLY if way == "only" else WITHOUT
        yield from (f"{entry}{mark}{title}" for title in sweep.declared[entry].titles)


def _cells(sweep: Sweep, axes: Mapping[str, Any]) -> Iterator[Cell]:
    """The cells of one combination: one for each fold.

    A model that is not trained has no sizes, and constraints without soft weights have no penalties.
    """
    file, constraints = sweep.file, axes["constraints"]
    there = file.models[axes["model"]].folder is not None
    penalty = axes["penalty"] if _is_soft(sweep.declared[entry_of(sweep, constraints)]) else DECLARED
    size = None if axes["size"] == ALL or there else axes["size"]
    subset = axes["subset"] if size is not None else None
    for fold in folds_of(file.corpora[axes["corpus"]]):
        yield Cell(
            axes["corpus"], fold, axes["model"], size, subset, constraints, axes["engine"], axes["seed"], penalty
        )


def _is_soft(constraints: DeclaredConstraints) -> bool:
    """Whether some weight can be another one."""
    return any(math.isfinite(weight) for _, weight in declared_weights(constraints))


def folds_of(corpus: SweptCorpus) -> Sequence[int | None]:
    """The folds that are judged; None alone for a corpus with a test part."""
    if corpus.folds is None:
        return [None]
    first = first_judged(corpus.folds, corpus.validation) if corpus.validation is Validation.LATER else 0
    return range(first, corpus.folds)
