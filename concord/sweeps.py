"""Sweeps: many models, constraints and engines on some corpora, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from concord.flows.cli.sweep_plot import figure_of
from concord.flows.cli.sweep_tables import shown_lines, shown_table
from concord.flows.commands.sweeps import show_sweep
from concord.flows.inputs.in_python import speaks_python
from concord.flows.inputs.request_fields import takes_fields
from concord.schemas.learning_requests import SweepRequest
from concord.schemas.shown import blocks_html
from concord.schemas.sweep import CellRow, CellState, SweepReport
from concord.workers.sweeps.results import Store
from concord.workers.sweeps.tables import comparison_table, long_table

if TYPE_CHECKING:
    import pandas as pd

    from concord.flows.cli.sweep_picture import SweepPicture


@speaks_python
@takes_fields(SweepRequest)
def sweep(request: SweepRequest) -> SweepReport:
    """Does every cell of a sweep file on Ray; the same call again does only what is not done yet.

    {fields}

    `read_sweep` opens the results. Raises `InputError` with every mistake in the file before anything runs. If cells
    fail, the others are finished first; then an error with the report is raised.

    >>> report = concord.sweep("sweep.yaml", out="sweep", workers=1)
    >>> report.cells, report.done
    (4, 4)
    """
    from concord.flows.sweep import sweep as flow

    return flow(request)


class SweepResults:
    """The results of a sweep, as they are now.

    >>> found = concord.read_sweep("sweep")
    >>> found.count("done")
    4
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._shown = show_sweep(folder)

    @property
    def cells(self) -> Sequence[CellRow]:
        """Every cell with its name, state, and the reason if it has failed."""
        return [row for _, row in self._shown.cells]

    def count(self, state: str) -> int:
        """Number of cells that are planned, running, done, failed or stale."""
        return self._shown.count(CellState(state))

    def to_arrow(self) -> pa.Table:
        """A table with one row for each cell and figure: value, 95 % interval, documents.

        >>> found.to_arrow().column_names[:2]
        ['cell', 'key']
        """
        return long_table(self._shown.cells, Store(Path(self._folder)).markers())

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas frame.

        >>> sorted(set(found.to_pandas()["engine"]))
        ['certify', 'viterbi']
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def compare(
        self,
        *,
        by: str | None = None,
        against: str | None = None,
        measure: str | None = None,
        choose: str | None = None,
    ) -> pa.Table:
        """A figure by the values of one axis, with its 95 % interval.

        - ``by``: the axis: corpus, model, size, subset, constraints, penalty, engine, seed, or setting (model,
          constraints, penalty and engine together); the default is engine, and setting for a sweep that selects one
        - ``against``: value of the axis that the others are compared with, on the same documents
        - ``measure``: MEASURE.FIGURE, such as spans.f1; the default is the first F1 or accuracy

        - ``choose``: corpus that chooses the best value of the axis; figures are those of the other corpora

        P-values are adjusted for the number of differences in the table (Holm 1979). Raises `InputError`.

        >>> found.compare(by="engine", against="viterbi").column_names[-1]
        'p'
        """
        tables = show_sweep(self._folder, by=by, against=against, measure=measure, choose=choose)
        return comparison_table(tables.rows, by=tables.by)

    def plot(self, *, by: str | None = None, measure: str | None = None) -> SweepPicture:
        """A picture of a figure by the values of one axis, with 95 % intervals; ``by`` and ``measure`` as in `compare`.

        It is a `Figure` of matplotlib, with a panel for each corpus. Needs matplotlib. Raises `InputError`.

        >>> found.plot(by="engine").png[1:4]
        b'PNG'
        """
        return figure_of(show_sweep(self._folder, by=by, measure=measure))

    def __repr__(self) -> str:
        return "\n".join([f"SweepResults of {self._folder}", *(line.text for line in shown_lines(self._shown))])

    def _repr_html_(self) -> str:
        table = [shown_table(self._shown)] if self._shown.rows else []
        return blocks_html([*table, *shown_lines(self._shown)])


def read_sweep(folder: str | PathLike[str]) -> SweepResults:
    """Opens the results in the folder of a sweep, also while it runs. Raises `InputError` where there is none.

    >>> concord.read_sweep("sweep").cells[0].state.value
    'done'
    """
    return SweepResults(fspath(folder))
