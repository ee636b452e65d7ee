"""Parts that only serve the comparison with Finkel, Grenager and Manning (2005)."""
