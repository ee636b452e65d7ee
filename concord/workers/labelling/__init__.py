"""Labelling one shard: read it, label its documents, count, and write the output."""
