"""Environment variables of Ray, Prefect and MLflow, set while these are imported and at work, and taken back."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from concord.schemas.secrets import place_of

RAY = {
    # Nothing calls home.
    "RAY_USAGE_STATS_ENABLED": "0",
    # A task killed for memory is tried once more, not for ever.
    "RAY_task_oom_retries": "1",
    # Under `uv run` Ray would rebuild the environment in every worker, and the driver never answers.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Ray would print what it deduplicated to standard output, between the lines of --json.
    "RAY_DEDUP_LOGS": "0",
}

LOCAL_RAY = {
    # Ray is to listen on the loopback interface. It does so where it takes the system for one without clusters;
    # otherwise it turns 127.0.0.1 into the outside address, and listens on all of them.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Workers get the share of the machine that the command has; Ray would start them at a niceness of 15 more.
    "RAY_worker_niceness": "0",
}
"""Variables of a Ray that a run starts on this machine."""

PREFECT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    # Its threads would print what they cannot send to a server that has gone: flows/prefect/private_flow.py does, once.
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    # The flow's own errors are shown once, by who called it; Prefect keeps its logs for its pages.
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    # A server that has gone away costs half a minute at the end of a run, not six; see flows/prefect/private_flow.py.
    "PREFECT_API_REQUEST_TIMEOUT": "20",
    "PREFECT_CLIENT_MAX_RETRIES": "2",
}

MLFLOW = {
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Whatever MLflow warns of before it gives up comes as an error too.
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    # A server that has gone away is noticed within seconds, not 8 minutes; see flows/tracking/tracking.py.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # It would print a server's address, with its password, to standard output beside the answer of --json.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}

ANY_PROCESSOR = {
    # For any processor of the family: kernels of a wheel and of an image fit each node, and are not slower.
    "NUMBA_CPU_NAME": "generic",
}
"""How the kernels of commands and workers are compiled; a notebook's own process compiles as numba does."""

SQLITE = "sqlite:///"
"""Prefix of the address of an SQLite file."""

_CHANGING = threading.Lock()
_HOLDERS: dict[str, int] = {}
"""Number of open blocks that have set a variable, by variable."""


def set_for_good(settings: Mapping[str, str]) -> None:
    """Sets variables that the user has not set, for the rest of a process that is concord's own."""
    for name, text in settings.items():
        os.environ.setdefault(name, text)


@contextmanager
def applied(settings: Mapping[str, str]) -> Iterator[None]:
    """Sets variables that the user has not set, for the length of the block. Blocks of all threads may overlap."""
    with _CHANGING:
        ours = [name for name in settings if name in _HOLDERS or name not in os.environ]
        for name in ours:
            _HOLDERS[name] = _HOLDERS.get(name, 0) + 1
            os.environ[name] = settings[name]
    try:
        yield
    finally:
        with _CHANGING:
            for name in ours:
                _HOLDERS[name] -= 1
                if not _HOLDERS[name]:
                    del _HOLDERS[name]
                    os.environ.pop(name, None)


@contextmanager
def without_widgets() -> Iterator[None]:
    """Imports in the block do not say that ipywidgets is not there: in a notebook tqdm warns of it, and Ray logs it."""
    logger = logging.getLogger("ray.widgets.util")
    former = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")
            yield
    finally:
        logger.setLevel(former)


def home() -> Path:
    """Folder of tracked runs by default: ``CONCORD_HOME``, or ``.concord`` in the current folder."""
    return Path(os.environ.get("CONCORD_HOME", ".concord")).absolute()


def ray_address(given: str | None) -> str | None:
    """Address of the Ray cluster for a run: the given one, or ``RAY_ADDRESS``, which Ray sets for its jobs.

    None for a Ray of the run's own on this machine, which is also called ``local``.
    """
    address = given or os.environ.get("RAY_ADDRESS")
    return None if address in (None, "", "local") else address


def tracking_uri(given: str | None) -> str:
    """Tracking URI: the given one, or else ``MLFLOW_TRACKING_URI``, or else SQLite in `home`."""
    return given or os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}{home() / 'mlflow.db'}"


def page_of_run(uri: str, run: str) -> str | None:
    """Address of a run's page, without secrets, if MLflow is a server; None if it is a file."""
    return f"{place_of(uri).rstrip('/')}/#/runs/{run}" if uri.startswith("http") else None


def page_of_artifact(uri: str, experiment: str, run: str, name: str) -> str | None:
    """Address of MLflow's page of an artifact of a run, as `page_of_run`."""
    if not uri.startswith("http"):
        return None
    return f"{place_of(uri).rstrip('/')}/#/experiments/{experiment}/runs/{run}/artifacts/{name}"


def command(name: str) -> str:
    """Path of a command beside this Python, as the user can type it."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        return name
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near
