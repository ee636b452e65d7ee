"""What libraries keep to themselves is used in one module a library, so that a release that moves it breaks one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import typer
from numba import njit
from ray._private import ray_constants as constants
from ray.job_config import JobConfig

from concord.flows.cli.typer_internals import OptionInfo, TyperCommand, TyperOption, value_kind, value_source
from concord.flows.cluster.ray_internals import OwnPathJob, constants_of, head_and_node, read_environment
from concord.workers.compiling.code import ROOT
from concord.workers.compiling.definitions import definitions_behind
from concord.workers.compiling.numba_internals import (
    folder_given,
    kept_by,
    once_for_all_numbers,
    processor_and_settings,
    tell,
)

PLACES = {
    "ray": (re.compile(r"ray\.(_|\w+\._).*"), "flows/cluster/ray_internals.py"),
    "numba": (re.compile(r"numba\.core.*|llvmlite.*"), "workers/compiling/numba_internals.py"),
    "typer": (
        re.compile(r"typer\.(core|models|_\w+)\b.*|.*\.(type_descriptor|get_parameter_source)\b.*"),
        "flows/cli/typer_internals.py",
    ),
    "mlflow": (
        re.compile(r"mlflow\.(store|utils|protos|server).*|mlflow\.(\w+\.)*_\w+.*"),
        "flows/tracking/tracking.py",
    ),
    "prefect": (re.compile(r"prefect\.(server|_).*|prefect\.(\w+\.)+_\w+.*"), None),
}
"""What names of a library are its own, and the module that may use them."""


@cache
def names(path: Path) -> frozenset[str]:
    """Every dotted name of a module's code, those of its imports in full."""
    return frozenset(_names(path))


def _names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"(?:from|import) ([\w.]+)", node.value)


def users(own: re.Pattern[str]) -> set[str]:
    return {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if any(own.fullmatch(name) for name in names(path))
    }


@pytest.mark.parametrize("library", PLACES)
def test_one_module_uses_what_is_a_librarys_own(library: str) -> None:
    own, place = PLACES[library]
    assert users(own) == ({place} if place else set())


def test_what_is_rays_own_is_where_it_was() -> None:
    """Its tokens and its client are used by `tests/integration/test_tokens.py`, on real clusters."""
    read_environment()
    with constants_of(None):
        assert not constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV
    with pytest.raises(AssertionError):
        head_and_node()  # no Ray has been started here
    jobs: list[Any] = [JobConfig(), JobConfig(runtime_env={"working_dir": "s3://a.zip"}), OwnPathJob()]
    assert [job._runtime_env_has_working_dir() for job in jobs] == [False, True, True]


class Size(Enum):
    """Choices of an option."""

    SMALL = "small"


def test_what_is_typers_own_is_where_it_was() -> None:
    def command(count: Annotated[int, typer.Option(min=2)] = 3, size: Size = Size.SMALL, path: Path = ROOT) -> None:
        """Notes where the count is from."""

    asked: dict[str, str] = {}

    class Told(TyperCommand):
        def invoke(self, ctx: Any) -> Any:
            options = [option for option in self.params if isinstance(option, TyperOption)]
            asked.update({str(option.name): value_source(ctx, option) for option in options})
            return super().invoke(ctx)

    app = typer.Typer(add_completion=False)
    app.command(cls=Told)(command)
    made: Any = typer.main.get_command(app)
    kinds = {option.name: value_kind(option) for option in made.params if isinstance(option, TyperOption)}
    assert kinds["count"] == (int, (), False, True, 2)
    assert (kinds["size"].choices, kinds["size"].is_number) == (("small",), False)
    assert (kinds["path"].is_path, kinds["path"].least) == (True, None)
    made(["--count", "4"], standalone_mode=False)
    assert asked == {"count": "COMMANDLINE", "size": "DEFAULT", "path": "DEFAULT"}
    assert isinstance(typer.Option("--count"), OptionInfo)


def test_what_is_numbas_own_is_where_it_was() -> None:
    told: list[str] = []
    tell(lambda function: told.append(f"began {function.__name__}"), lambda function: told.append("ended"))

    def twice(x: Any) -> Any:
        return 2 * x

    with kept_by("no.such.Locator"):
        pass
    doubled: Any = njit(twice)
    assert doubled(3) == 6
    assert told == ["began twice", "ended"]
    assert processor_and_settings().startswith("('")
    assert isinstance(folder_given(), str)


def test_a_kernel_is_compiled_once_for_all_numbers_that_kernels_call_it_with() -> None:
    """Numba makes a type of each number that is written in a call."""

    def twice(x: Any) -> Any:
        return 2 * x

    doubled: Any = once_for_all_numbers(njit(twice))

    def summed(n: Any) -> Any:
        return doubled(1) + doubled(-1) + doubled(x=n) + doubled(0.5)

    of_few_bits: Any = njit(summed)
    assert of_few_bits(np.int32(2**30)) == 2**31 + 1
    assert sorted(str(kind) for (kind,) in doubled.signatures) == ["float64", "int64"]


def test_how_kernels_are_compiled_is_in_their_digests() -> None:
    behind = definitions_behind("concord.workers.compiling.kernel", "copy_to")
    for name in ("UNCOUNTED", "once_for_all_numbers", "_widest"):
        assert ("concord.workers.compiling.numba_internals", name) in behind
