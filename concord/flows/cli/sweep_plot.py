"""A sweep as a picture: a figure by the values of one axis, with its intervals."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concord.flows.apart import check_file_place
from concord.flows.commands.sweeps import ShownSweep
from concord.schemas.distribution import with_extra
from concord.schemas.errors import UsageError
from concord.workers.storage.files import writing
from concord.workers.sweeps.tables import Compared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

KINDS = (".svg", ".png", ".pdf")
"""File extensions of pictures."""

INCHES = 7.0, 4.2
SPREAD = 0.3
"""Width over which the marks of one value are spread, if the values are names."""


def check_plot(path: Path, folder: str) -> None:
    """Checks, before the work, that a picture can be drawn. Raises `UsageError` and `OutputError`."""
    if path.suffix not in KINDS:
        raise UsageError(f"--plot {path}: want a name that ends in one of {', '.join(KINDS)}")
    if find_spec("matplotlib") is None:
        raise UsageError(f"--plot needs matplotlib: pip install '{with_extra('plot')}'")
    check_file_place(path, [folder])


def draw(shown: ShownSweep, path: Path) -> None:
    """Writes the picture of a sweep to a file. Raises `OutputError`."""
    with writing(path):
        figure_of(shown).savefig(path)


def figure_of(shown: ShownSweep) -> Figure:
    """Draws one line, or one row of marks, for each combination of the other axes."""
    from matplotlib.figure import Figure

    series: dict[tuple[tuple[str, Any], ...], list[Compared]] = {}
    for row in shown.rows:
        series.setdefault(tuple(row.others.items()), []).append(row)
    places = _places([row.value for row in shown.rows])
    numbers = all(isinstance(value, int) for value in places)
    figure = Figure(figsize=INCHES, layout="constrained")
    axes = figure.add_subplot()
    for number, (others, rows) in enumerate(series.items()):
        shift = 0.0 if numbers or len(series) == 1 else SPREAD * (number / (len(series) - 1) - 0.5)
        _draw_rows(axes, rows, [places[row.value] + shift for row in rows], _title(others), joined=numbers)
    if not numbers:
        axes.set_xticks(list(places.values()), ["all" if value is None else str(value) for value in places])
    axes.set_xlabel(shown.by)
    axes.set_ylabel(f"{shown.figure} (%), 95 % interval")
    if len(series) > 1:
        axes.legend(fontsize="small")
    return figure


def _places(values: Sequence[Any]) -> Mapping[Any, float]:
    """Place of each value on the horizontal axis: the value itself, or its rank if some value is no number."""
    different = list(dict.fromkeys(values))
    if all(isinstance(value, int) for value in different):
        return {value: float(value) for value in different}
    return {value: float(rank) for rank, value in enumerate(different)}


def _draw_rows(axes: Any, rows: Sequence[Compared], places: Sequence[float], title: str, *, joined: bool) -> None:
    middle = [100 * row.interval.value for row in rows]
    below = [100 * (row.interval.value - row.interval.low) for row in rows]
    above = [100 * (row.interval.high - row.interval.value) for row in rows]
    style = "o-" if joined else "o"
    axes.errorbar(places, middle, yerr=[below, above], fmt=style, capsize=3, label=title, markersize=4)


def _title(others: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in others)
