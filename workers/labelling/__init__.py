"""One shard: read, label, report, write; and the Ray actor around it."""
