"""Digests of kernels, each over every definition that the compiled kernel can hold.


A kernel is compiled together with every kernel that it calls, with the constants that it reads, and with the order of
the fields of the named tuples that it takes. Nothing else of a file can change it. So a kernel is known by the
definitions behind it, not by files: an edit of a settings class, or of plain Python beside a kernel, compiles nothing.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from concord.workers.compiling.code import KERNELS, ROOT, file_of, module_of, parsed

MAKER = "_kept"
"""Function in `KERNELS` that makes the decorators of kernels; no kernel holds it."""


class Definition(NamedTuple):
    """A name at the top of a module; with ``whole`` its methods count as well, which plain Python may call."""

    module: str
    name: str
    whole: bool


class Meaning(NamedTuple):
    """The ``text`` of the statements that give a name its meaning, and the definitions that these use."""

    text: str
    uses: frozenset[Definition]


def kernel_digests() -> dict[str, str]:
    """Hex digest of each kernel of the project, by module and name, joined by a dot."""
    return {f"{module}.{name}": _digest(Definition(module, name, whole=False)) for module, name in kernels()}


def kernels() -> Iterator[tuple[str, str]]:
    """Module and name of each kernel of the project; nothing is imported."""
    decorators = {name for name, statements in _names(KERNELS).items() if any(map(_makes_kernels, statements))}
    for path in sorted((ROOT / "workers").rglob("*.py")):
        if KERNELS.encode() in path.read_bytes() or module_of(path) == KERNELS:
            for statement in parsed(module_of(path)).module.body:
                if isinstance(statement, ast.FunctionDef) and decorators & _used_names(statement.decorator_list):
                    yield module_of(path), statement.name


def definitions_behind(module: str, name: str) -> set[tuple[str, str]]:
    """Modules and names of all that a kernel can hold."""
    return {(one.module, one.name) for one in _behind(Definition(module, name, whole=False))}


def _digest(kernel: Definition) -> str:
    texts = (f"{one.module}.{one.name}\0{_meaning(one).text}\0" for one in sorted(_behind(kernel)))
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def _behind(first: Definition) -> set[Definition]:
    definitions: set[Definition] = set()
    waiting = [first]
    while waiting:
        definition = waiting.pop()
        if definition in definitions or (definition.module, definition.name) == (KERNELS, MAKER):
            continue
        definitions.add(definition)
        waiting += _meaning(definition).uses
    return definitions


@cache
def _meaning(definition: Definition) -> Meaning:
    """Meaning of a name in its module; empty if the module does not bind it, as it is then a builtin."""
    parts = [_part(definition, statement) for statement in _names(definition.module).get(definition.name, ())]
    return Meaning("\0".join(part.text for part in parts), frozenset().union(*(part.uses for part in parts)))


def _part(definition: Definition, statement: ast.stmt) -> Meaning:
    """Part that one statement contributes to the meaning of a name."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return _imported(definition, statement)
    names = _names(definition.module)
    is_called = definition.whole or not isinstance(statement, ast.FunctionDef | ast.ClassDef)
    if isinstance(statement, ast.ClassDef) and not definition.whole:
        fields = [part for part in statement.body if not isinstance(part, ast.FunctionDef)]
        statement = ast.ClassDef(statement.name, statement.bases, statement.keywords, fields, statement.decorator_list)
    uses = {Definition(definition.module, name, is_called) for name in _used_names([statement]) if name in names}
    return Meaning(ast.dump(statement), frozenset(uses))


def _imported(definition: Definition, statement: ast.Import | ast.ImportFrom) -> Meaning:
    """Meaning of an imported name; for a module that is imported as a whole, all its names."""
    source = statement.module if isinstance(statement, ast.ImportFrom) else None
    (name,) = [alias.name for alias in statement.names if _bound_by(alias) == definition.name]
    module = f"{source}.{name}" if source else name
    if file_of(module):
        return Meaning("", frozenset(Definition(module, other, whole=True) for other in _names(module)))
    if source and file_of(source):
        return Meaning("", frozenset({Definition(source, name, definition.whole)}))
    return Meaning(module, frozenset())


@cache
def _names(module: str) -> dict[str, list[ast.stmt]]:
    """Every name at the top of a module, and the statements that give it a meaning."""
    names: dict[str, list[ast.stmt]] = {}
    for statement in _statements(parsed(module).module):
        for name in _bound(statement):
            names.setdefault(name, []).append(statement)
    return names


def _statements(block: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a module, those under a condition as well; not those inside functions and classes."""
    for child in ast.iter_child_nodes(block):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _statements(child)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds itself."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {_bound_by(alias) for alias in statement.names}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _used_names(nodes: Iterable[ast.AST]) -> set[str]:
    """All names that the nodes use; strings count too, as they can be quoted annotations."""
    names: set[str] = set()
    for part in (part for node in nodes for part in ast.walk(node)):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            names.add(part.value)
    return names


def _makes_kernels(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and MAKER in _used_names([statement.value])
