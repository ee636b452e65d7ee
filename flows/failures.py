"""Errors that a user can mend: one message, no traceback, and an exit code that says what kind it is."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import NoReturn

import typer


class Exit(IntEnum):
    """Exit codes of `concord`. 1 is an error in concord itself, shown with its traceback."""

    OK = 0
    BUG = 1
    USAGE = 2
    INPUT = 3
    """A corpus, model, constraint file or output folder that cannot be used."""
    SHARDS = 4
    """Some shards failed; the others are done, and the same command tries the failed ones again."""
    SERVICE = 5
    """Ray or MLflow could not be started or reached."""
    INTERRUPTED = 130
    TERMINATED = 143


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def reported() -> Iterator[None]:
    """Turns known errors into a message on standard error and an exit code, for the length of the block."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        _leave(Exit.INTERRUPTED, "interrupted; the same command goes on where this one stopped")
    except Exception as error:
        code = _code_of(error)
        if code is Exit.BUG:
            raise
        _leave(code, str(error))
    except (Terminated, SystemExit):
        _leave(Exit.TERMINATED, "terminated; the same command goes on where this one stopped")


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


def _leave(code: Exit, message: str) -> NoReturn:
    sys.stderr.write(f"concord: {message}\n")
    sys.stderr.flush()
    raise typer.Exit(code)


def _code_of(error: Exception) -> Exit:
    # Imported only when something went wrong: `concord --help` must not wait for Ray and MLflow.
    from flows.cluster import ClusterError
    from flows.evaluate import EvaluationError
    from flows.options import OptionError
    from flows.runfolder import RunFolderError
    from flows.tracking import TrackingError
    from flows.train import TrainingError
    from schemas.columns import SchemaError
    from schemas.labels import LabelError
    from workers.constraints.rows import ConstraintError
    from workers.ingestion import IngestError
    from workers.models.folder import ModelError
    from workers.parquet import CorpusError
    from workers.shard import EngineError

    if isinstance(error, EngineError | OptionError):
        return Exit.USAGE
    if isinstance(error, ClusterError | TrackingError):
        return Exit.SERVICE
    inputs = (
        ConstraintError,
        CorpusError,
        EvaluationError,
        IngestError,
        LabelError,
        ModelError,
        RunFolderError,
        SchemaError,
        TrainingError,
        FileNotFoundError,
        IsADirectoryError,
        NotADirectoryError,
        PermissionError,
    )
    return Exit.INPUT if isinstance(error, inputs) else Exit.BUG
