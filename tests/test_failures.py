"""Which error ends a command with which exit code."""

from __future__ import annotations

import pytest
import typer

from flows.failures import Exit, Terminated, reported
from flows.options import OptionError
from schemas.errors import ServiceError
from workers.constraints.constraint_file import ConstraintFileError
from workers.parquet import CorpusError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OptionError("no such option"), Exit.USAGE),
        (CorpusError("not whole"), Exit.INPUT),
        (ConstraintFileError("line 3"), Exit.INPUT),
        (PermissionError("may not be read"), Exit.INPUT),
        (ServiceError("no answer"), Exit.SERVICE),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (Terminated(), Exit.TERMINATED),
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


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("a bug"), TimeoutError("a bug")])
def test_a_bug_keeps_its_traceback(error: Exception) -> None:
    with pytest.raises(type(error), match="a bug"), reported():
        raise error
