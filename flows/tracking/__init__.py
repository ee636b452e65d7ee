"""MLflow: runs, the registry, and what could not be logged. To import from here imports MLflow."""

from concord.flows.environment import MLFLOW, applied

with applied(MLFLOW):
    import mlflow as mlflow
