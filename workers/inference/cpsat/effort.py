"""In what CP-SAT's work is counted; apart from what imports the solver, which takes half a second."""

from __future__ import annotations

UNITS_A_SECOND = 1000
"""A unit of work is a millisecond of CP-SAT's deterministic time."""
