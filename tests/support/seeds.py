"""Seeds of tests of which one takes as long as all others."""

from __future__ import annotations

from typing import Any

import pytest


def quick_seeds(count: int, *, slow: int) -> list[Any]:
    """So many seeds, of which the slow one is left to the slow tests."""
    return [pytest.param(seed, marks=pytest.mark.slow) if seed == slow else seed for seed in range(count)]
