"""Words grouped by where they stand: Brown clusters, and groups of word vectors."""
