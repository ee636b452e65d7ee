"""Held-out documents, and searches for the best of many settings."""
