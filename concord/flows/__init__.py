"""Prefect flows, Ray cluster, MLflow tracking and the command line: orchestration only.

Importing a module here changes no environment variable. Variables for Ray, Prefect and MLflow are set only while these
are at work, see `flows.environment`.
"""
