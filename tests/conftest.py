"""What all tests share."""

from __future__ import annotations

from functools import cache

import typer.main
import typer.testing
from hypothesis import settings

from concord.flows.environment import ANY_PROCESSOR, set_for_good

# Before numba is imported: tests share the kernels of the commands that they start.
set_for_good(ANY_PROCESSOR)

# A busy machine must not fail a test, and a run must be repeatable.
settings.register_profile("concord", deadline=None, derandomize=True)
settings.load_profile("concord")

# The tree of commands is made once: that takes longer than most commands of a test.
typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]

collect_ignore = ["foreign"]
"""Tests of a package of its own, which `test_foreign.py` installs and runs."""
