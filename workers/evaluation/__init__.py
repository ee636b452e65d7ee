"""Counts that merge over shards, and the figures made of them."""
