"""The effects of constraints, on a corpus and in one document."""
