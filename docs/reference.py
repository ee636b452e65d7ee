"""Pages made of the code: the command line, every option of every part, and what `import concord` gives.

Each is written in Markdown into a folder of the source, which git leaves out, and is read like any other page.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import concord
from concord.flows.cli.app import app
from concord.flows.cli.catalogue import LISTS
from concord.flows.cli.option_lists import plain_value, told_meaning

IN_USE = (
    *("init", "doctor", "label", "synthesize", "ingest", "corpus", "train", "import", "calibrate", "clusters"),
    *("gazetteer", "codl", "constraints", "reprocess", "verify", "evaluate", "why", "review", "history", "monthly"),
    *("export", "challenge", "sweep", "papers", "list"),
)
"""Commands in the order of use: a look at what is there, a text, then corpora, models, runs, comparisons."""


def write_reference(folder: Path) -> None:
    """Writes all pages."""
    folder.mkdir(exist_ok=True)
    pages = {"cli": command_line(), "api": api(), **{name: parts(name) for name in LISTS}}
    pages |= {f"cli-{name}": command_page(name) for name in top_commands()}
    for name, lines in pages.items():
        _write(folder / f"{name}.md", lines)


def top_commands() -> dict[str, Any]:
    """Returns the commands that follow ``concord``, by name and in the order of use."""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return dict(sorted(commands.items(), key=lambda item: (_turn(item[0]), item[0])))


def command_line() -> Iterator[str]:
    """The list of all commands, each with a page of its own."""
    yield "# Command line\n"
    yield "Commands in the order of use; each page has what `concord COMMAND --help` prints.\n"
    yield "Each command takes `--json` where it answers with figures.\n"
    yield "| command | what it does |\n| --- | --- |"
    for name, command in top_commands().items():
        yield f"| [{name}](cli-{name}.md) | {_cell(str(command.help))} |"
    yield "\n```{toctree}\n:hidden:\n"
    yield from (f"cli-{name}" for name in top_commands())
    yield "```"


def command_page(name: str) -> Iterator[str]:
    """A command, or the commands of a group, with arguments and options."""
    command = top_commands()[name]
    if not hasattr(command, "commands"):
        yield from _command(command, f"concord {name}", "#")
        return
    yield f"# concord {name}\n\n{' '.join(str(command.help).split())}\n"
    yield from _commands(command, f"concord {name}")


def parts(name: str) -> Iterator[str]:
    """A kind of parts: each with what it is, and its options with defaults and meanings."""
    yield f"# All {name}, with their options\n"
    for entry in LISTS[name]():
        yield f"## `{entry.name}`\n\n{entry.summary}\n"
        if entry.options:
            yield "| option | default | meaning |\n| --- | --- | --- |"
            for option in entry.options:
                default = "needed" if option.needed else f"`{plain_value(option.default)}`"
                yield f"| `{option.name}` | {_cell(default)} | {_cell(told_meaning(option))} |"
            yield ""


def api() -> Iterator[str]:
    """The public package."""
    yield "# Python\n"
    yield from _with_code(str(concord.__doc__))
    for name in concord.PLACES:
        kind = "autoclass" if isinstance(getattr(concord, name), type) else "autofunction"
        members = "\n   :members:" if kind == "autoclass" else ""
        yield f"```{{eval-rst}}\n.. {kind}:: concord.{name}{members}\n```\n"


def _with_code(text: str) -> Iterator[str]:
    """A docstring with what is indented as code."""
    for paragraph, indented in ((part, part.startswith("    ")) for part in text.split("\n\n")):
        yield f"```python\n{textwrap.dedent(paragraph)}\n```\n" if indented else f"{paragraph}\n"


def _commands(command: Any, name: str) -> Iterator[str]:
    for own, below in sorted(getattr(command, "commands", {}).items(), key=lambda item: (_turn(item[0]), item[0])):
        yield from _commands(below, f"{name} {own}")
    if not hasattr(command, "commands"):
        yield from _command(command, name, "##")


def _command(command: Any, name: str, heading: str) -> Iterator[str]:
    yield f"{heading} {name}\n\n{' '.join(str(command.help).split())}\n"
    if command.epilog:
        yield f"```text\n{command.epilog.partition(chr(10))[0]}\n```\n"
    yield "| | default | what it is |\n| --- | --- | --- |"
    yield from map(_parameter, command.params)
    yield ""


def _turn(name: str) -> int:
    """Place of a command in the order of use; those that are not in it come last."""
    return IN_USE.index(name) if name in IN_USE else len(IN_USE)


def _parameter(parameter: Any) -> str:
    spelled = ", ".join(parameter.opts) if parameter.param_type_name == "option" else parameter.name.upper()
    default = "needed" if parameter.required else "" if parameter.default in (None, False) else f"`{parameter.default}`"
    return f"| `{spelled}` | {_cell(default)} | {_cell(parameter.help or '')} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _write(path: Path, lines: Iterator[str]) -> None:
    text = "\n".join(lines)
    # What stands is left alone: Sphinx reads a page again whose file is newer.
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
