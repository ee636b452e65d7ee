"""Word clusters by context: Brown clusters, and clusters of word vectors."""
