"""Made-up corpora for the demo, for tests and for warming up."""
