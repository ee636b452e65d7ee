"""A sweep as a picture and as a table: a panel for each corpus, one legend, and tables that fit the terminal."""

from __future__ import annotations

import io
from itertools import product

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
    made.canvas.draw()
    assert legend.get_window_extent().y1 <= min(axes.get_window_extent().y0 for axes in made.axes)


@pytest.mark.parametrize("values", [["viterbi", "certify"], [10, 100, 1000]])
def test_one_series_has_no_legend_and_a_notebook_shows_the_picture(values: list[str] | list[int]) -> None:
    made = figure_of(shown(["news"], ["crf"], values))
    assert (len(made.axes), made.legends) == (1, [])
    assert made._repr_png_().startswith(b"\x89PNG")
    assert [axes.get_title("left") for axes in made.axes] == [""]


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
