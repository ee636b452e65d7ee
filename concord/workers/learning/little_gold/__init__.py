"""Learning from few labelled documents, a pool of unlabelled ones, and constraints."""
