"""Ray: a cluster of our own or of others, its pool of workers, and their deaths."""
