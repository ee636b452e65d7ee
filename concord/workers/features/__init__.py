"""Feature templates and the scorer that evaluates them a word at a time."""
