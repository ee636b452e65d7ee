"""Published tables: the files that hold their figures beside the cells of a sweep, and the report that compares."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, model_validator

from concord.schemas.run import Figures
from concord.schemas.settings import Settings
from concord.schemas.sweep import SweepFile

OBJECTIVE = "objective"
"""Figure of a row that is no measure: the sum of objectives, in nats."""


class StandIn(Settings):
    """A made-up corpus in the place of a real one."""

    kind: str = Field(description="Kind of corpus: news or citations.")
    documents: int = Field(ge=1, description="Number of documents.")
    seed: int = Field(ge=0, description="Seed; the same number of documents of one seed are the same documents.")


class PublishedCorpus(Settings):
    """How a corpus is made of a file or folder below the data folder."""

    reader: str = Field(description="Reader; `concord list readers` has them.")
    source: str = Field(description="File or folder, relative to the data folder.")
    options: Mapping[str, Any] = Field(default_factory=dict, description="Options of the reader.")
    last: int | None = Field(None, ge=1, description="Take this many documents from the end alone.")
    without_last: int | None = Field(None, ge=1, description="Leave out this many documents at the end.")
    made_up: StandIn | None = Field(None, description="What stands in its place under `--quick`.")

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        if self.last is not None and self.without_last is not None:
            raise ValueError("give 'last' or 'without_last', not both")
        return self


class PublishedRow(Settings):
    """A row of a table: a published figure, and the cells that measure it.

    Figures are in per cent, those of `OBJECTIVE` in nats.
    """

    name: str = Field(min_length=1)
    cells: Mapping[str, str] = Field(default_factory=dict, description="Cells, by the values of their axes.")
    minus: Mapping[str, str] | None = Field(None, description="Cells whose figure is taken off, on the same documents.")
    figure: str = Field("spans.f1", description="MEASURE.FIGURE, such as spans.f1, or objective.")
    of: str | None = Field(None, description="Type or label that is counted (default: all).")
    published: float | None = Field(None, description="The published figure, or mean over runs.")
    sd: float | None = Field(None, ge=0, description="Published standard deviation over runs.")
    minimum: float | None = Field(None, description="Published minimum over runs.")
    note: str | None = Field(None, description="What differs from the paper.")
    missing: str | None = Field(None, description="Why nothing can be measured, in place of cells.")

    @model_validator(mode="after")
    def _measured_or_missing(self) -> Self:
        if self.missing is not None and (self.cells or self.minus):
            raise ValueError("a row has 'cells', or says with 'missing' why it has none")
        return self


class PublishedTable(Settings):
    """A table: its rows, and the sweep whose cells they are about. Corpora of the sweep are names of the file's."""

    title: str = Field(min_length=1)
    note: str | None = Field(None, description="What differs from the paper in the whole table.")
    sweep: SweepFile | None = Field(None, description="A sweep; without one, no row has cells.")
    rows: tuple[PublishedRow, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _cells_of_a_sweep(self) -> Self:
        if self.sweep is None and any(row.missing is None for row in self.rows):
            raise ValueError("rows that are measured need a 'sweep'")
        return self


class PaperFile(Settings):
    """The tables of a paper."""

    paper: str = Field(min_length=1, description="Authors and year.")
    corpora: Mapping[str, PublishedCorpus] = Field(default_factory=dict)
    tables: Mapping[str, PublishedTable] = Field(min_length=1)


class Lies(StrEnum):
    """Where the published figure lies."""

    BELOW = "below"
    INSIDE = "inside"
    ABOVE = "above"


class MeasuredRow(Figures):
    """A row with what was measured; figures are in per cent, or in nats.

    ``measured``: figure, or mean over runs; None where there is none, and ``why`` says why
    ``low``, ``high``: its 95 % interval
    ``lies``: where the published figure lies beside that
    ``runs``: number of seeds and draws
    ``measured_sd``: standard deviation (n − 1) over runs; ``measured_minimum``: least of them
    ``t_test``: p-value of the runs against the figure that is taken off; None where they are all the same
    """

    name: str
    figure: str
    published: float | None = None
    sd: float | None = None
    minimum: float | None = None
    note: str | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    lies: Lies | None = None
    runs: int = 0
    documents: int = 0
    measured_sd: float | None = None
    measured_minimum: float | None = None
    t_test: float | None = None
    why: str | None = None


class MeasuredTable(Figures):
    """A table with what was measured; ``cpu_seconds``: of workers, for its cells and models."""

    paper: str
    table: str
    title: str
    note: str | None = None
    rows: tuple[MeasuredRow, ...]
    cpu_seconds: float = 0.0


class PapersReport(Figures):
    """What `concord papers` did.

    ``page``: Markdown file; the HTML file stands beside it
    ``made_up``: were the corpora made up?
    ``failed``: reason by the name of each cell without a result
    """

    out: str
    page: str
    made_up: bool
    tables: tuple[MeasuredTable, ...]
    failed: Mapping[str, str]
    cpu_seconds: float
    seconds: float

    def count(self, lies: Lies | None) -> int:
        """Number of published figures that lie there; None: that have nothing to lie beside."""
        published = [row for table in self.tables for row in table.rows if row.published is not None]
        return sum(row.lies is lies for row in published)
