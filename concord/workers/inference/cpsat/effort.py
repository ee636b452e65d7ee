"""The unit of CP-SAT's work, in a module that does not import the solver: that takes half a second."""

from __future__ import annotations

UNITS_A_SECOND = 1000
"""Units of work in a second of CP-SAT's deterministic time: a unit is a millisecond."""
