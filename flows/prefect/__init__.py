"""Prefect: flows that keep secrets, and its server."""
