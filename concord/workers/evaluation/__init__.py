"""Evaluation: counts that add up over shards, and figures (precision, recall, F1, ...) computed from them."""
