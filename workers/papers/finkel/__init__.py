"""What serves the comparison with Finkel, Grenager and Manning (2005) only."""
