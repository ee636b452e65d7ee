"""Commands by name, ours and those of other packages. A command's file is imported when the command is used."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from concord.flows.cli.failures import reported
from concord.flows.cli.typer_internals import TyperCommand, TyperGroup, command_of
from concord.workers.parts import Group, PartError, Registry, own_entries

if TYPE_CHECKING:
    from concord.flows.cli.tree import CommandTree


def _wrong(part: Any) -> str | None:
    from concord.flows.cli.tree import CommandTree

    return None if isinstance(part, CommandTree) else f"want a CommandTree, not a {type(part).__name__}"


COMMANDS: Registry[CommandTree] = Registry(Group.COMMANDS, {}, _wrong)
"""Trees of one command, or of several under a help text, each by the word after ``concord``."""


class _Commands(Mapping[str, Any]):
    """The commands as Typer has them, each made when it is asked for. Raises `PartError` for one of no use."""

    def __getitem__(self, name: str) -> Any:
        return command_of(COMMANDS[name], name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class CommandsByName(TyperGroup):
    """The group of `COMMANDS`, which its help lists without an import of their files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Names of all commands."""
        with reported():
            _check_names()
            return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; None if there is none."""
        with reported():
            _check_names()
            return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Shows the help, with a line of each command."""
        listed = copy.copy(self)
        listed.commands = {name: TyperCommand(name=name, help=summary_of(name)) for name in self.list_commands(ctx)}
        super(CommandsByName, listed).format_help(ctx, formatter)


def _check_names() -> None:
    """Raises `PartError` for a name that two have, or where concord is installed without these entry points."""
    if not COMMANDS or not own_entries([Group.COMMANDS]):
        raise PartError("this installation of concord names no commands: install it again, as by `pip install -e .`")


def summary_of(name: str) -> str:
    """What a command does, in a line: as its file says it, which is only imported where that cannot be read.

    Where it cannot be imported, that is the line.
    """
    text = _written(name)
    if text is None:
        try:
            text = str(command_of(COMMANDS[name], name).help)
        except PartError as error:
            text = str(error)
    return " ".join(text.strip().partition("\n\n")[0].split())


def _written(name: str) -> str | None:
    """Help of a tree in its source: of the group, or the docstring of its one command; None where neither stands."""
    entry = COMMANDS.entry(name)
    try:
        spec = find_spec(entry.module)
    except ImportError:
        return None
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        text = _help_of(node, entry.attr)
        if text:
            return text
    return None


def _help_of(node: ast.stmt, tree: str) -> str | None:
    """Help that a statement gives a tree; None where it gives none."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=words)) if name == tree:
            texts = [word.value.value for word in words if word.arg == "help" and isinstance(word.value, ast.Constant)]
            return str(texts[0]) if texts else None
        case ast.FunctionDef(decorator_list=marks) if any(ast.unparse(m).startswith(f"{tree}.command(") for m in marks):
            return ast.get_docstring(node)
    return None
