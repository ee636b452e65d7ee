"""Annealed Gibbs sampling, and the local search that closes a run."""
