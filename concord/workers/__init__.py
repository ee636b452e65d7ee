"""The work itself, free of orchestration: readers, models, constraints, engines, learning, evaluation."""
