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

from schemas.errors import InputError, ServiceError, UsageError


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


FILE_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
"""What the system says of a path that the user gave."""


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def reported() -> Iterator[None]:
    """Turns known errors into a message on standard error and an exit code, for the length of the block."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except UsageError as error:
        _leave(Exit.USAGE, str(error))
    except (InputError, *FILE_ERRORS) as error:
        _leave(Exit.INPUT, str(error))
    except ServiceError as error:
        _leave(Exit.SERVICE, str(error))
    except KeyboardInterrupt:
        _leave(Exit.INTERRUPTED, "interrupted; the same command goes on where this one stopped")
    except (Terminated, SystemExit):
        _leave(Exit.TERMINATED, "terminated; the same command goes on where this one stopped")


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


def _leave(code: Exit, message: str) -> NoReturn:
    sys.stderr.write(f"concord: {message}\n")
    sys.stderr.flush()
    raise typer.Exit(code)
