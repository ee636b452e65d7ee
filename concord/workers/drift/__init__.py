"""Drift: what is different from one night to the next, and which differences are more than chance."""
