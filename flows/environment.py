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
    # Ray takes no code from who has no token. A run on this machine makes one of its own.
    "RAY_AUTH_MODE": "token",
    # On this machine Ray is to listen on the loopback interface. Ray does so where it takes the system for one
    # without clusters; otherwise it turns 127.0.0.1 into the outside address, and listens on all of them.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # A task killed for memory is tried once more, not for ever.
    "RAY_task_oom_retries": "1",
    # Under `uv run` Ray would rebuild the environment in every worker, and the driver never answers.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Ray would print what it deduplicated to standard output, between the lines of --json.
    "RAY_DEDUP_LOGS": "0",
    # The start of Prefect's temporary server is slow on a busy machine, and its banner is noise here.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    # Its threads would print what they cannot send to a server that has gone: flows/prefect/private_flow.py does, once.
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    # A server that has gone away costs half a minute at the end of a run, not six; see flows/prefect/private_flow.py.
    "PREFECT_API_REQUEST_TIMEOUT": "20",
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    # Whatever MLflow warns of before it gives up comes as an error too.
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    # A server that has gone away is noticed within seconds, not 8 minutes; see flows/tracking/tracking.py.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # It would print a server's address, with its password, to standard output beside the answer of --json.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
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
