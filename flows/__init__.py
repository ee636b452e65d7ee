"""Prefect flows, the command line, and the only places that know Ray clusters and MLflow."""
