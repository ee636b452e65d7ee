"""Prefect flows, Ray cluster, MLflow tracking and the command line: orchestration only."""

from flows.environment import prepare

prepare()  # Ray, Prefect and MLflow read their environment when they are imported, which flows' modules do.
