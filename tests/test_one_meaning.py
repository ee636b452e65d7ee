"""One name, one meaning: of classes, of aliases of types, of numbers, and of constants that modules share."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from concord.workers.compiling.code import ROOT

Places = dict[str, list[Path]]


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_bytes()) for path in ROOT.rglob("*.py")}


def assigned(wanted: Callable[[str, ast.expr], bool]) -> Places:
    """Where each name is assigned at the top of a module, of those that are wanted."""
    found: Places = defaultdict(list)
    for path, tree in trees().items():
        for name, value in _assignments(tree):
            if wanted(name, value):
                found[name].append(path)
    return found


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from ((ast.unparse(target), statement.value) for target in statement.targets)


def is_alias(name: str, value: ast.expr) -> bool:
    return name[0].isupper() and not name.isupper() and "TypeVar(" not in ast.unparse(value)


def is_number(name: str, value: ast.expr) -> bool:
    plain = all(
        isinstance(part, ast.Constant | ast.UnaryOp | ast.BinOp | ast.operator | ast.unaryop)
        for part in ast.walk(value)
    )
    texts = any(isinstance(part, ast.Constant) and not isinstance(part.value, int | float) for part in ast.walk(value))
    return name.isupper() and not name.startswith("_") and plain and not texts


def constants() -> Places:
    """Where each public constant is assigned."""
    found: Places = defaultdict(list)
    for path, tree in trees().items():
        for name in _targets(tree):
            if name.isupper() and not name.startswith("_"):
                found[name].append(path)
    return found


def _targets(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and not re.match(
            r"(typing\.)?(TypeVar|ParamSpec)\(", ast.unparse(statement.value)
        ):
            parts = (target.elts if isinstance(target, ast.Tuple) else [target] for target in statement.targets)
            yield from (part.id for part in chain.from_iterable(parts) if isinstance(part, ast.Name))
        elif isinstance(statement, ast.AnnAssign):
            yield ast.unparse(statement.target)


def imported() -> set[str]:
    """Names that some module imports from another one."""
    found = set()
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("concord."):
                found |= {alias.name for alias in node.names}
    return found


OF_EACH_PART = {"NAME", "KIND", "OWN"}
"""Constants that each trainer, model or registry has; they are read as those of their module."""
STILL_TWO = {
    "ROUNDING": "of the engines, and of the checker, which shares nothing with them",
    "TOLERANCE": "of the engines, and of the checker, which shares nothing with them",
}


def twice(found: Places) -> Places:
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_class_has_the_name_of_another_or_of_an_alias() -> None:
    classes: Places = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name.strip("_")].append(path)  # a private twin of a public name is a second meaning
    aliases = assigned(lambda _, value: "TypeVar(" not in ast.unparse(value))
    assert len(classes) > 500
    both = {name: [*classes[name], *aliases[name]] for name in classes.keys() & aliases.keys()}
    assert not twice(classes) | both


def test_no_alias_of_a_type_has_the_name_of_another() -> None:
    aliases = assigned(is_alias)
    assert len(aliases) > 40
    assert not twice(aliases)


def test_no_number_has_the_name_of_another() -> None:
    numbers = assigned(is_number)
    assert len(numbers) > 200
    assert not twice(numbers)


def test_no_constant_that_modules_share_has_the_name_of_another() -> None:
    found, shared = twice(constants()), imported()
    assert len(shared) > 1000
    assert {name for name in found if name in shared} - OF_EACH_PART == STILL_TWO.keys()


PARTICIPLE = re.compile(
    r"(?i)_*(asked|chosen|found|given|judged|kept|known|learned|left|made|opened|said|seen|shown|told|wanted)_*"
)
"""A name that says what happened to a thing, not what it is for."""
MOST_PARTICIPLES, SLACK = 7.6, 0.4
"""How many of them there may be in 1,000 lines of code, and how many fewer before the number has to fall."""


def _named(node: ast.AST) -> str | None:
    """What a node gives a name to, if it does."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def test_names_that_are_bare_participles_only_get_fewer() -> None:
    names = (_named(node) for tree in trees().values() for node in ast.walk(tree))
    counts = Counter(match[1].lower() for name in names if (match := PARTICIPLE.fullmatch(name or "")))
    lines = sum(path.read_bytes().count(b"\n") for path in trees())
    now = 1000 * counts.total() / lines
    assert now <= MOST_PARTICIPLES, f"name the role, such as run_id, message, answer, options: {counts.most_common()}"
    assert now > MOST_PARTICIPLES - SLACK, f"there are fewer now: write {now:.1f} down as MOST_PARTICIPLES"
