"""Certificates: what makes a document's bound checkable, how it is written, and the checker that reads it."""
