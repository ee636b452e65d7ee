"""A sweep as a picture: a figure by the values of one axis, with its intervals."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concord.flows.commands.sweeps import ShownSweep
from concord.flows.inputs.output_places import check_file_place
from concord.schemas.distribution import with_extra
from concord.schemas.errors import UsageError
from concord.workers.storage.files import writing
from concord.workers.sweeps.tables import ComparisonRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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

LETTERS_BELOW = 70
"""Letters of all names together that fit below a panel; longer ones stand beside it, a line each."""

LINE_INCHES = 0.3
"""Height of a value whose name stands beside the panel."""


def check_plot(path: Path, folder: str) -> None:
    """Checks, before the work, that a picture can be drawn. Raises `UsageError` and `OutputError`."""
    if path.suffix not in KINDS:
        raise UsageError(f"--plot {path}: want a name that ends in one of {', '.join(KINDS)}")
    if find_spec("matplotlib") is None:
        raise UsageError(f"--plot needs matplotlib: pip install '{with_extra('plot')}'")
    check_file_place(path, [folder], option="--plot")


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
    lying = _are_long(places)
    width, height = INCHES
    height = max(height, LINE_INCHES * len(places)) if lying else height
    figure = SweepPicture(figsize=(width, height * max(1, len(panels))), layout="constrained")
    for number, (corpus, panel) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(len(panels), 1, number)
        _draw_panel(axes, panel, series, places)
        axes.set_title("" if corpus is None else str(corpus), loc="left", fontsize="medium")
        name_figures, name_values = (axes.set_xlabel, axes.set_ylabel) if lying else (axes.set_ylabel, axes.set_xlabel)
        is_last = number == len(panels)
        name_figures(f"{shown.figure} (%), 95 % interval" if is_last or not lying else "")
        name_values(shown.by if is_last or lying else "")
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
    numbers, lying = all(isinstance(value, int) for value in places), _are_long(places)
    for number, others in enumerate(series):
        rows = panel.get(others, [])
        shift = 0.0 if numbers or len(series) == 1 else SPREAD * (number / (len(series) - 1) - 0.5)
        at = [places[row.value] + shift for row in rows]
        if rows:
            style = {"fmt": "o-" if numbers else "o", "label": _title(others), "color": f"C{number}"}
            _draw_rows(axes, rows, at, style, lying=lying)
    if numbers:
        return
    set_ticks = axes.set_yticks if lying else axes.set_xticks
    set_ticks(list(places.values()), [_name(value) for value in places])
    if lying:
        axes.set_ylim(len(places) - 0.5, -0.5)


def _name(value: Any) -> str:
    return "all" if value is None else str(value)


def _are_long(values: Iterable[Any]) -> bool:
    """Are values names which are too long to stand side by side?"""
    names = [_name(value) for value in values if not isinstance(value, int)]
    return sum(map(len, names)) + len(names) > LETTERS_BELOW


def _places(values: Sequence[Any]) -> Mapping[Any, float]:
    """Place of each value on its axis: the value itself, or its rank if some value is no number."""
    different = list(dict.fromkeys(values))
    if all(isinstance(value, int) for value in different):
        return {value: float(value) for value in different}
    return {value: float(rank) for rank, value in enumerate(different)}


def _draw_rows(
    axes: Axes, rows: Sequence[ComparisonRow], places: Sequence[float], style: Mapping[str, Any], *, lying: bool
) -> None:
    middle = [100 * row.interval.value for row in rows]
    below = [100 * (row.interval.value - row.interval.low) for row in rows]
    above = [100 * (row.interval.high - row.interval.value) for row in rows]
    if lying:
        axes.errorbar(middle, places, xerr=[below, above], capsize=3, markersize=4, **style)
    else:
        axes.errorbar(places, middle, yerr=[below, above], capsize=3, markersize=4, **style)


def _title(others: Sequence[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in others)
