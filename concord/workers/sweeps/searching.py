"""Search of a sweep: which cells may be done now, which are dropped, and which setting is the best so far.

A setting is chosen on one corpus and reported on others: the cells of the others wait for the choice. Successive
halving tries all settings on few training documents, and keeps the better ones for more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

from pydantic import ValidationError

from concord.schemas.settings import Settings
from concord.schemas.sweep import Cell, CellRow, CellState, Selection, Setting, Size, SweepFile, SweepSearch
from concord.workers.storage.files import write_whole
from concord.workers.sweeps.results import ResultError, Store
from concord.workers.sweeps.tables import complete_runs, first_figure

CHOICE = "choice.json"
"""File of a sweep's folder: how its settings are searched and chosen."""

FINISHED = (CellState.DONE, CellState.FAILED)


class Choice(Settings):
    """How the settings of a sweep are searched and chosen; ``corpora`` are the names of all."""

    search: SweepSearch
    select: Selection | None
    sizes: tuple[Size, ...]
    corpora: tuple[str, ...]

    @classmethod
    def of(cls, file: SweepFile) -> Choice:
        """That of a sweep file."""
        return cls(search=file.search, select=file.select, sizes=file.sizes, corpora=tuple(file.corpora))

    @property
    def reported(self) -> tuple[str, ...]:
        """Corpora of the figures."""
        if self.select is None:
            return self.corpora
        others = tuple(name for name in self.corpora if name != self.select.on)
        return self.select.report or others or self.corpora

    @property
    def baseline(self) -> str | None:
        """Name of the setting that the chosen one is compared with."""
        base = None if self.select is None else self.select.baseline
        return None if base is None else Setting.of(base).name


class SearchStanding(NamedTuple):
    """How far a search is.

    - ``open``: cells that may be done now, or are done
    - ``dropped``: cells that the search leaves out
    - ``chosen``: the best setting; None before it is known
    - ``figure``: by which it is chosen
    - ``worth``: value of the figure of each setting that got to the end, on the corpus that chooses
    """

    open: frozenset[Cell]
    dropped: frozenset[Cell]
    chosen: Setting | None
    figure: str | None
    worth: Mapping[Setting, float]


def keep_choice(choice: Choice, store: Store) -> None:
    """Writes it to the folder. Raises `OutputError`."""
    write_whole(store.folder / CHOICE, choice.model_dump_json().encode())


def kept_choice(store: Store) -> Choice | None:
    """That of the folder; None for a sweep from before there were any. Raises `ResultError`."""
    path = store.folder / CHOICE
    try:
        return Choice.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise ResultError(f"{path}: cannot be read; run the sweep again") from None


def standing(cells: Sequence[tuple[Cell, CellRow]], store: Store, choice: Choice | None) -> SearchStanding:
    """How far the search is, by results that are there. Raises `ResultError` and `UsageError`."""
    if choice is None or choice.select is None:
        return SearchStanding(frozenset(cell for cell, _ in cells), frozenset(), None, None, {})
    return _StagedSearch(cells, store, choice, choice.select).standing()


class _StagedSearch:
    """The stages of a search, each on the results of the one before it."""

    def __init__(self, cells: Sequence[tuple[Cell, CellRow]], store: Store, choice: Choice, select: Selection) -> None:
        self._choice, self._store = choice, store
        self._judges = [(cell, row) for cell, row in cells if cell.corpus == select.on]
        self._others = {cell for cell, _ in cells if cell.corpus != select.on}
        self._baseline = None if select.baseline is None else Setting.of(select.baseline)
        self._figure = select.measure
        self._opened, self._dropped = set[Cell](), set[Cell]()

    def standing(self) -> SearchStanding:
        """How far it is."""
        alive = list(dict.fromkeys(Setting.of(cell) for cell, _ in self._judges))
        stages = self._stages()
        worth = dict[Setting, float]()
        for number, stage in enumerate(stages):
            mine = [(cell, row) for cell, row in stage if Setting.of(cell) in (*alive, self._baseline)]
            self._opened |= {cell for cell, _ in mine}
            self._dropped |= {cell for cell, _ in stage} - self._opened
            if not all(row.state in FINISHED for _, row in mine):
                return self._so_far(None, {})
            worth = {setting: self._worth(setting, mine) for setting in alive}
            alive.sort(key=lambda setting: -worth[setting])
            if number + 1 < len(stages):
                alive = alive[: ceil(len(alive) * self._choice.search.kept)]
        best = alive[0] if alive and worth[alive[0]] >= 0.0 else None
        reported_cells = {cell for cell in self._others if self._is_reported(cell, best)}
        self._opened |= reported_cells
        self._dropped |= self._others - reported_cells
        return self._so_far(best, worth)

    def _so_far(self, best: Setting | None, worth: Mapping[Setting, float]) -> SearchStanding:
        return SearchStanding(frozenset(self._opened), frozenset(self._dropped), best, self._figure, worth)

    def _stages(self) -> list[list[tuple[Cell, CellRow]]]:
        """The cells that choose: those of each size for halving, otherwise all at once."""
        if not self._is_halving:
            return [self._judges]
        sizes = [_documents(size) for size in self._choice.sizes]
        return [[(cell, row) for cell, row in self._judges if cell.size == size] for size in sizes]

    def _worth(self, setting: Setting, stage: Sequence[tuple[Cell, CellRow]]) -> float:
        """The figure of a setting on its largest size; below 0 where a cell has failed."""
        own = [(cell, row) for cell, row in stage if Setting.of(cell) == setting]
        if not own or any(row.state is CellState.FAILED for _, row in own):
            return -1.0
        largest = _largest([cell.size for cell, _ in own])
        keys = {cell: row.key for cell, row in own if cell.size == largest}
        self._figure = self._figure or first_figure(self._store.read(next(iter(keys.values()))))
        return float(complete_runs(list(keys), keys, self._store, self._figure).values.mean())

    @property
    def _is_halving(self) -> bool:
        return self._choice.search.kind == "halving"

    def _is_reported(self, cell: Cell, best: Setting | None) -> bool:
        """Whether the figures of a cell of another corpus are asked for: that of the choice or the baseline."""
        if best is None or cell.corpus not in self._choice.reported:
            return False
        sized = not self._is_halving or cell.size == _documents(self._choice.sizes[-1])
        return sized and Setting.of(cell) in (best, self._baseline)


def reported(
    cells: Sequence[tuple[Cell, CellRow]], choice: Choice, standing: SearchStanding
) -> list[tuple[Cell, CellRow]]:
    """The cells whose figures are those of the chosen setting and the baseline."""
    assert choice.select is not None
    base = choice.select.baseline
    settings = (standing.chosen, None if base is None else Setting.of(base))
    return [(c, row) for c, row in cells if c.corpus in choice.reported and Setting.of(c) in settings]


def without_dropped(rows: Sequence[CellRow], cells: Sequence[Cell], standing: SearchStanding) -> list[CellRow]:
    """The rows, where those that the search left out say so unless they have a result."""
    return [
        row.model_copy(update={"state": CellState.DROPPED})
        if cell in standing.dropped and row.state is not CellState.DONE
        else row
        for cell, row in zip(cells, rows, strict=True)
    ]


def _documents(size: Size) -> int | None:
    return None if size == "all" else size


def _largest(sizes: Sequence[int | None]) -> int | None:
    return None if None in sizes else max(size for size in sizes if size is not None)
