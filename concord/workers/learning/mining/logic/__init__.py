"""Mining of constraints as clauses, by minimum-cost satisfiability."""
