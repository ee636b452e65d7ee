"""The CP-SAT model of a problem, and the engine that solves it as a whole."""
