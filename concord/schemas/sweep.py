"""A sweep: the file that declares its cells, the cells, and the reports about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, row, text_columns
from concord.schemas.run import ENGINE
from concord.schemas.settings import Settings, Validation
from concord.schemas.shown import Report

Size = int | Literal["all"]
"""Number of training documents, or all of them."""


Consistency = bool | Literal["published"]
"""Label consistency of a model: none, scaled on held-out documents, or as published."""


class SweptCorpus(Settings):
    """A corpus: documents to learn from, and documents with gold labels to judge by."""

    train: str | None = Field(None, description="Corpus to learn from.")
    test: str | None = Field(None, description="Corpus with gold labels on which cells are judged.")
    pool: str | None = Field(
        None,
        description="Documents whose labels, if they have any, are not read: models that say `pool: true` learn on.",
    )
    folds: int | None = Field(None, ge=2, description="Number of folds of `train` that are judged, in place of `test`.")
    validation: Validation = Field(
        Validation.RANDOM, description="Folds of random documents, or each judged by a model of earlier documents."
    )

    @model_validator(mode="after")
    def _one_way_to_judge(self) -> Self:
        if (self.test is None) == (self.folds is None):
            raise ValueError("want either 'test', a corpus, or 'folds', a number")
        if self.folds is not None and self.train is None:
            raise ValueError("'folds' are of the corpus 'train', which is missing")
        return self


class SweptModel(Settings):
    """A model: a trainer with its options, or a model folder that is there."""

    folder: str | None = Field(None, description="Folder of a trained model, in place of training one.")
    trainer: str | None = Field(None, description="Trainer; `concord list trainers` has them.")
    options: Mapping[str, Any] = Field(default_factory=dict, description="Options of the trainer.")
    grid: Mapping[str, tuple[Any, ...]] = Field(
        default_factory=dict, description="Options with several values: each combination is a model of its own."
    )
    pool: bool = Field(default=False, description="Learn on from the corpus's `pool`? For trainers hmm and codl.")
    consistency: Consistency = Field(
        default=False,
        description="Learn label consistency with the model? Its costs are counted, and scaled on held-out documents; "
        "with `published` they stay as counted, as in Finkel et al. (2005).",
    )

    @model_validator(mode="after")
    def _trained_or_there(self) -> Self:
        wrong = sorted(name for name in self.model_fields_set - {"folder"} if getattr(self, name))
        if self.folder is not None and wrong:
            raise ValueError(f"a model 'folder' is not trained: it has no {', '.join(map(repr, wrong))}")
        return self


class SweptConstraints(Settings):
    """Constraints: files, or those learned with the model, and the label consistency of the model."""

    files: tuple[str, ...] = Field((), description="Constraint files (YAML).")
    learned: bool = Field(
        default=False,
        description="Use the constraints, with their weights, under which the model was learned? Trainers perceptron "
        "and codl have some.",
    )
    consistency: bool = Field(default=False, description="Use the label consistency that was learned with the model?")
    each: tuple[Literal["only", "without"], ...] = Field(
        (), description="More cells: `only` each constraint of the files, or all `without` it (ablation)."
    )

    known_labels_only: bool = Field(
        default=False,
        description="Leave out constraints that name a label which the model has not learned, as from few documents? "
        "Otherwise its cells fail.",
    )

    @model_validator(mode="before")
    @classmethod
    def _files_alone(cls, given: Any) -> Any:
        return {"files": given} if isinstance(given, list | tuple) else given

    @model_validator(mode="after")
    def _declared_or_learned(self) -> Self:
        if self.learned and (self.files or self.each):
            raise ValueError("'learned' constraints are those of the model: give no 'files' and no 'each' with them")
        return self


DECLARED = "declared"
"""Penalty of weights that stay as their constraint files have them."""


class SweptPenalty(Settings):
    """How the weights of constraints are decided: a penalty with its options."""

    penalty: str | None = Field(
        None,
        description="Penalty (default: the entry's own name): `declared`, as the files have them, or one of "
        "`concord list penalties`.",
    )
    options: Mapping[str, Any] = Field(default_factory=dict, description="Options of the penalty.")
    grid: Mapping[str, tuple[Any, ...]] = Field(
        default_factory=dict, description="Options with several values: each combination is a penalty of its own."
    )


class SweptEngine(Settings):
    """An engine with its options and its budget for a document."""

    engine: str | None = Field(None, description="Engine (default: the entry's own name); `concord list engines`.")
    options: Mapping[str, Any] = Field(default_factory=dict, description="Options of the engine.")
    grid: Mapping[str, tuple[Any, ...]] = Field(
        default_factory=dict, description="Options with several values: each combination is an engine entry of its own."
    )
    work: int | None = Field(None, ge=1, description="Limit of deterministic work for a document.")
    seconds: float | None = Field(None, gt=0, description="Limit of wall-clock time for a document, in seconds.")


Axis = Literal["corpus", "model", "size", "subset", "constraints", "penalty", "engine", "seed"]
AXES: tuple[Axis, ...] = ("corpus", "model", "size", "subset", "constraints", "penalty", "engine", "seed")
"""Coordinates of a cell that a file names, in the order in which cells are made; the fold comes after the corpus."""


class Crossing(Settings):
    """Some of the cells: of each axis the values to take (default: all of the file)."""

    corpus: tuple[str, ...] | None = None
    model: tuple[str, ...] | None = None
    size: tuple[Size, ...] | None = None
    subset: tuple[int, ...] | None = None
    constraints: tuple[str, ...] | None = None
    penalty: tuple[str, ...] | None = None
    engine: tuple[str, ...] | None = None
    seed: tuple[int, ...] | None = None
    zip: bool = Field(
        default=False, description="Take the lists that are given side by side, first with first, not each with each."
    )

    @model_validator(mode="after")
    def _side_by_side(self) -> Self:
        lengths = {axis: len(values) for axis in AXES if (values := getattr(self, axis)) is not None}
        if self.zip and len(set(lengths.values())) > 1:
            counts = ", ".join(f"{axis} {length}" for axis, length in lengths.items())
            raise ValueError(f"lists that are taken side by side have different lengths: {counts}")
        return self


class Baseline(Settings):
    """The setting that the chosen one is compared with."""

    model: str
    constraints: str
    engine: str
    penalty: str = DECLARED


class SweepSearch(Settings):
    """Which settings (a model, constraints, a penalty and an engine) are tried."""

    kind: Literal["grid", "random", "halving"] = Field(
        "grid", description="All; some that are drawn; or all on few documents, and the better ones on more."
    )
    settings: int | None = Field(None, ge=1, description="Number of settings to draw (default: all).")
    seed: int = Field(0, ge=0, description="Seed of the draw.")
    kept: float = Field(0.5, gt=0, lt=1, description="Share of the settings that stay for the next size.")

    @model_validator(mode="after")
    def _some_drawn(self) -> Self:
        if self.kind == "random" and self.settings is None:
            raise ValueError("a random search wants 'settings', the number to draw")
        if self.kind == "grid" and self.settings is not None:
            raise ValueError("a grid has all settings; 'settings' is of a search that is random or halving")
        return self


class Selection(Settings):
    """How the best setting is chosen, and where its figures come from."""

    on: str = Field(description="Corpus on which the best setting is chosen.")
    report: tuple[str, ...] = Field((), description="Corpora of the figures (default: all others).")
    measure: str | None = Field(
        None, description="Figure to choose by, such as spans.f1 (default: the first F1 or accuracy)."
    )
    baseline: Baseline | None = Field(None, description="Setting that is reported beside the chosen one.")
    same_documents: bool = Field(
        default=False, description="Report on the documents that choose, too? Such figures are too good."
    )


class SweepFile(Settings):
    """What a sweep file declares."""

    corpora: Mapping[str, SweptCorpus] = Field(min_length=1)
    models: Mapping[str, SweptModel] = Field(min_length=1)
    constraints: Mapping[str, SweptConstraints] = Field(
        default_factory=lambda: {"none": SweptConstraints()}, min_length=1
    )
    penalties: Mapping[str, SweptPenalty] = Field(
        default_factory=lambda: {DECLARED: SweptPenalty()},
        min_length=1,
        description="How the weights of constraints are decided (default: as declared).",
    )
    engines: Mapping[str, SweptEngine] = Field(default_factory=lambda: {ENGINE: SweptEngine()}, min_length=1)
    seeds: tuple[int, ...] = Field((0,), min_length=1, description="Seeds of the engines.")
    sizes: tuple[Size, ...] = Field(
        ("all",), min_length=1, description="Numbers of training documents: a learning curve."
    )
    subsets: int | None = Field(
        None, ge=1, description="Number of random draws of each size (default: the first documents, once)."
    )
    measures: tuple[str, ...] = Field((), description="Measures (default: those of the label scheme).")
    cross: tuple[Crossing, ...] = Field((Crossing(),), min_length=1, description="Which cells there are.")
    search: SweepSearch = Field(SweepSearch(), description="Which settings are tried (default: all).")
    select: Selection | None = Field(None, description="Choice of the best setting on other documents.")
    tracking: Literal["runs", "table"] | None = Field(
        None, description="A run in MLflow for each cell, or only the table of all (default: runs for up to 200 cells)."
    )

    @field_validator("corpora", "models", "constraints", "penalties", "engines")
    @classmethod
    def _plain_names(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in given:
            if not name or "/" in name or "=" in name or not name.isprintable():
                raise ValueError(f"{name!r} is no name: want printable characters without / and =")
        return given

    @field_validator("sizes")
    @classmethod
    def _some_documents(cls, given: tuple[Size, ...]) -> tuple[Size, ...]:
        if any(size != "all" and size < 1 for size in given):
            raise ValueError("a size is a number of documents, 1 or more, or 'all'")
        return given


class Cell(NamedTuple):
    """Coordinates of a cell: a model is trained, labels the judged documents, and is measured.

    - ``fold``: number of the fold that is judged; None for a corpus with a test part
    - ``size``: number of training documents; None for all
    - ``subset``: number of the random draw of these; None for the first ones
    - ``penalty``: how the weights of the constraints are decided
    """

    corpus: str
    fold: int | None
    model: str
    size: int | None
    subset: int | None
    constraints: str
    engine: str
    seed: int
    penalty: str = DECLARED

    @property
    def name(self) -> str:
        """Name of the cell in its sweep."""
        fold = [] if self.fold is None else [f"fold={self.fold}"]
        size = [] if self.size is None else [f"size={self.size}"]
        subset = [] if self.subset is None else [f"subset={self.subset}"]
        trained = [self.corpus, *fold, self.model, *size, *subset]
        return "/".join([*trained, self.constraints, *_told(self.penalty), self.engine, f"seed={self.seed}"])


class Setting(NamedTuple):
    """What a search chooses among: names of a model, constraints, an engine and a penalty."""

    model: str
    constraints: str
    engine: str
    penalty: str = DECLARED

    @classmethod
    def of(cls, cell: Cell | Baseline) -> Setting:
        """The setting of a cell."""
        return cls(cell.model, cell.constraints, cell.engine, cell.penalty)

    @property
    def name(self) -> str:
        """Name of the setting in its sweep."""
        return "/".join([self.model, self.constraints, *_told(self.penalty), self.engine])


def _told(penalty: str) -> list[str]:
    """A penalty in a name, which does not tell the usual one."""
    return [] if penalty == DECLARED else [penalty]


class CellState(StrEnum):
    """Life of a cell."""

    PLANNED = "planned"
    """Nothing is done yet, or a run that did it was stopped."""
    RUNNING = "running"
    """A worker is at it."""
    DONE = "done"
    FAILED = "failed"
    """The last attempt ended with an error; `concord sweep log` has it."""
    STALE = "stale"
    """Done with another content: what has changed is said."""
    DROPPED = "dropped"
    """Left out by the search: other settings were better."""


class CellRow(Report):
    """A cell in a listing.

    - ``changed``: parts of its content that differ from the result that is there
    - ``reason``: why it failed
    """

    name: str
    key: str
    state: CellState
    changed: tuple[str, ...] = ()
    reason: str | None = None


class SweepPlan(Report):
    """What a sweep would do.

    - ``cells``: every cell, in the order of the file
    - ``models``: number of models to train
    - ``weights``: number of constraint sets to weigh
    - ``cpu_seconds``: estimate from cells that are done; None where there is none like them
    - ``bytes``: estimate of the disk that results take
    """

    out: str
    cells: tuple[CellRow, ...]
    models: int = 0
    weights: int = 0
    cpu_seconds: float | None = None
    bytes: int | None = None

    def count(self, state: CellState) -> int:
        """Number of cells in a state."""
        return sum(row.state is state for row in self.cells)

    def blocks(self) -> Iterator[AnyBlock]:
        """What it would do: cells by state, reasons of stale ones, models, cost."""
        counts = ", ".join(f"{self.count(state):,} {state}" for state in CellState if self.count(state))
        yield Headline(f"{len(self.cells):,} cells: {counts}")
        cost = "unknown before the first cells are done"
        if self.cpu_seconds is not None:
            cost = f"about {self.cpu_seconds:,.0f}"
        disk = "" if self.bytes is None else f"; about {self.bytes / 1e6:,.1f} MB of results"
        work = f"{self.models:,} models to train, {self.weights:,} sets of constraints to weigh"
        yield Remark(f"{work}; CPU seconds: {cost}{disk}")
        stale = Counter(", ".join(row.changed) for row in self.cells if row.state is CellState.STALE)
        yield from (Remark(f"stale, {number:,} cells: changed {parts}") for parts, number in stale.items())
        yield from failed_cells(self.cells)


class SweepReport(Report):
    """What a sweep did.

    - ``done``: number of cells with a result
    - ``made``: number of these that this run made
    - ``reused``: number of these that came from another sweep
    - ``models``: number of models that this run trained
    - ``weights``: number of constraint sets that it weighed
    - ``failed``: reason by the name of each cell without one
    """

    out: str
    cells: int
    done: int
    made: int
    reused: int
    models: int
    weights: int
    failed: Mapping[str, str]
    cpu_seconds: float
    seconds: float
    mlflow_run: str | None = None

    def blocks(self) -> Iterator[AnyBlock]:
        """Cells that are done, why others failed, and the tables."""
        yield Headline(
            f"{self.done:,} of {self.cells:,} cells done: {self.made:,} now, {self.reused:,} reused; "
            f"{self.models:,} models trained, {self.weights:,} sets of constraints weighed; "
            f"{self.cpu_seconds:,.1f} CPU s of engines"
        )
        if self.failed:
            failed = (row(name, reason) for name, reason in self.failed.items())
            yield Table(text_columns("cell", "reason"), tuple(failed), "Failed", detail=True)
        yield Remark(f"tables in {self.out}")


MOST_REASONS = 8
"""Largest number of reasons of failed cells that are told."""


def reasons_told(failed: Mapping[str, str]) -> list[str]:
    """First lines of at most `MOST_REASONS` distinct reasons, each with the number of cells that failed by it and the
    first of these."""
    cells: dict[str, list[str]] = {}
    for name, reason in failed.items():
        cells.setdefault(reason.partition("\n")[0], []).append(name)
    lines = [f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {why}" for why, names in cells.items()]
    more = [f"and {len(lines) - MOST_REASONS} more reasons"] if len(lines) > MOST_REASONS else []
    return [*lines[:MOST_REASONS], *more]


def failed_cells(rows: Sequence[CellRow]) -> Iterator[Remark]:
    """Why cells failed, and where the whole error is."""
    failed = {row.name: row.reason or "" for row in rows if row.state is CellState.FAILED}
    yield from (Remark(f"failed: {reason}") for reason in reasons_told(failed))
    if failed:
        yield Remark("`concord sweep log --sweep FOLDER --cell CELL` has the whole error of a cell")
