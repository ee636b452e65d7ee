"""The best labellings of a document, in order."""
