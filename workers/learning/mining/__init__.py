"""Constraints mined from documents with gold labels, and judged on documents that no rule has seen."""
