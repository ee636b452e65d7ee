"""Which error ends a command with which exit code."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from concord.flows.cli.failures import Exit, HungUp, Terminated, reported
from concord.flows.inputs.options import OptionError
from concord.schemas.errors import CorpusError, ServiceError
from concord.workers.constraints.constraint_file import ConstraintFileError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OptionError("no such option"), Exit.USAGE),
        (CorpusError("not whole"), Exit.INPUT),
        (ConstraintFileError("line 3"), Exit.INPUT),
        (PermissionError(errno.EACCES, "may not be read", "there"), Exit.INPUT),
        *((OSError(number, "system", "there"), Exit.INPUT) for number in (errno.ENOSPC, errno.EROFS, errno.EIO)),
        *((OSError(number, "system", "there"), Exit.INPUT) for number in (errno.ENAMETOOLONG, errno.ELOOP)),
        (ServiceError("no answer"), Exit.SERVICE),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (Terminated(), Exit.TERMINATED),
        (HungUp(), Exit.HUNG_UP),
        (typer.Exit(7), 7),
    ],
)
def test_a_known_error_is_one_line_and_a_code(
    error: BaseException, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as left, reported():
        raise error
    assert left.value.exit_code == code
    said = capfd.readouterr().err
    assert said == "" if isinstance(error, typer.Exit) else said.startswith("concord: ") and said.count("\n") == 1


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_output_that_nobody_reads_ends_the_command_without_a_word(form: list[str]) -> None:
    """As in `concord list features | head -1`: the pipe is full, then nobody is there."""
    command = [sys.executable, "-c", f"from concord.flows.cli.app import app; app({['list', 'trainers', *form]})"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.close()
        assert listing.stderr.read() == b""
        assert listing.wait(60) == Exit.UNREAD


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), KeyError("a bug"), TimeoutError("a bug"), OSError(errno.EBADF, "a bug")]
)
def test_a_bug_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error), match="a bug"), reported():
        raise error


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED), (signal.SIGHUP, Exit.HUNG_UP)],
)
def test_a_second_signal_does_not_break_off_the_clean_up(
    number: signal.Signals, code: Exit, capfd: pytest.CaptureFixture[str]
) -> None:
    cleaned = []

    def interrupted() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            for again in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), again)
            cleaned.append(number)

    with pytest.raises(typer.Exit) as left, reported():
        interrupted()
    os.kill(os.getpid(), number)  # between the message and the end of the process
    assert (left.value.exit_code, cleaned) == (code, [number])
    assert capfd.readouterr().err.count("\n") == 1
