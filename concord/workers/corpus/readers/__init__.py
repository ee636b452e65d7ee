"""Readers of other formats: one file a format, one line each in the registry."""
