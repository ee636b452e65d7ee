"""Sequences first, then one of them a sentence: the engine of the two-stage papers."""
