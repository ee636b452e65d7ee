"""Storage: files that are written whole or not at all, and data that carries its own digest."""
