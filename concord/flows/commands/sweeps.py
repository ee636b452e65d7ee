"""What `concord sweep show` and `log` read from the folder of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from concord.flows.runfolder.locks import is_at_work
from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.sweep import Cell, CellRow, CellState
from concord.workers.sweeps.planning import failure_of, kept, listed
from concord.workers.sweeps.results import Failure, Store
from concord.workers.sweeps.searching import Choice, SearchStanding, kept_choice, reported, standing, without_dropped
from concord.workers.sweeps.tables import SETTING, ComparisonRow, chosen_on, compared, first_figure

AXIS = "engine"
"""Axis by which figures are shown where none is named."""


class ShownSweep(NamedTuple):
    """A sweep as it stands: its cells, and one figure by the values of one axis."""

    cells: Sequence[tuple[Cell, CellRow]]
    figure: str
    by: str
    against: str | None
    rows: Sequence[ComparisonRow]
    choice: Choice | None
    search: SearchStanding

    def count(self, state: CellState) -> int:
        """Number of cells in a state."""
        return sum(row.state is state for _, row in self.cells)


def show_sweep(
    folder: str,
    *,
    by: str | None = None,
    against: str | None = None,
    measure: str | None = None,
    choose: str | None = None,
) -> ShownSweep:
    """The states of a sweep's cells, and a figure by an axis; ``measure`` is MEASURE.FIGURE, such as spans.f1.

    With ``choose``, a corpus, only the value that is best there is shown, on the other corpora. Without ``measure`` it
    is the first F1, or accuracy, that the results have. Raises `ResultError` for a folder without a sweep and for
    documents that would choose and be reported on, and `UsageError` for an axis, a value or a figure that is not there.
    """
    store = Store(Path(folder).expanduser())
    planned, choice = kept(store), kept_choice(store)
    listing = listed(planned, store, live=is_at_work(store.folder))
    cells = [one.cell for one in planned]
    search = standing(list(zip(cells, listing, strict=True)), store, choice)
    listing = without_dropped(listing, cells, search)
    cells_shown = every = list(zip(cells, listing, strict=True))
    figure = measure or search.figure or _figure(store, listing)
    if choose is not None and figure is not None:
        cells_shown = chosen_on(every, store, figure=figure, by=by or AXIS, corpus=choose, against=against)
    elif choice is not None and search.chosen is not None:
        cells_shown, by = reported(every, choice, search), by or SETTING
        against = against or choice.baseline
    by = by or AXIS
    rows = [] if figure is None else compared(cells_shown, store, figure=figure, by=by, against=against)
    return ShownSweep(every, figure or "", by, against, rows, choice, search)


def log_of(folder: str, cell: str) -> Failure:
    """The last failed attempt at a cell, its model or its weights, by the cell's name or key.

    Raises `UsageError` for a cell that is not there or has not failed.
    """
    store = Store(Path(folder).expanduser())
    planned = {name: one for one in kept(store) for name in (one.cell.name, one.key)}
    if cell not in planned:
        raise UsageError(unknown("cell", cell, [name for name in planned if "/" in name][:20]))
    found = failure_of(planned[cell], store.failures())
    if found is None:
        raise UsageError(f"cell {cell!r} has not failed")
    return found


def _figure(store: Store, listing: Sequence[CellRow]) -> str | None:
    """The first F1, or accuracy, of the first result; None where there is no result."""
    done = next((row for row in listing if row.state is CellState.DONE), None)
    return None if done is None else first_figure(store.read(done.key))
