"""Constraints mined as clauses, by minimum-cost satisfiability."""
