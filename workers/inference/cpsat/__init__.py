"""The model for CP-SAT, and the engine that solves it whole."""
