"""Constraint templates: documents → linear rows and span agreements. They know no engine."""
