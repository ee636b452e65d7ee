"""Gibbs sampling with annealing, and the settling of what it leaves."""
