"""Learning from few labelled documents, a pool without labels, and constraints."""
