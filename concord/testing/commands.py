"""Contract tests of commands: where they come from, and what each says in its help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from concord.flows.cli.tree import Command, CommandTree
from concord.flows.cli.typer_internals import command_of
from concord.testing.expect import expect


def check_command(name: str, tree: CommandTree) -> None:
    """Runs all `COMMAND_CHECKS` over a command, or over each command of a group.

    Raises `AssertionError` at a broken promise.
    """
    for words, command in _leaves(name, command_of(tree, name)):
        for check in COMMAND_CHECKS:
            check(words, command)


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands that do something, by the words that lead to them."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    expect(_is_sentence(command.help), f"{name}: the help text of a group is a sentence")
    for own, inner in command.commands.items():
        yield from _leaves(f"{name} {own}", inner)


def _is_sentence(text: str | None) -> bool:
    return text is not None and text[:1].isupper() and text.rstrip().endswith((".", "!"))


def is_of_a_tree(name: str, command: Any) -> None:
    """It comes from `CommandTree.command`, which tells errors in a line and takes ``--config``."""
    expect(isinstance(command, Command), f"{name}: a command is made by `CommandTree.command`")


def says_what_it_does(name: str, command: Any) -> None:
    """Its docstring, an example and each option's help are there."""
    expect(
        _is_sentence(command.help.partition("\n\n")[0]), f"{name}: the first paragraph of its docstring is its summary"
    )
    expect(f"concord {name}" in str(command.epilog), f"{name}: its epilog is an example")
    for option, parameter in command.options.items():
        expect(parameter.help, f"{name}: option {option} has a help text")


COMMAND_CHECKS: tuple[Callable[[str, Any], None], ...] = (is_of_a_tree, says_what_it_does)
