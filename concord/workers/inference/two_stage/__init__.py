"""The engine of the two-stage papers: the local optimum first, then the least penalty near it."""
