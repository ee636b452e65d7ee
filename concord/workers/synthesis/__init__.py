"""Made-up corpora for the demonstration, for tests and for warming up."""
