"""The error budget is kept: one place for tolerances, each with its value, and all together below what is promised."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from concord.schemas.problem import SLACK_TOLERANCE
from concord.workers.compiling.code import ROOT
from concord.workers.inference.numerics import (
    INTEGRAL_DRIFT,
    MULTIPLIER_ROUNDING,
    NEGLIGIBLE_GAP,
    RELATIVE_ROUNDING,
    ROUNDING,
    TOLERANCE,
)
from concord.workers.inference.settings import CertifySettings, CpSatSettings, TwoStageSettings

ENGINES = ROOT / "workers" / "inference"
UNIT_ROUNDOFF = 2.0**-53
SMALL = re.compile(r"\b\d+(?:\.\d+)?e-(?:[5-9]|\d\d)")


def test_tolerances_stand_in_one_file() -> None:
    files = {path.relative_to(ENGINES).as_posix() for path in ENGINES.rglob("*.py") if SMALL.search(path.read_text())}
    assert files == {"numerics.py"}


def test_the_budget_ends_at_what_engines_promise() -> None:
    for settings in (CertifySettings, CpSatSettings, TwoStageSettings):
        assert settings.model_fields["tolerance"].default == TOLERANCE
    assert ROUNDING + MULTIPLIER_ROUNDING + NEGLIGIBLE_GAP < TOLERANCE / 4.0


def test_tolerances_follow_from_each_other() -> None:
    assert pytest.approx(ROUNDING) == TOLERANCE / 1000.0
    assert pytest.approx(NEGLIGIBLE_GAP) == TOLERANCE / 10.0
    assert pytest.approx(MULTIPLIER_ROUNDING) == TOLERANCE / 10.0
    assert pytest.approx(INTEGRAL_DRIFT) == SLACK_TOLERANCE / 100.0
    assert pytest.approx(RELATIVE_ROUNDING, rel=0.01) == 90.0 * UNIT_ROUNDOFF


def test_rounding_is_what_a_chapter_of_scores_is_off_by() -> None:
    """Against exact sums: some orders of 20,000 terms differ, none by more than the docstring says."""
    rng = np.random.default_rng(0)
    terms = rng.normal(scale=3.0, size=20_000)
    exact = math.fsum(terms)
    off = [abs(float(np.cumsum(rng.permutation(terms))[-1]) - exact) for _ in range(50)]
    assert 0.0 < max(off) < ROUNDING
