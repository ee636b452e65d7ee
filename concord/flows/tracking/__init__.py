"""MLflow: runs, the registry, and what could not be logged. To import from here imports MLflow."""

from concord.flows.environment import MLFLOW, applied, without_widgets

with applied(MLFLOW), without_widgets():
    import mlflow as mlflow
