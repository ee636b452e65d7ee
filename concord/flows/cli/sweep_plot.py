"""A sweep as a picture: a figure by the values of one axis, with its intervals."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concord.flows.commands.sweeps import ShownSweep
from concord.flows.inputs.apart import check_file_place
from concord.schemas.distribution import with_extra
from concord.schemas.errors import UsageError
from concord.workers.storage.files import writing
from concord.workers.sweeps.tables import ComparisonRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from concord.flows.cli.sweep_picture import SweepPicture

KINDS = (".svg", ".png", ".pdf")
"""File extensions of pictures."""

INCHES = 7.0, 4.2
PANELS_BY = "corpus"
"""Axis whose values have a panel each: figures of two corpora are not to be compared by eye."""

Coordinates = tuple[tuple[str, Any], ...]
"""Values of the other axes."""

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


def figure_of(shown: ShownSweep) -> SweepPicture:
    """Draws a panel for each corpus, in it one line, or one row of marks, for each combination of the other axes."""
    from concord.flows.cli.sweep_picture import SweepPicture

    panels: dict[Any, dict[Coordinates, list[ComparisonRow]]] = {}
    for row in shown.rows:
        others = {axis: value for axis, value in row.others.items() if axis != PANELS_BY}
        panel = panels.setdefault(row.others.get(PANELS_BY), {})
        panel.setdefault(tuple(others.items()), []).append(row)
    series = list(dict.fromkeys(others for panel in panels.values() for others in panel))
    places = _places([row.value for row in shown.rows])
    width, height = INCHES
    figure = SweepPicture(figsize=(width, height * max(1, len(panels))), layout="constrained")
    for number, (corpus, panel) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(len(panels), 1, number)
        _draw_panel(axes, panel, series, places)
        axes.set_title("" if corpus is None else str(corpus), loc="left", fontsize="medium")
        axes.set_ylabel(f"{shown.figure} (%), 95 % interval")
        axes.set_xlabel(shown.by if number == len(panels) else "")
    if len(series) > 1:
        legends = [axes.get_legend_handles_labels() for axes in figure.axes]
        marks = {label: mark for handles, labels in legends for mark, label in zip(handles, labels, strict=True)}
        figure.legend(list(marks.values()), list(marks), loc="outside lower center", fontsize="small", ncols=2)
    return figure


def _draw_panel(
    axes: Axes,
    panel: Mapping[Coordinates, Sequence[ComparisonRow]],
    series: Sequence[Coordinates],
    places: Mapping[Any, float],
) -> None:
    """The rows of one corpus; a series has one colour in all panels."""
    numbers = all(isinstance(value, int) for value in places)
    for number, others in enumerate(series):
        rows = panel.get(others, [])
        shift = 0.0 if numbers or len(series) == 1 else SPREAD * (number / (len(series) - 1) - 0.5)
        at = [places[row.value] + shift for row in rows]
        if rows:
            _draw_rows(axes, rows, at, _title(others), joined=numbers, colour=f"C{number}")
    if not numbers:
        axes.set_xticks(list(places.values()), ["all" if value is None else str(value) for value in places])


def _places(values: Sequence[Any]) -> Mapping[Any, float]:
    """Place of each value on the horizontal axis: the value itself, or its rank if some value is no number."""
    different = list(dict.fromkeys(values))
    if all(isinstance(value, int) for value in different):
        return {value: float(value) for value in different}
    return {value: float(rank) for rank, value in enumerate(different)}


def _draw_rows(
    axes: Axes, rows: Sequence[ComparisonRow], places: Sequence[float], title: str, *, joined: bool, colour: str
) -> None:
    middle = [100 * row.interval.value for row in rows]
    below = [100 * (row.interval.value - row.interval.low) for row in rows]
    above = [100 * (row.interval.high - row.interval.value) for row in rows]
    style = "o-" if joined else "o"
    axes.errorbar(places, middle, yerr=[below, above], fmt=style, capsize=3, label=title, markersize=4, color=colour)


def _title(others: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in others)
