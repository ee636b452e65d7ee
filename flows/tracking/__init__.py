"""MLflow: runs, the registry, and what could not be logged."""
