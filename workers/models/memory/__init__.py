"""Memory-based (nearest-neighbour) classifiers: they keep training instances, and label a token by the nearest ones."""
