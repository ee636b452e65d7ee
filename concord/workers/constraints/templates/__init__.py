"""Constraint templates: one file for each family, one line for each template in the registry."""
