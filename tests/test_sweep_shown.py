"""A sweep as a picture and as a table: a panel for each corpus, one legend, and tables that fit the terminal."""

from __future__ import annotations

import io
from itertools import combinations, product

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from concord.flows.cli.sweep_plot import figure_of
from concord.flows.cli.sweep_tables import FittedTable
from concord.flows.commands.sweeps import ShownSweep
from concord.workers.evaluation.bootstrap import Interval
from concord.workers.sweeps.searching import SearchStanding
from concord.workers.sweeps.tables import ComparisonRow

NO_SEARCH = SearchStanding(frozenset(), frozenset(), None, None, {})


def shown(corpora: list[str], models: list[str], values: list[str] | list[int]) -> ShownSweep:
    """A figure by the values of an axis, of each model on each corpus; axes with one value are left out."""
    rows = []
    for corpus, model, value in product(corpora, models, values):
        others = {"corpus": corpus} if len(corpora) > 1 else {}
        others |= {"model": model} if len(models) > 1 else {}
        rows.append(ComparisonRow(others, value, 1, 20, Interval(0.9, 0.85, 0.93), None, None, None))
    return ShownSweep([], "spans.f1", "engine", None, rows, None, NO_SEARCH)


def test_each_corpus_has_a_panel_and_a_model_the_same_colour_in_all() -> None:
    made = figure_of(shown(["news", "posts", "mail"], ["crf", "hmm"], ["viterbi", "certify"]))
    assert isinstance(made, Figure)
    assert [axes.get_title("left") for axes in made.axes] == ["news", "posts", "mail"]
    colours = [[line.get_color() for line in axes.get_lines()] for axes in made.axes]
    assert colours[0] == colours[1] == colours[2]
    assert set(colours[0]) == {"C0", "C1"}
    assert [axes.get_legend() for axes in made.axes] == [None] * 3
    (legend,) = made.legends
    assert [text.get_text() for text in legend.get_texts()] == ["model crf", "model hmm"]
    made.draw_without_rendering()
    assert legend.get_window_extent().y1 <= min(axes.get_window_extent().y0 for axes in made.axes)


@pytest.mark.parametrize("values", [["viterbi", "certify"], [10, 100, 1000]])
def test_one_series_has_no_legend_and_a_notebook_shows_the_picture(values: list[str] | list[int]) -> None:
    made = figure_of(shown(["news"], ["crf"], values))
    assert (len(made.axes), made.legends) == (1, [])
    assert made._repr_png_().startswith(b"\x89PNG")
    assert [axes.get_title("left") for axes in made.axes] == [""]


@pytest.mark.parametrize("corpora", [["news"], ["news", "posts"]])
@pytest.mark.parametrize("letters", [1, 6, 40])
@pytest.mark.parametrize("count", [2, 6, 18])
def test_names_of_values_never_stand_in_each_other(count: int, letters: int, corpora: list[str]) -> None:
    made = figure_of(shown(corpora, ["crf"], [f"{number:02} " + "x" * letters for number in range(count)]))
    made.draw_without_rendering()
    for axes in made.axes:
        names = [name for name in (*axes.get_xticklabels(), *axes.get_yticklabels()) if "x" in name.get_text()]
        assert len(names) == count
        boxes = [name.get_window_extent() for name in names]
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        assert all(box.x0 >= 0 and box.x1 <= made.bbox.x1 for box in boxes)


@pytest.mark.parametrize("width", [80, 200])
def test_a_table_that_is_too_wide_is_one_for_each_combination(width: int) -> None:
    out = io.StringIO()
    found = shown(["conll2003", "wnut17"], ["crf dropout=0.3", "perceptron over many passes"], ["viterbi", "certify"])
    console = Console(file=out, width=width)
    console.print(FittedTable(found))
    lines = out.getvalue().splitlines()
    titles = [line for line in lines if line.startswith("corpus ")]
    assert sum(line.split()[-1] == "93.00" for line in lines) == 8, "no row is folded"
    if width == 200:
        assert len(titles) == 1, "the head of the table"
    else:
        assert titles[0] == "corpus conll2003, model crf dropout=0.3"
        assert len(titles) == 4
