"""Memory-based classifiers: training instances kept as they are, and what the nearest ones of a new one say."""
