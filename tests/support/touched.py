"""Which tests of parts a change can touch: those that lead to a changed file, by imports or by naming it.

``python -m tests.support.touched COMMIT`` prints the files of tests that what has changed since a commit can touch, one
a line. A file leads to what it imports, at the top or inside a function, to a module or a script whose name stands in
its texts, and where it goes through files by a pattern, to all that fit. Tests of integration start whole commands,
which lead everywhere: they are left to ``make test``.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.support.commits import ROOT, changed_since, tracked

ALL_TESTS = "tests/conftest.py"
"""File that every test leads to."""
PARTS = "concord/workers/parts.py"
"""Module that opens what entry points lead to."""
MODULE = re.compile(r"(?:concord|tests|benchmarks)(?:\.\w+)+")
WALKS = {"glob", "iterdir", "rglob", "walk"}
"""Methods that go through the files of a folder."""


class Source:
    """What one Python file says that leads to other files: modules, texts, and whether it goes through folders."""

    def __init__(self, path: Path) -> None:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
        constants = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        self.texts = {text for text in constants if len(text) < 200 and "\n" not in text}
        self.modules = {name for node in nodes for name in _imported(node)}
        self.named_modules = {match.group() for text in self.texts if (match := MODULE.match(text))}
        self.opens = "import_module" in {node.id for node in nodes if isinstance(node, ast.Name)}
        self.walks = any(isinstance(node, ast.Attribute) and node.attr in WALKS for node in nodes)

    def names(self, path: str) -> bool:
        """Whether its texts name a file: by its path, its name, or, where it walks, by a folder or a pattern of it."""
        place = PurePosixPath(path)
        if path in self.texts or place.name in self.texts or f"./{path}" in self.texts:
            return True
        folders = {*place.parts[:-1], *map(str, place.parents)}
        return self.walks and bool(self.texts & (folders | {f"*{place.suffix}", f"**/*{place.suffix}"}) - {"."})


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


class Checkout:
    """The files of a checkout, as paths from its root, and where each leads."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self.root, self.files = root, frozenset(files)

    @cached_property
    def sources(self) -> dict[str, Source]:
        """What each Python file says."""
        return {path: Source(self.root / path) for path in self.files if path.endswith(".py")}

    @cached_property
    def registered(self) -> set[str]:
        """Files that entry points of the project lead to, which no import names."""
        groups = tomllib.loads((self.root / "pyproject.toml").read_text())["project"]["entry-points"].values()
        modules = [place.partition(":")[0] for group in groups for place in group.values()]
        return {path for module in modules for path in self.files_of(module)}

    @cached_property
    def scripts(self) -> dict[str, str]:
        """Python files outside of the package and of tests, by their names."""
        return {PurePosixPath(path).name: path for path in self.sources if not path.startswith(("concord/", "tests/"))}

    def files_of(self, module: str) -> Iterator[str]:
        """The file of a module, and those of its packages; the first one imports only when it is asked itself."""
        parts = module.split(".")
        for count in range(min(2, len(parts)), len(parts) + 1):
            path = "/".join(parts[:count])
            yield from {f"{path}.py", f"{path}/__init__.py"} & self.files

    @cached_property
    def leads(self) -> dict[str, set[str]]:
        """Files that each Python file leads to at once."""
        return {path: self._leads(path) for path in self.sources}

    def _leads(self, path: str) -> set[str]:
        source = self.sources[path]
        named = source.opens or not path.startswith("concord/")
        modules = source.modules | (source.named_modules if named else set())
        found = {file for module in modules for file in self.files_of(module)}
        named_files = source.texts | {f"{module}.py" for module in source.modules}
        found |= {script for name, script in self.scripts.items() if name in named_files}
        found |= source.texts & self.sources.keys()
        return found | (self.registered if path == PARTS else set())

    def behind(self, path: str) -> set[str]:
        """All Python files that one leads to, at any distance, and itself."""
        found: set[str] = set()
        waiting = [path]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.leads[one]
        return found

    def tests(self) -> list[str]:
        """Files of tests of parts."""
        return sorted(path for path in self.files if re.fullmatch(r"tests/test_\w+\.py", path))

    def touched(self, changed: Iterable[str]) -> list[str]:
        """Files of tests that a change of these files can touch."""
        changed = set(changed)
        if changed & {*self.behind(ALL_TESTS), "requirements-dev.lock"}:
            return self.tests()
        return [test for test in self.tests() if self._is_touched(test, changed)]

    def _is_touched(self, test: str, changed: set[str]) -> bool:
        behind = self.behind(test)
        own = [self.sources[path] for path in behind if not path.startswith("concord/")]
        return bool(behind & changed) or any(source.names(path) for source in own for path in changed - behind)


def main() -> None:
    """Prints the files of tests that changes since a commit, the first argument, can touch."""
    print("\n".join(Checkout(ROOT, tracked()).touched(changed_since(sys.argv[1]))))  # noqa: T201 — it is a command


if __name__ == "__main__":
    main()
