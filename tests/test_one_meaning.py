"""One name, one meaning: no class is called as another one, and no alias of a type as a class."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from concord.workers.compiling.code import ROOT


def modules() -> Iterator[Path]:
    for folder in ("flows", "workers", "schemas", "concord/testing"):
        yield from (ROOT / folder).rglob("*.py")
    yield from (ROOT / "concord").glob("*.py")


def test_no_class_has_the_name_of_another_or_of_an_alias() -> None:
    classes, aliases = defaultdict(list), defaultdict(list)
    for path in modules():
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(path)
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and "TypeVar(" not in ast.unparse(statement.value):
                for target in statement.targets:
                    aliases[ast.unparse(target)].append(path)
    assert len(classes) > 500
    twice = {name: places for name, places in classes.items() if len(places) > 1 or name in aliases}
    assert not twice, {name: [*places, *aliases[name]] for name, places in twice.items()}
