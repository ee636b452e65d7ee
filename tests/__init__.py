"""Tests, and the brute-force oracle they share."""
