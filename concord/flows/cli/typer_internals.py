"""Private names of Typer, for things that have no public way. No other module of the project uses any.

Typer may move them in any release: until 0.28 an option had no ``type_descriptor``, and every command ended there. So
its version is pinned to one minor release, and `tests/test_internals.py` fails when one has moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand as TyperCommand
from typer.core import TyperGroup as TyperGroup
from typer.core import TyperOption as TyperOption
from typer.models import OptionInfo as OptionInfo

LOOK: dict[str, Any] = {"no_args_is_help": True, "rich_markup_mode": "rich", "pretty_exceptions_show_locals": False}
"""How every group of commands is shown, and what ends in an error of ours."""


class ValueKind(NamedTuple):
    """What an option takes.

    - ``annotation``: type of a value
    - ``choices``: the values that it may have, as they are typed; empty where it may have any
    - ``is_path``, ``is_number``: whether it is a path, or a number
    - ``least``: smallest value; None where there is none
    """

    annotation: Any
    choices: tuple[str, ...]
    is_path: bool
    is_number: bool
    least: float | None


def value_kind(option: TyperOption) -> ValueKind:
    """Kind of the values of an option."""
    kind = option.type_descriptor
    return ValueKind(
        kind.annotation,
        tuple(str(getattr(choice, "value", choice)) for choice in kind.choices or ()),
        bool(kind.is_path),
        bool(kind.is_ranged) or kind.annotation in (int, float),
        kind.parameter_info.min,
    )


def value_source(ctx: Any, option: TyperOption) -> str:
    """Origin of an option's value: COMMANDLINE, DEFAULT_MAP (the file), DEFAULT and so on; empty where it has none."""
    source = ctx.get_parameter_source(option.name)
    return "" if source is None else str(source.name)


def command_of(tree: typer.Typer, name: str) -> Any:
    """What Typer makes of a tree: a group where that has a help text, or else its one command."""
    made: Any = typer.main.get_group(tree) if isinstance(tree.info.help, str) else typer.main.get_command(tree)
    made.name = name
    return made
