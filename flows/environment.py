"""Environment variables of Ray, Prefect and MLflow, set before any of them is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DEFAULTS = {
    # Nothing calls home.
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A task killed for memory is tried once more, not for ever.
    "RAY_task_oom_retries": "1",
    # Under `uv run` Ray would rebuild the environment in every worker, and the driver never answers.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Ray would print what it deduplicated to standard output, between the lines of --json.
    "RAY_DEDUP_LOGS": "0",
    # The start of Prefect's temporary server is slow on a busy machine, and its banner is noise here.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # The server of `mlflow server` starts many processes otherwise.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


def prepare() -> None:
    """Sets what the user has not set. It must come before the first import of ray, prefect or mlflow."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def home() -> Path:
    """Where runs are tracked by default: ``CONCORD_HOME``, or ``.concord`` in the current folder."""
    return Path(os.environ.get("CONCORD_HOME", ".concord")).absolute()


def command(name: str) -> str:
    """The command beside this Python, as the user can type it."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        return name
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near
