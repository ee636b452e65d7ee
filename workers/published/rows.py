"""Rows of published tables, measured: figures of cells with intervals, and where the published ones lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from concord.schemas.arrays import Floats
from concord.schemas.published import CPU, OBJECTIVE, OF_CELLS, PROVEN, Lies, MeasuredRow, PublishedRow
from concord.schemas.sweep import Cell, CellRow, CellState
from concord.workers.evaluation.bootstrap import bootstrap_interval
from concord.workers.evaluation.figures import FIGURES, GOLD
from concord.workers.evaluation.measures import ByDocument
from concord.workers.published.paper_file import is_meant
from concord.workers.sweeps.results import BOOTSTRAP_DRAWS, CellResult, ResultError, Store
from concord.workers.sweeps.tables import PooledCounts, check_same, pooled

PER_CENT = 100.0

KEPT = {"name", "column", "figure", "published", "sd", "minimum", "note"}
"""Fields of a published row that are those of the measured one."""

Made = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Counts (..., K, 3) → figures (...)."""


class FigureRuns(NamedTuple):
    """Runs of one setting under S seeds and draws: ``counts`` (D, S, K, 3) of the same D documents.

    ``subsets``: number of draws of training documents
    """

    counts: NDArray[Any]
    subsets: int


class NoFigureError(Exception):
    """A row without a figure; the message says why."""


def unmeasured(row: PublishedRow, why: str | None) -> MeasuredRow:
    """A row without figures of ours, and why."""
    return MeasuredRow(**row.model_dump(include=KEPT), why=why)


def measured(
    row: PublishedRow, cells: Sequence[tuple[Cell, CellRow]], store: Store, *, absent: str = ""
) -> MeasuredRow:
    """A row with its figures; without them it says why, ``absent`` where the sweep has none of its cells.

    Raises `ResultError` for a result that cannot be read.
    """
    told = unmeasured(row, row.missing)
    if row.missing is not None:
        return told
    for wanted in (row.cells, row.minus or {}, row.over or {}):
        if not any(is_meant(cell, wanted) for cell, _ in cells):
            return unmeasured(row, absent)
    try:
        return told.model_copy(update=(_seconds if row.figure == CPU else _figures)(row, cells, store))
    except NoFigureError as error:
        return told.model_copy(update={"why": str(error)})


def lies(published: float | None, low: float, high: float) -> Lies | None:
    """Where a published figure lies beside an interval; None without one."""
    if published is None:
        return None
    return Lies.BELOW if published < low else Lies.ABOVE if published > high else Lies.INSIDE


def _figures(row: PublishedRow, cells: Sequence[tuple[Cell, CellRow]], store: Store) -> dict[str, Any]:
    mine = _runs(row, row.cells, cells, store)
    base = None if row.minus is None else _runs(row, row.minus, cells, store)
    made, scale = _made(row), 1.0 if row.figure == OBJECTIVE else PER_CENT
    values = made(mine.counts.sum(axis=0))
    taken_off = 0.0
    both, counts = _mean(made, mine), mine.counts
    if base is not None:
        if base.counts.shape[0] != mine.counts.shape[0]:
            raise NoFigureError("the figure that is taken off is of other documents")
        taken_off = float(made(base.counts.sum(axis=0)).mean())
        both, counts = _difference(made, mine, base), np.concatenate([mine.counts, base.counts], axis=1)
    interval = bootstrap_interval(counts, both, rng=np.random.default_rng(0), draws=BOOTSTRAP_DRAWS)
    low, high = scale * interval.low, scale * interval.high
    found = {
        "measured": scale * interval.value,
        "low": low,
        "high": high,
        "lies": lies(row.published, low, high),
        "runs": len(values),
        "documents": len(counts),
    }
    if len(values) > 1:
        found["measured_sd"] = scale * float(values.std(ddof=1))
        found["measured_minimum"] = scale * float(values.min() - taken_off)
        found["t_test"] = None if base is None else _t_test(values, taken_off)
    return found


def _seconds(row: PublishedRow, cells: Sequence[tuple[Cell, CellRow]], store: Store) -> dict[str, Any]:
    """CPU seconds of runs, or how many times those of other cells: their mean, and no interval."""
    values = _seconds_of(row.cells, cells, store)
    if row.over is not None:
        values = values / _seconds_of(row.over, cells, store).mean()
    found: dict[str, Any] = {"measured": float(values.mean()), "runs": len(values)}
    if len(values) > 1:
        found |= {"measured_sd": float(values.std(ddof=1)), "measured_minimum": float(values.min())}
    return found


def _seconds_of(wanted: Mapping[str, str], cells: Sequence[tuple[Cell, CellRow]], store: Store) -> Floats:
    """(S,) CPU seconds of the engine in each run. Raises `NoFigureError`."""
    return np.array([sum(result.cpu_seconds for result in own) for own in _results(wanted, cells, store).values()])


def _t_test(values: Floats, base: float) -> float | None:
    """Two-sided p-value of Student's test of runs (S,) against a figure; None for runs that are all the same."""
    if np.ptp(values) == 0.0:
        return None
    return float(ttest_1samp(values, base).pvalue)


def _mean(made: Made, runs: FigureRuns) -> Made:
    """The mean of a figure over runs; where these learned from draws of documents, draws are drawn, too."""
    rng = np.random.default_rng(1)

    def mean(counts: NDArray[Any]) -> NDArray[np.float64]:
        values = made(counts)
        if values.ndim == 1 or runs.subsets < 2:
            return np.asarray(values.mean(axis=-1))
        size = values.shape[-1]
        weights = rng.multinomial(size, np.full(size, 1.0 / size), len(values)) / size
        return np.asarray((values * weights).sum(axis=-1))

    return mean


def _difference(made: Made, mine: FigureRuns, base: FigureRuns) -> Made:
    """The difference of the means of two settings, whose runs stand side by side."""
    size, one, other = mine.counts.shape[1], _mean(made, mine), _mean(made, base)
    return lambda counts: one(counts[..., :size, :, :]) - other(counts[..., size:, :, :])


def _made(row: PublishedRow) -> Made:
    if row.figure == OBJECTIVE:
        return lambda counts: np.asarray(counts[..., GOLD].sum(axis=-1), np.float64)
    return FIGURES["recall" if row.figure == PROVEN else row.figure.partition(".")[2]]


def _runs(
    row: PublishedRow, wanted: Mapping[str, str], cells: Sequence[tuple[Cell, CellRow]], store: Store
) -> FigureRuns:
    """Counts of every run of the cells. Raises `NoFigureError`."""
    runs = _results(wanted, cells, store)
    pools = [_of_cells(own, row.figure) if row.figure in OF_CELLS else _counts(own, row) for own in runs.values()]
    try:
        for pool in pools[1:]:
            check_same(pools[0], pool)
    except ResultError as error:
        raise NoFigureError(str(error)) from None
    names = sorted({name for pool in pools for name in pool.counts.names})
    subsets = len({subset for _, subset in runs})
    return FigureRuns(np.stack([pool.counts.table_of(names) for pool in pools], axis=1), subsets)


def _results(
    wanted: Mapping[str, str], cells: Sequence[tuple[Cell, CellRow]], store: Store
) -> dict[tuple[int, int | None], list[CellResult]]:
    """Results of the cells by seed and draw. Raises `NoFigureError` where a cell has none."""
    runs: dict[tuple[int, int | None], list[CellResult]] = {}
    for cell, told in cells:
        if not is_meant(cell, wanted):
            continue
        if told.state is not CellState.DONE:
            reason = (told.reason or "").partition("\n")[0]
            raise NoFigureError(f"cell {told.name} is {told.state.value}" + (f": {reason}" if reason else ""))
        runs.setdefault((cell.seed, cell.subset), []).append(store.read(told.key))
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
    found = {
        i: value for result in results for i, value in zip(result.doc_ids, _by_document(result, figure), strict=True)
    }
    ids = tuple(sorted(found))
    return PooledCounts(ids, ByDocument((figure,), np.array([found[doc_id] for doc_id in ids])[:, None]))


def _by_document(result: CellResult, figure: str) -> NDArray[Any]:
    """(D, 3) values of documents, as counts."""
    ones = np.ones(len(result.doc_ids))
    if figure == PROVEN:
        return np.stack([ones, ones, result.certified], axis=1)
    return np.stack([result.objective, ones, ones], axis=1)
