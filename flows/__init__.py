"""Prefect flows, Ray cluster, MLflow tracking and the command line: orchestration only.

To import any module here changes no environment variable: what Ray, Prefect and MLflow are told is set for as long as
they are at work, see `flows.environment`.
"""
