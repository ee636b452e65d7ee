"""Errors that a user can correct: one message without a traceback, and an exit code for each kind."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import NoReturn

import typer

from concord.flows.inputs.path_errors import PATH_ERRORS, path_fault
from concord.flows.screen.progress import compiling_told
from concord.schemas.errors import DriftedError, InputError, ServiceError, ShardsError, UsageError
from concord.schemas.secrets import masked_errors, redact
from concord.schemas.visible import visible


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
    """Ray, Prefect or MLflow could not be started or reached."""
    DRIFT = 6
    """Figures moved beyond their thresholds, and the command was asked to fail then: the output is published. Or too
    many documents are gone from the corpus, or rejects, or a rollback took the same answers back: it is not."""
    HUNG_UP = 129
    INTERRUPTED = 130
    UNREAD = 141
    TERMINATED = 143


MEANINGS = {
    Exit.OK: "done",
    Exit.BUG: "an error in concord itself",
    Exit.USAGE: "wrong usage",
    Exit.INPUT: "a corpus, model or folder that cannot be used; one line says which, and what to do",
    Exit.SHARDS: "some shards failed; the others are done",
    Exit.SERVICE: "Ray, Prefect or MLflow out of reach",
    Exit.DRIFT: "the run drifted (with `--fail-on-drift`), or is not published: too many documents are gone, or a "
    "rollback took it back",
    Exit.HUNG_UP: "the terminal was closed",
    Exit.INTERRUPTED: "Ctrl-C",
    Exit.UNREAD: "what reads the output has ended, such as `head`",
    Exit.TERMINATED: "SIGTERM",
}
"""Meaning of each exit code, for the help and the page on operations."""


def exit_codes() -> str:
    """All exit codes in a paragraph."""
    return "Exit codes: " + ". ".join(f"{code.value} {meaning}" for code, meaning in MEANINGS.items()) + "."


class Terminated(BaseException):
    """The process got SIGTERM."""


class HungUp(BaseException):
    """The process got SIGHUP: its terminal is closed."""


@contextmanager
def reported(*, resumes: bool = False) -> Iterator[None]:
    """Turns known errors into a message on standard error and an exit code, for the length of the block.

    - ``resumes``: does the same command, after an interruption, go on where it stopped, or begin anew?
    """
    _raise_at_first_signal()
    try:
        with masked_errors(), compiling_told():
            yield
    except UsageError as error:
        _leave(Exit.USAGE, str(error))
    except InputError as error:
        _leave(Exit.INPUT, str(error))
    except ShardsError as error:
        _leave(Exit.SHARDS, str(error))
    except DriftedError as error:
        _leave(Exit.DRIFT, str(error))
    except OSError as error:
        if error.errno not in PATH_ERRORS:
            raise
        _leave(Exit.INPUT, path_fault(error))
    except ServiceError as error:
        _leave(Exit.SERVICE, str(error))
    except KeyboardInterrupt:
        _leave_for_good(Exit.INTERRUPTED, "interrupted", resumes=resumes)
    except HungUp:
        _leave_for_good(Exit.HUNG_UP, "the terminal was closed", resumes=resumes)
    except (Terminated, SystemExit) as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich leaves when nobody reads what it prints
            raise typer.Exit(Exit.UNREAD) from error
        _leave_for_good(Exit.TERMINATED, "terminated", resumes=resumes)


RAISED = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated, signal.SIGHUP: HungUp}


def _raise_at_first_signal() -> None:
    """Lets the first signal end the command. Later ones are ignored: they would only cut the clean-up short."""
    came: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _forget_lost_terminal()
        if not came:
            came.append(number)
            raise RAISED[signal.Signals(number)]

    for number in RAISED:
        signal.signal(number, handle)


def _forget_lost_terminal() -> None:
    """Sends output nowhere if its terminal is gone, since writing to that would be an error."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode) and not os.isatty(stream):
            os.dup2(nowhere, stream)
    os.close(nowhere)


def _leave_for_good(code: Exit, why: str, *, resumes: bool) -> NoReturn:
    # Python forgets its own handlers before the last of the clean-up, when a signal would still be the end.
    for number in RAISED:
        signal.signal(number, signal.SIG_IGN)
    _leave(code, f"{why}; the same command {'goes on where this one stopped' if resumes else 'begins anew'}")


def _leave(code: Exit, message: str) -> NoReturn:
    sys.stderr.write(visible(f"concord: {redact(message)}\n"))
    sys.stderr.flush()
    raise typer.Exit(code)
