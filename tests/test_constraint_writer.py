"""Constraint files that are written read back as the same constraints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from concord.workers.constraints.constraint_file import load_constraints, parse_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.features import TokenFeature, TransitionFeature
from concord.workers.constraints.templates.words import Lexicon
from tests.support.made_templates import template
from tests.support.naive_templates import CASES

SHIPPED = Path(__file__).parents[1] / "infra" / "constraints"


def again(declared: DeclaredConstraints, comments: dict[str, str] | None = None) -> DeclaredConstraints:
    return parse_constraints(constraints_text(declared, comments or {}), file="written.yaml")


def every_case() -> list[tuple[str, dict[str, Any]]]:
    return [(name, fields) for name, (_, *cases) in CASES.items() for case in cases for fields in case]


@pytest.mark.parametrize("weight", [1.5, "hard", 0.0, 1e-9])
def test_every_template_reads_back_as_it_was(weight: float | str) -> None:
    for name, fields in every_case():
        declared = DeclaredConstraints((template(name, fields, weight),))
        read = again(declared)
        assert read.titles == declared.titles
        assert read.templates[0].model_copy(update={"name": None}) == declared.templates[0]


def test_local_features_keep_their_sign() -> None:
    declared = DeclaredConstraints(
        (
            TokenFeature(tokens=("in",), labels=("title",), weight=-1.25),
            TransitionFeature(first=("title",), second=("date",), weight=0.5),
        )
    )
    assert [t.weight for t in again(declared).templates] == [-1.25, 0.5]  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", ["citations.yaml", "news.yaml"])
def test_shipped_files_read_back(file: str) -> None:
    declared = load_constraints(SHIPPED / file)
    assert again(declared).digest == declared.digest


def test_strings_that_yaml_has_other_ideas_of_stay_strings() -> None:
    words = ("no", "3:30", "1e3", "~", "- a", "#", "käse", "'", "null", "0x1F", "*", "&a", "a: b", " ", "\t")
    declared = DeclaredConstraints((Lexicon(name="yes", words={"words": words}, labels=("no",), weight=math.inf),))
    read = again(declared, {"yes": "never broken"})
    assert read.templates == declared.templates
    assert "  # never broken\n" in constraints_text(declared, {"yes": "never broken"})
