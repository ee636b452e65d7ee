"""Parquet corpora: how they are read, cut into shards and made from other formats."""
