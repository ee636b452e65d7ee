"""Tables of a sweep: every figure of every cell with its interval, and one axis compared with paired differences.

A comparison looks at many differences at once, so their p-values are adjusted (Holm 1979): none is called better that
chance would show among so many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from concord.schemas.arrays import Floats
from concord.schemas.errors import UsageError
from concord.schemas.gains import Comparison
from concord.schemas.names import unknown
from concord.schemas.sweep import AXES, Cell, CellRow, CellState, Setting
from concord.workers.evaluation.bootstrap import Interval, holm
from concord.workers.evaluation.figures import FIGURES, Figure
from concord.workers.evaluation.measures import MEASURES, ByDocument
from concord.workers.evaluation.runs import DrawnMean, RunCounts, drawn_means
from concord.workers.sweeps.results import BOOTSTRAP_DRAWS, CellResult, Marker, MeasureCounts, ResultError, Store

LONG = pa.schema(
    [
        *((name, pa.string()) for name in ("cell", "key", "corpus", "model", "constraints", "penalty", "engine")),
        *((name, pa.int64()) for name in ("fold", "size", "subset", "seed")),
        *((name, pa.string()) for name in ("state", "measure")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("documents", pa.int64()),
        ("reason", pa.string()),
    ]
)
"""Columns of ``cells.parquet``: a row for each cell and measure, or one for a cell without a result."""

SETTING = "setting"
"""What stands in the place of an axis for model, constraints and engine together."""

LEVEL = 0.05
"""Adjusted p-value below which a difference is called significant."""


def long_table(cells: Sequence[tuple[Cell, CellRow]], markers: Mapping[str, Marker]) -> pa.Table:
    """The table of all cells, in their order; ``markers`` are those of results by key."""
    rows = [entry for cell, row in cells for entry in _rows(cell, row, markers.get(row.key))]
    return pa.Table.from_pylist(rows, schema=LONG)


def _rows(cell: Cell, row: CellRow, marker: Marker | None) -> Iterator[dict[str, Any]]:
    head = {**cell._asdict(), "cell": row.name, "key": row.key, "state": row.state.value, "reason": row.reason}
    if marker is None:
        yield head
        return
    for name, (value, low, high) in marker.figures.items():
        yield head | {"measure": name, "value": value, "low": low, "high": high, "documents": marker.documents}
    for name, total in marker.sums.items():
        yield head | {"measure": name, "value": total, "documents": marker.documents}


class ComparisonRow(NamedTuple):
    """A row of a comparison.

    - ``others``: coordinates that the row shares with its base, by axis; axes with one value are left out
    - ``value``: value of the axis that is compared
    - ``interval``: mean of the figure over runs, which are seeds and draws of training documents
    - ``spread``: standard deviation (n − 1) of the figure over runs; None for one run
    - ``difference``: from the base, on the same documents; None for the base itself
    - ``adjusted``: p-value of the difference among all of the table; None for the base
    """

    others: Mapping[str, Any]
    value: Any
    cells: int
    documents: int
    interval: Interval
    spread: float | None
    difference: Comparison | None
    adjusted: float | None


def compared(
    cells: Sequence[tuple[Cell, CellRow]], store: Store, *, figure: str, by: str, against: str | None
) -> list[ComparisonRow]:
    """Figures by the values of an axis; with ``against``, one of these, paired differences from it.

    Seeds and draws of training documents are runs, of which the mean is taken; all folds together are one run. Raises
    `UsageError` for an axis, a value or a figure that is not there, and `ResultError`.
    """
    if by not in (*AXES, SETTING):
        raise UsageError(unknown("axis", by, (*AXES, SETTING)))
    done = [cell for cell, row in cells if row.state is CellState.DONE]
    keys = {cell: row.key for cell, row in cells}
    values = list(dict.fromkeys(value_of(cell, by) for cell in done))
    base = next((value for value in values if str(value) == against), None)
    if against is not None and base is None:
        raise UsageError(unknown(by, against, map(str, values)))
    groups: dict[tuple[tuple[str, Any], ...], dict[Any, list[Cell]]] = {}
    for cell in done:
        groups.setdefault(_others(cell, by, done), {}).setdefault(value_of(cell, by), []).append(cell)
    rows = list[ComparisonRow]()
    for others, cells_by_value in groups.items():
        pools = {value: complete_runs(own, keys, store, figure) for value, own in cells_by_value.items()}
        for value in cells_by_value:
            if against is not None and base in cells_by_value and value != base:
                check_same(pools[base].doc_ids, pools[value].doc_ids)
        means = _drawn(pools, figure)
        for value, own in cells_by_value.items():
            change = None if base not in means or value == base else means[value].minus(means[base])
            runs = pools[value]
            spread = None if len(runs.values) < 2 else float(runs.values.std(ddof=1))
            rows.append(
                ComparisonRow(
                    dict(others), value, len(own), len(runs.doc_ids), means[value].interval(), spread, change, None
                )
            )
    return _adjusted(rows)


def _drawn(settings: Mapping[Any, SettingRuns], figure: str) -> dict[Any, DrawnMean]:
    """The mean figure of each setting under draws that are the same for all with the same documents."""
    names = sorted({name for setting in settings.values() for name in setting.names})
    alike: dict[tuple[str, ...], list[Any]] = {}
    for value, setting in settings.items():
        alike.setdefault(setting.doc_ids, []).append(value)
    means = dict[Any, DrawnMean]()
    for values in alike.values():
        runs = [settings[value].of(names) for value in values]
        drawn = drawn_means(runs, made_of(figure), rng=np.random.default_rng(0), draws=BOOTSTRAP_DRAWS)
        means |= dict(zip(values, drawn, strict=True))
    return means


def value_of(cell: Cell, by: str) -> Any:
    """The value of an axis, or the name of the whole setting."""
    return Setting.of(cell).name if by == SETTING else getattr(cell, by)


def chosen_on(
    cells: Sequence[tuple[Cell, CellRow]], store: Store, *, figure: str, by: str, corpus: str, against: str | None
) -> list[tuple[Cell, CellRow]]:
    """Cells of other corpora that have the value of ``by`` which is best on ``corpus``, and those of ``against``.

    So the figure of the best of many is that of documents which did not choose it. Raises `UsageError` for a corpus
    without results, and `ResultError` where a document both chooses and is reported on.
    """
    done = [(cell, row) for cell, row in cells if row.state is CellState.DONE]
    judges = [(cell, row) for cell, row in done if cell.corpus == corpus]
    if not judges:
        raise UsageError(unknown("corpus with results", corpus, dict.fromkeys(cell.corpus for cell, _ in done)))
    others = [(cell, row) for cell, row in done if cell.corpus != corpus]
    _check_apart(judges, others, store)
    keys, best = {cell: row.key for cell, row in judges}, dict[tuple[Any, ...], tuple[float, Any]]()
    for setting in dict.fromkeys((*_setting(cell, by), getattr(cell, by)) for cell, _ in judges):
        own = [cell for cell, _ in judges if (*_setting(cell, by), getattr(cell, by)) == setting]
        value = float(complete_runs(own, keys, store, figure).values.mean())
        best[setting[:-1]] = max(best.get(setting[:-1], (-1.0, None)), (value, setting[-1]), key=lambda trial: trial[0])
    return [
        (cell, row)
        for cell, row in others
        if getattr(cell, by) == best.get(_setting(cell, by), (0.0, None))[1] or str(getattr(cell, by)) == against
    ]


def _setting(cell: Cell, by: str) -> tuple[Any, ...]:
    """The coordinates of a cell apart from the corpus, ``by`` and `TOGETHER`."""
    return tuple(getattr(cell, name) for name in Cell._fields if name not in ("corpus", by, *TOGETHER))


def _check_apart(judges: Sequence[tuple[Cell, CellRow]], others: Sequence[tuple[Cell, CellRow]], store: Store) -> None:
    """Raises `ResultError` where a document is among those of both."""
    here, there = ({i for _, row in own for i in store.read(row.key).doc_ids} for own in (judges, others))
    check_documents_apart(here, there)


def check_documents_apart(here: set[str], there: set[str]) -> None:
    """Raises `ResultError` where a document, by its id, is among those that choose and those that are reported on."""
    both = sorted(here & there)
    if both:
        raise ResultError(
            f"{len(both)} documents would choose and be reported on, the first {both[0]!r}; give corpora whose judged "
            "documents differ"
        )


def comparison_table(rows: Sequence[ComparisonRow], *, by: str) -> pa.Table:
    """The rows of `compared` as a table; ``change`` and ``p`` are null where there is no base to compare with."""
    records = [
        {
            **row.others,
            by: row.value,
            "cells": row.cells,
            "documents": row.documents,
            **row.interval._asdict(),
            "sd": row.spread,
            "change": None if row.difference is None else row.difference.difference,
            "change_low": None if row.difference is None else row.difference.low,
            "change_high": None if row.difference is None else row.difference.high,
            "p": row.adjusted,
        }
        for row in rows
    ]
    return pa.Table.from_pylist(records)


def _adjusted(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    at = [i for i, row in enumerate(rows) if row.difference is not None]
    chances = holm(np.array([row.difference.p_value for row in rows if row.difference is not None], np.float64))
    adjusted_chances = dict(zip(at, chances.tolist(), strict=True))
    return [row._replace(adjusted=adjusted_chances.get(i)) for i, row in enumerate(rows)]


TOGETHER = ("fold", "subset", "seed")
"""Coordinates over which figures are taken together."""


def _others(cell: Cell, by: str, done: Sequence[Cell]) -> tuple[tuple[str, Any], ...]:
    """The coordinates of a cell apart from ``by`` and `TOGETHER`, of those that differ between cells."""
    own = Setting._fields if by == SETTING else (by,)
    names = [name for name in Cell._fields if name not in (*own, *TOGETHER)]
    return tuple((n, getattr(cell, n)) for n in names if len({getattr(other, n) for other in done}) > 1)


def first_figure(result: CellResult) -> str:
    """The first F1 of a result, or else the first accuracy, or else its first figure."""
    names = [f"{one.measure}.{figure}" for one in result.measured for figure in MEASURES[one.measure].figures]
    return next(name for end in (".f1", ".accuracy", "") for name in names if name.endswith(end))


class PooledCounts(NamedTuple):
    """Counts of the documents of some cells, in order of their ids."""

    doc_ids: tuple[str, ...]
    counts: ByDocument


def pooled(results: Sequence[CellResult], figure: str) -> PooledCounts:
    """Counts of a measure over results, added up by document. Raises `ResultError` and `UsageError`."""
    measure = figure.partition(".")[0]
    counts: list[tuple[CellResult, MeasureCounts]] = [(result, result.of(measure)) for result in results]
    names = sorted({name for _, measured in counts for name in measured.names})
    ids = sorted({doc_id for result in results for doc_id in result.doc_ids})
    place = {doc_id: i for i, doc_id in enumerate(ids)}
    table = np.zeros((len(ids), len(names), 3), np.int64)
    for result, measured in counts:
        rows = np.array([place[doc_id] for doc_id in result.doc_ids], np.int64)
        columns = np.array([names.index(name) for name in measured.names], np.int64)
        table[np.ix_(rows, columns)] += measured.table
    return PooledCounts(tuple(ids), ByDocument(tuple(names), table))


class SettingRuns(NamedTuple):
    """Runs of a setting on the same documents.

    - ``doc_ids``: the documents
    - ``pools``: counts of each run
    - ``training``: the draw of training documents that each run learned from
    - ``figure``: as MEASURE.FIGURE
    """

    doc_ids: tuple[str, ...]
    pools: Sequence[PooledCounts]
    training: tuple[int | None, ...]
    figure: str

    @property
    def names(self) -> set[str]:
        """Names that some run counts."""
        return {name for pool in self.pools for name in pool.counts.names}

    @property
    def values(self) -> Floats:
        """(S,) the figure of each run."""
        return self.of(sorted(self.names)).values(made_of(self.figure))

    def of(self, names: Sequence[str]) -> RunCounts:
        """Counts of these names."""
        return RunCounts(np.stack([pool.counts.table_of(names) for pool in self.pools], axis=1), self.training)


def complete_runs(cells: Sequence[Cell], keys: Mapping[Cell, str], store: Store, figure: str) -> SettingRuns:
    """The runs of a setting's cells: a run has all folds of a seed and a draw, and one without some does not count.

    Raises `ResultError`, `UsageError` for a figure that is not there.
    """
    runs: dict[tuple[int, int | None], list[CellResult]] = {}
    for cell in cells:
        runs.setdefault((cell.seed, cell.subset), []).append(store.read(keys[cell]))
    pools = {run: pooled(results, figure) for run, results in runs.items()}
    most = max((pool.doc_ids for pool in pools.values()), key=len)
    whole = {run: pool for run, pool in pools.items() if pool.doc_ids == most}
    return SettingRuns(most, list(whole.values()), tuple(subset for _, subset in whole), figure)


def made_of(figure: str) -> Figure:
    """The function of a figure that is named as MEASURE.FIGURE. Raises `UsageError` for one that is not there."""
    name = figure.partition(".")[2]
    if name not in FIGURES:
        raise UsageError(unknown("figure", name, FIGURES) + "; want MEASURE.FIGURE, such as spans.f1")
    return FIGURES[name]


def check_same(one: Sequence[str], other: Sequence[str]) -> None:
    """Raises `ResultError` if two settings have judged other documents, by their ids."""
    if one != other:
        raise ResultError(
            f"cells that are compared have judged other documents ({len(one)} and {len(other)}); compare along an axis "
            "that keeps the judged documents"
        )
