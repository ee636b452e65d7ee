"""Tables on narrow terminals: every name and every figure is there, whatever the width."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table as Grid

from concord.flows.cli.catalogue import engines, listing, readers, templates
from concord.flows.screen.terminal import grid
from concord.schemas.audit import Breaches, CheckReport, ConstraintCheck, ConstraintEffect, Explanation, LabelChange
from concord.schemas.blocks import Table
from concord.schemas.reports import AgainstReport, Difference
from concord.schemas.shown import Report
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.evaluation.measures import MEASURES
from concord.workers.evaluation.named_counts import MatchCounts
from concord.workers.evaluation.tally import Tally

CITATIONS = Path(__file__).parents[1] / "infra" / "constraints" / "citations.yaml"
WIDTHS = (40, 60, 80, 200)


def shown(table: RenderableType, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    lines = out.getvalue().splitlines()
    assert all(cell_len(line) <= width for line in lines)
    return "\n".join(lines)


def columns(text: str) -> str:
    """What is printed without blanks, column by column as far as a fold can be undone: letters in a bag."""
    return "".join(sorted(re.sub(r"\s", "", text)))


def tables(report: Report) -> list[Grid]:
    """What a terminal shows of a report's tables."""
    return [grid(block) for block in report.blocks() if isinstance(block, Table)]


def whole(table: RenderableType) -> None:
    """Nothing is cut off: a narrow table has the letters of a wide one, and no ellipsis."""
    wide = columns(shown(table, 2000))
    for width in WIDTHS:
        text = shown(table, width)
        assert "…" not in text
        assert columns(text) == wide


@pytest.fixture
def check() -> CheckReport:
    names = load_constraints(CITATIONS).names
    breaches = Breaches(documents=37, places=1_136, degree=3, penalty=1_136.5)
    rows = (
        ConstraintCheck(
            name=name, weight=1.25 * i, documents=100, places=3_651, gold=breaches, model=breaches, warnings=()
        )
        for i, name in enumerate(names)
    )
    return CheckReport(
        documents=100, tokens=3_651, with_gold=100, searched=50, undecided=0, constraints=tuple(rows), conflicts=()
    )


def test_a_check_keeps_the_names_of_the_shipped_constraints(check: CheckReport) -> None:
    (table,) = tables(check)
    whole(table)
    lines = shown(table, 80).splitlines()
    for row in check.constraints:
        assert any(line.startswith(f"{row.name} ") for line in lines), row.name


def test_a_check_without_a_model_or_gold_has_no_columns_for_them(check: CheckReport) -> None:
    rows = tuple(row.model_copy(update={"model": None}) for row in check.constraints)
    gold_only = shown(tables(check.model_copy(update={"constraints": rows}))[0], 80)
    assert "gold" in gold_only
    assert "model" not in gold_only
    rows = tuple(row.model_copy(update={"gold": None}) for row in check.constraints)
    assert "gold" not in shown(tables(check.model_copy(update={"constraints": rows}))[0], 80)


def test_an_explanation_is_whole() -> None:
    change = LabelChange(position=3, token="antidisestablishmentarianism", without="O", label="B-MISC")
    effect = ConstraintEffect(
        name="a name of many words that says much",
        degree_before=12.0,
        degree=1.0,
        penalty=123.25,
        cost=0.5,
        changes=(change,) * 3,
    )
    found = Explanation(
        doc_id="d",
        tokens=("https://example.org/" + "x" * 120, "a"),
        gold=("O", "B-MISC"),
        unconstrained=("O", "O"),
        labels=("O", "B-MISC"),
        local=1.0,
        penalty=2.0,
        cost=0.75,
        gap=0.0,
        status="optimal",
        effects=(effect, effect),
    )
    assert len(tables(found)) == 2
    for table in tables(found):
        whole(table)


def test_evaluations_are_whole() -> None:
    counts = MatchCounts.of_columns(
        ["authors/person/person-first", "MISC"], [np.array([51_362, 2]), np.array([50_000, 3]), np.array([46_250, 1])]
    )
    every = dict.fromkeys(MEASURES, counts)
    tally = replace(Tally.empty(list(MEASURES)), after=every, before=every)
    row = Difference(other=0.9, difference=-0.01234, low=-0.1, high=0.1, p_value=0.001)
    differences = {name: dict.fromkeys(entry.figures, row) for name, entry in MEASURES.items()}
    against = AgainstReport(run="out", only_here=(), only_there=(), measures=differences)
    report = tally.report().model_copy(update={"against": against})
    measured = tables(report)
    assert len(measured) == len(MEASURES) + 1
    for table in measured:
        whole(table)
    lines = shown(measured[-1], 80).splitlines()
    assert any(line.startswith("spans macro F1 ") and line.endswith(" 0.001") for line in lines)


def test_what_there_is_to_choose_from_is_whole() -> None:
    whole(listing(engines()))
    whole(listing(readers()))
    whole(listing(templates()))


def test_options_say_what_they_take() -> None:
    gibbs = next(entry for entry in engines() if entry.name == "gibbs")
    text = shown(listing([gibbs]), 200)
    assert "Number of sweeps over the document, for each chain. (from 1)" in text
    assert "(viterbi or random)" in text
    evolution = next(entry for entry in engines() if entry.name == "evolution")
    text = shown(listing([evolution]), 200)
    assert "(from 1, or null)" in text
    assert "(above 0 to 1)" in text
