"""Constraint templates, which turn documents into linear rows and span agreements. They know no engine."""
