"""Digests of the running code, for keys of output and for comparison with remote workers, and imports of files."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from concord.schemas.distribution import PACKAGE
from concord.workers.parts import Group, foreign_code, own_entries

ROOT = Path(__file__).resolve().parents[2]
"""Parent of the folders of the internal packages: the checkout, or the installed package."""

COMPILED_FOLDERS = ("schemas", "workers")
"""Packages whose code kernels may hold."""

LABELLING_CODE = (
    "concord.workers.labelling.shard",
    "concord.workers.constraints.constraint_file",
    "concord.workers.models.saved_consistency",
    "concord.workers.models.loaders",
)
"""Labels documents; makes the constraints and the models that are handed to it. Flows only move data about."""

WORKERS = ("concord.workers.remote.actor",)
"""Modules that run in Ray's workers."""

KERNELS = "concord.workers.compiling.kernel"
"""Every file that names this one compiles kernels."""

LIBRARIES = ("llvmlite", "numba", "numpy", "ortools", "pyarrow", "sentencex")
"""Other versions may cut text, match patterns, score, solve or write differently."""

COMPILERS = ("llvmlite", "numba", "numpy")
"""Other versions may compile differently."""


def digest_of_code(modules: tuple[str, ...], groups: tuple[Group, ...]) -> str:
    """Hex digest of the code of some modules and of all that they import, and of the libraries they compute with.

    It is made from syntax trees, so comments, docstrings and layout change nothing; that takes a second, see
    `kept_digests`. Of parts that are registered by entry points of ``groups`` it holds concord's own like all code, and
    of other packages the version and all files as they stand.
    """
    return _digest(files_behind(with_registered(modules, groups)), LIBRARIES, registered_code(groups))


def registered_code(groups: Iterable[Group]) -> list[str]:
    """What entry points of these groups lead to: of concord's own their names, of other packages the code too."""
    own = [f"{entry.group} {entry.name} = {entry.value}" for entry in own_entries(groups)]
    return [*own, *foreign_code(groups)]


@cache
def sources_digest() -> str:
    """Hex digest of all files that kernels may be made from, as they stand, and of the Python that reads them."""
    state = hashlib.sha256(sys.version.encode())
    for package in COMPILED_FOLDERS:
        for path in sorted((ROOT / package).rglob("*.py")):
            content = path.read_bytes()
            state.update(f"{path.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode() + content)
    return state.hexdigest()


def digest_of_libraries(libraries: Iterable[str]) -> str:
    """Hex digest of the versions that are installed."""
    return _digest((), libraries)


def with_registered(modules: Iterable[str], groups: Iterable[Group]) -> list[str]:
    """The modules, and those that concord's own entry points lead to, since no import statement names these."""
    return [*modules, *(entry.module for entry in own_entries(groups))]


def files_behind(modules: Iterable[str]) -> list[Path]:
    """The project's files that these modules import, at any distance, and their own; nothing is executed."""
    names: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in names or file_of(name) is None:
            continue
        names.add(name)
        waiting += [*parsed(name).imports, *_packages_of(name)]
    return sorted(path for name in names if (path := file_of(name)))


def imports_of(path: Path) -> set[str]:
    """Every module that one of the project's files may import, at its top or inside a function."""
    return parsed(module_of(path)).imports


def _digest(files: Iterable[Path], libraries: Iterable[str], parts: Iterable[str] = ()) -> str:
    state = hashlib.sha256()
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        state.update(f"{name}\0{parsed(module_of(path)).tree}\0".encode())
    for library in libraries:
        state.update(f"{library}={version(library)}\0".encode())
    for part in parts:
        state.update(f"{part}\0".encode())
    return state.hexdigest()


class Parsed:
    """A file's syntax tree without its docstrings, as ``module`` and as text, and the names that it imports."""

    def __init__(self, path: Path) -> None:
        self.module = ast.parse(path.read_bytes(), path)
        self.imports = {name for statement in _strip(self.module) for name in _imported(statement)}
        self.tree = ast.dump(self.module)


@cache
def parsed(module: str) -> Parsed:
    """Syntax tree of a module of the project. Raises `ModuleNotFoundError` for a module of a library."""
    path = file_of(module)
    if path is None:
        raise ModuleNotFoundError(module)
    return Parsed(path)


def _strip(block: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Takes out every statement that is only a string; gives the imports, those inside functions as well."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        statements = getattr(block, field, None)
        if not isinstance(statements, list):
            continue
        statements[:] = [statement for statement in statements if not _is_text(statement)]
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                yield statement
            yield from _strip(statement)


def _is_text(statement: ast.AST) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _imported(statement: ast.Import | ast.ImportFrom) -> list[str]:
    """Modules that a statement may import: of ``from a import b`` both a and a.b."""
    names = [alias.name for alias in statement.names]
    if isinstance(statement, ast.Import):
        return names
    module = statement.module or ""
    return [module, *(f"{module}.{name}" for name in names)]


def module_of(path: Path) -> str:
    """The module that one of the project's files is."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def _packages_of(module: str) -> list[str]:
    """Importing a.b.c imports a and a.b."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


@cache
def file_of(module: str) -> Path | None:
    """The project's file of a module; None where it is a library's, or a name in a module."""
    package, *parts = module.split(".")
    if package != PACKAGE or not parts:
        return None
    path = ROOT.joinpath(*parts)
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None
