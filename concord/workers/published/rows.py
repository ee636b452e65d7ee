"""Rows of published tables, measured: figures of cells with intervals, and where the published ones lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from concord.schemas.arrays import Floats
from concord.schemas.published import (
    CPU,
    NAMED_ROW,
    OBJECTIVE,
    OF_CELLS,
    PROVEN_SHARE,
    Lies,
    MeasuredRow,
    PublishedRow,
    rows_in,
)
from concord.schemas.sweep import Cell, CellRow, CellState
from concord.workers.evaluation.figures import FIGURES, GOLD, Figure
from concord.workers.evaluation.measures import ByDocument
from concord.workers.evaluation.runs import RunCounts, drawn_means
from concord.workers.published.paper_file import is_meant
from concord.workers.sweeps.results import BOOTSTRAP_DRAWS, CellResult, ResultError, Store
from concord.workers.sweeps.tables import PooledCounts, check_same, pooled

PER_CENT = 100.0

COPIED_FIELDS = {"name", "column", "figure", "published", "sd", "minimum", "note"}
"""Fields of a published row that are those of the measured one."""


class NoFigureError(Exception):
    """A row without a figure; the message says why."""


def unmeasured(row: PublishedRow, why: str | None) -> MeasuredRow:
    """A row without figures of ours, and why."""
    return MeasuredRow(**row.model_dump(include=COPIED_FIELDS), why=why)


def measured(
    row: PublishedRow, cells: Sequence[tuple[Cell, CellRow]], store: Store, *, absent: str = ""
) -> MeasuredRow:
    """A row with its figures; without them it says why, ``absent`` where the sweep has none of its cells.

    Raises `ResultError` for a result that cannot be read.
    """
    measurement = unmeasured(row, row.missing)
    if row.missing is not None:
        return measurement
    for values in (row.cells, row.minus or {}, row.over or {}):
        if not any(is_meant(cell, values) for cell, _ in cells):
            return unmeasured(row, absent)
    try:
        return measurement.model_copy(update=(_seconds if row.figure == CPU else _figures)(row, cells, store))
    except NoFigureError as error:
        return measurement.model_copy(update={"why": str(error)})


def with_figures(rows: Sequence[MeasuredRow]) -> list[MeasuredRow]:
    """The rows of a table, with the figures that their notes name: notes of one run do not fit those of another."""
    figures = {row.name: "no figure" if row.measured is None else f"{row.measured:.1f}" for row in rows}

    def filled(note: str) -> str:
        return NAMED_ROW.sub(lambda match: figures[rows_in(match[0])[0]], note)

    return [row.model_copy(update={"note": row.note and filled(row.note)}) for row in rows]


def lies(published: float | None, low: float, high: float) -> Lies | None:
    """Where a published figure lies beside an interval; None without one."""
    if published is None:
        return None
    return Lies.BELOW if published < low else Lies.ABOVE if published > high else Lies.INSIDE


def _figures(row: PublishedRow, cells: Sequence[tuple[Cell, CellRow]], store: Store) -> dict[str, Any]:
    mine = _runs(row, row.cells, cells, store)
    base = None if row.minus is None else _runs(row, row.minus, cells, store)
    figure, scale = _figure_of(row), 1.0 if row.figure == OBJECTIVE else PER_CENT
    values, settings = mine.values(figure), [mine] if base is None else [mine, base]
    if len({len(runs.counts) for runs in settings}) > 1:
        raise NoFigureError("the figure that is taken off is of other documents")
    means = drawn_means(settings, figure, rng=np.random.default_rng(0), draws=BOOTSTRAP_DRAWS)
    taken_off = np.zeros(1) if base is None else _taken_off(mine, base, base.values(figure))
    value, low, high = means[0].interval() if base is None else means[0].minus(means[1]).with_interval
    low, high = scale * low, scale * high
    fields = {
        "measured": scale * value,
        "low": low,
        "high": high,
        "lies": lies(row.published, low, high),
        "runs": len(values),
        "documents": len(mine.counts),
    }
    if len(values) > 1:
        own = values - taken_off
        fields["measured_sd"] = scale * float(own.std(ddof=1))
        fields["measured_minimum"] = scale * float(own.min())
        fields["t_test"] = None if base is None else _t_test(own)
    return fields


def _taken_off(mine: RunCounts, base: RunCounts, values: Floats) -> Floats:
    """What is taken off from each run: the base's figure on the same draw of training documents, or else its mean."""
    drawn = None not in mine.training and mine.training == base.training
    return values if drawn else values.mean(keepdims=True)


def _seconds(row: PublishedRow, cells: Sequence[tuple[Cell, CellRow]], store: Store) -> dict[str, Any]:
    """CPU seconds of runs, or how many times those of other cells: their mean, and no interval."""
    values = _seconds_of(row.cells, cells, store)
    if row.over is not None:
        values = values / _seconds_of(row.over, cells, store).mean()
    fields: dict[str, Any] = {"measured": float(values.mean()), "runs": len(values)}
    if len(values) > 1:
        fields |= {"measured_sd": float(values.std(ddof=1)), "measured_minimum": float(values.min())}
    return fields


def _seconds_of(values: Mapping[str, str], cells: Sequence[tuple[Cell, CellRow]], store: Store) -> Floats:
    """(S,) CPU seconds of the engine in each run. Raises `NoFigureError`."""
    return np.array([sum(result.cpu_seconds for result in own) for own in _results(values, cells, store).values()])


def _t_test(differences: Floats) -> float | None:
    """Two-sided p-value of Student's test of differences (S,) against 0; None for runs that are all the same."""
    if np.ptp(differences) == 0.0:
        return None
    return float(ttest_1samp(differences, 0.0).pvalue)


def _figure_of(row: PublishedRow) -> Figure:
    if row.figure == OBJECTIVE:
        return lambda counts: np.asarray(counts[..., GOLD].sum(axis=-1), np.float64)
    return FIGURES["recall" if row.figure == PROVEN_SHARE else row.figure.partition(".")[2]]


def _runs(
    row: PublishedRow, values: Mapping[str, str], cells: Sequence[tuple[Cell, CellRow]], store: Store
) -> RunCounts:
    """Counts of every run of the cells. Raises `NoFigureError`."""
    runs = _results(values, cells, store)
    pools = [_of_cells(own, row.figure) if row.figure in OF_CELLS else _counts(own, row) for own in runs.values()]
    try:
        for pool in pools[1:]:
            check_same(pools[0].doc_ids, pool.doc_ids)
    except ResultError as error:
        raise NoFigureError(str(error)) from None
    names = sorted({name for pool in pools for name in pool.counts.names})
    return RunCounts(
        np.stack([pool.counts.table_of(names) for pool in pools], axis=1), tuple(subset for _, subset in runs)
    )


def _results(
    values: Mapping[str, str], cells: Sequence[tuple[Cell, CellRow]], store: Store
) -> dict[tuple[int, int | None], list[CellResult]]:
    """Results of the cells by seed and draw. Raises `NoFigureError` where a cell has none."""
    runs: dict[tuple[int, int | None], list[CellResult]] = {}
    for cell, row in cells:
        if not is_meant(cell, values):
            continue
        if row.state is not CellState.DONE:
            reason = (row.reason or "").partition("\n")[0]
            raise NoFigureError(f"cell {row.name} is {row.state.value}" + (f": {reason}" if reason else ""))
        runs.setdefault((cell.seed, cell.subset), []).append(store.read(row.key))
    return runs


def _counts(results: Sequence[CellResult], row: PublishedRow) -> PooledCounts:
    """Counts of a run, of all names or of one. Raises `NoFigureError` where nothing has that name."""
    pool = pooled(results, row.figure)
    if row.of is None:
        return pool
    if row.of not in pool.counts.names:
        raise NoFigureError(f"nothing in the corpus is called {row.of}")
    place = pool.counts.names.index(row.of)
    return PooledCounts(pool.doc_ids, ByDocument((row.of,), pool.counts.table[:, place : place + 1]))


def _of_cells(results: Sequence[CellResult], figure: str) -> PooledCounts:
    """What a figure of `OF_CELLS` adds up, in the place of counts; gold ones are all documents."""
    sums = {
        i: value for result in results for i, value in zip(result.doc_ids, _by_document(result, figure), strict=True)
    }
    ids = tuple(sorted(sums))
    return PooledCounts(ids, ByDocument((figure,), np.array([sums[doc_id] for doc_id in ids])[:, None]))


def _by_document(result: CellResult, figure: str) -> NDArray[Any]:
    """(D, 3) values of documents, as counts."""
    ones = np.ones(len(result.doc_ids))
    if figure == PROVEN_SHARE:
        return np.stack([ones, ones, result.certified], axis=1)
    return np.stack([result.objective, ones, ones], axis=1)
