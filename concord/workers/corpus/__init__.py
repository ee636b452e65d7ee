"""Parquet corpora: reading them, cutting them into shards, and making them from other formats."""
