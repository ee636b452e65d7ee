"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# A busy machine must not fail a test, and a run must be repeatable.
settings.register_profile("concord", deadline=None, derandomize=True)
settings.load_profile("concord")

collect_ignore = ["foreign"]
"""Tests of a package of its own, which `test_foreign.py` installs and runs."""
