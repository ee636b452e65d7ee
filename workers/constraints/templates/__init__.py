"""Constraint templates: one file a family, one line each in the registry."""
