"""Learning from documents: models, weights of constraints, and constraints themselves."""
