"""Published tables: the files that hold their figures beside the cells of a sweep, and the report that compares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from concord.schemas.blocks import AnyBlock, Headline, Remark
from concord.schemas.settings import Settings
from concord.schemas.shown import Report
from concord.schemas.sweep import Axis, SweepFile

OBJECTIVE = "objective"
"""Figure of a row that is no measure: the sum of objectives, in nats."""

PROVEN_SHARE = "proven"
"""Figure of a row that is no measure: share of documents whose gap is closed, in per cent."""

CPU = "cpu"
"""Figure of a row that is no measure: CPU seconds of the engine on all documents."""

PAIRS = "pairs"
"""Figure of a row that is no measure: number of pairs of names."""

MINED = "mined:"
"""Before the name of mined rules among the constraint files of a sweep."""

OF_CELLS = (OBJECTIVE, PROVEN_SHARE, CPU)
"""Figures of cells that are no measures."""


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
    sentences: bool = Field(default=False, description="Make each sentence a document.")
    test_part: tuple[str, ...] = Field(
        (), description="File names of the official test part; given one, it is read in the place of this corpus."
    )
    whole_with: str | None = Field(
        None, description="Corpus for which documents are left out here: with its official test part, none are."
    )
    made_up: StandIn | None = Field(None, description="What stands in its place under `--quick`.")

    @model_validator(mode="after")
    def _one_part(self) -> Self:
        if self.last is not None and self.without_last is not None:
            raise ValueError("give 'last' or 'without_last', not both")
        return self


class PublishedRules(Settings):
    """Rules that are mined in the gold labels of a corpus, with counted weights."""

    corpus: str
    kinds: tuple[str, ...] = Field((), description="Kinds of rules (default: all).")


NAMED_ROW = re.compile(r"\{([^{}]+)\}")
"""A row in a note, whose figure stands in its place."""


def rows_in(note: str) -> list[str]:
    """Names of the rows in a note."""
    return [" ".join(name.split()) for name in NAMED_ROW.findall(note)]


class PublishedRow(Settings):
    """A row of a table: a published figure, and the cells that measure it.

    Figures are in per cent, those of `OBJECTIVE` in nats, those of `CPU` in seconds.
    """

    name: str = Field(min_length=1)
    column: str | None = Field(None, description="Column, where the rows of a name stand on one line of the page.")
    cells: Mapping[str, str] = Field(default_factory=dict, description="Cells, by the values of their axes.")
    minus: Mapping[str, str] | None = Field(None, description="Cells whose figure is taken off, on the same documents.")
    over: Mapping[str, str] | None = Field(None, description="Cells whose CPU seconds those of the row are divided by.")
    figure: str = Field("spans.f1", description="MEASURE.FIGURE, such as spans.f1, or objective, proven or cpu.")
    of: str | None = Field(None, description="Type or label that is counted (default: all).")
    published: float | None = Field(None, description="The published figure, or mean over runs.")
    sd: float | None = Field(None, ge=0, description="Published standard deviation over runs.")
    minimum: float | None = Field(None, description="Published minimum over runs.")
    note: str | None = Field(None, description="What differs from the paper; {NAME} is the figure of another row.")
    missing: str | None = Field(None, description="Why nothing can be measured, in place of cells.")

    @model_validator(mode="after")
    def _measured_or_missing(self) -> Self:
        if self.missing is not None and (self.cells or self.minus):
            raise ValueError("a row has 'cells', or says with 'missing' why it has none")
        if self.figure == CPU and self.minus is not None:
            raise ValueError("CPU seconds have no 'minus'; want 'over'")
        if self.figure != CPU and self.over is not None:
            raise ValueError("'over' is of the figure cpu alone")
        return self


class PublishedPairs(Settings):
    """A table that counts pairs of names in a document, by their types: one line for each type of the first name."""

    corpus: str = Field(description="Corpus with gold labels.")
    relation: Literal["same", "part"] = Field(
        description="Two names of the same words, or a name and one of a part of its words."
    )
    types: tuple[str, ...] = Field(min_length=1, description="Types of names, in the order of the columns.")
    published: Mapping[str, tuple[int, ...]] = Field(
        description="Published counts by the first name's type; a shorter list is of the last types."
    )

    @model_validator(mode="after")
    def _no_more_than_types(self) -> Self:
        for name, counts in self.published.items():
            if name not in self.types or not 0 < len(counts) <= len(self.types):
                raise ValueError(f"counts of {name!r}: want one for each of {', '.join(self.types)}, or of the last")
        return self


class PublishedLattice(Settings):
    """A table with a line for each value of an axis, and a column for each figure."""

    axis: Axis
    figures: Mapping[str, str] = Field(min_length=1, description="Figures by the titles of their columns.")
    against: str | None = Field(None, description="Value whose figures are taken off.")
    less: Mapping[str, str] = Field(
        default_factory=dict, description="Figures less those of `against`, by the titles of their columns."
    )
    notes: Mapping[str, str] = Field(default_factory=dict, description="What is to say of a value.")

    @model_validator(mode="after")
    def _against_something(self) -> Self:
        if (self.against is None) == bool(self.less):
            raise ValueError("want 'against', a value, and 'less', the figures that are compared with its own")
        return self


class PublishedTable(Settings):
    """A table: its rows, and the sweep whose cells they are about. Corpora of the sweep are names of the file's."""

    title: str = Field(min_length=1)
    note: str | None = Field(None, description="What differs from the paper in the whole table.")
    sweep: SweepFile | None = Field(None, description="A sweep; without one, no row has cells.")
    lattice: PublishedLattice | None = Field(None, description="Rows that are made of the sweep, before 'rows'.")
    pairs: PublishedPairs | None = Field(None, description="Counts of pairs, in place of 'sweep' and 'rows'.")
    rows: tuple[PublishedRow, ...] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.rows or self.lattice) == bool(self.pairs):
            raise ValueError("want 'rows' or a 'lattice', or else 'pairs'")
        if self.lattice is not None and any(row.column is None for row in self.rows):
            raise ValueError("rows beside a 'lattice' have a 'column'")
        if self.pairs is not None and self.sweep is not None:
            raise ValueError("'pairs' are counted in a corpus, without a 'sweep'")
        if self.sweep is None and (self.lattice or any(row.missing is None for row in self.rows)):
            raise ValueError("rows that are measured need a 'sweep'")
        return self


class PaperFile(Settings):
    """The tables of a paper."""

    paper: str = Field(min_length=1, description="Authors and year.")
    corpora: Mapping[str, PublishedCorpus] = Field(default_factory=dict)
    mined: Mapping[str, PublishedRules] = Field(default_factory=dict, description="Mined rules, by name.")
    tables: Mapping[str, PublishedTable] = Field(min_length=1)


class Lies(StrEnum):
    """Where the published figure lies."""

    BELOW = "below"
    INSIDE = "inside"
    ABOVE = "above"


class MeasuredRow(Report):
    """A row with what was measured; figures are in per cent, or in nats.

    - ``measured``: figure, or mean over runs; None where there is none, and ``why`` says why
    - ``low``, ``high``: its 95 % interval
    - ``lies``: where the published figure lies beside that
    - ``column``: column of the page, where rows of a name stand on one line
    - ``runs``: number of seeds and draws
    - ``measured_sd``: standard deviation (n − 1) over runs
    - ``measured_minimum``: least of them
    - ``t_test``: p-value of the runs against the figure that is taken off; None where they are all the same
    """

    name: str
    figure: str
    column: str | None = None
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


class MeasuredTable(Report):
    """A table with what was measured.

    - ``parts``: what stands for official test parts, a sentence for each
    - ``cpu_seconds``: of workers, for its cells and models
    """

    paper: str
    table: str
    title: str
    note: str | None = None
    parts: tuple[str, ...] = ()
    rows: tuple[MeasuredRow, ...]
    cpu_seconds: float = 0.0


class PapersReport(Report):
    """What `concord papers` did.

    - ``page``: Markdown file; the HTML file stands beside it
    - ``made_up``: were the corpora made up?
    - ``failed``: reason by the name of each cell without a result
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

    def blocks(self) -> Iterator[AnyBlock]:
        """Number of published figures below, inside and above the measured intervals, and the page's path."""
        counts = ", ".join(f"{self.count(lies):,} {lies.value}" for lies in Lies)
        figures = f"published figures beside our intervals: {counts}; {self.count(None):,} without"
        if self.made_up:
            figures = "made-up corpora: no figure can be compared with a published one"
        yield Headline(f"{len(self.tables):,} tables, {self.cpu_seconds:,.1f} CPU s; {figures}")
        yield Remark(f"page in {self.page}")
