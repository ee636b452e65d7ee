"""What there is to choose from: engines, trainers, readers and constraint templates, with their options."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flows.cli.arguments import print_json
from flows.cli.plain_tables import text_table
from flows.progress import Terminal
from schemas.reports import EngineReport, EntryReport, OptionReport
from schemas.settings import Settings
from workers.constraints.templates.registry import TEMPLATES
from workers.corpus.readers.registry import READERS
from workers.features.templates import SUMMARIES
from workers.inference.registry import SOLVERS
from workers.learning.trainers.registry import TRAINERS


def engines() -> list[EngineReport]:
    """Every engine; its summary is what its module says of itself."""
    return [
        EngineReport(
            name=name,
            summary=_first_line(sys.modules[solver.solve.__module__].__doc__),
            exact=solver.exact,
            options=options_of(solver.settings),
        )
        for name, solver in SOLVERS.items()
    ]


def trainers() -> list[EntryReport]:
    """Every trainer; its summary is what its module says of itself."""
    return [
        EntryReport(
            name=name,
            summary=_first_line(sys.modules[trainer.train.__module__].__doc__),
            options=options_of(trainer.settings),
        )
        for name, trainer in TRAINERS.items()
    ]


def readers() -> list[EntryReport]:
    """Every reader."""
    return [
        EntryReport(name=name, summary=entry.summary, options=options_of(entry.settings))
        for name, entry in READERS.items()
    ]


def features() -> list[EntryReport]:
    """Every feature set; what it needs is part of its summary."""
    return [EntryReport(name=name, summary=summary, options=()) for name, summary in SUMMARIES.items()]


def templates() -> list[EntryReport]:
    """Every constraint template; options are the keys of its entry in a constraint file."""
    return [
        EntryReport(name=name, summary=_first_line(template.__doc__), options=options_of(template))
        for name, template in TEMPLATES.items()
    ]


def show(name: str, entries: Sequence[EntryReport], table: RenderableType, *, as_json: bool) -> None:
    """Entries on standard output: one object with them under ``name``, or the table."""
    if as_json:
        print_json(json.dumps({name: [entry.model_dump() for entry in entries]}))
        return
    Terminal().print(table)


def options_of(kind: type[Settings]) -> tuple[OptionReport, ...]:
    """The fields of a settings class."""
    schema = kind.model_json_schema()
    parts = schema.get("$defs", {})
    return tuple(_option(name, _resolved(field, parts), kind) for name, field in schema.get("properties", {}).items())


def _option(name: str, schema: dict[str, Any], kind: type[Settings]) -> OptionReport:
    spoken_for = {"default", "description", "title"}
    return OptionReport(
        name=name,
        needed=kind.model_fields[name].is_required(),
        default=schema.get("default"),
        values={key: value for key, value in schema.items() if key not in spoken_for},
        meaning=schema.get("description", ""),
    )


def _resolved(schema: Any, parts: dict[str, Any]) -> Any:
    """The schema with the parts that it refers to in their places."""
    if isinstance(schema, list):
        return [_resolved(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
    return {key: _resolved(value, parts) for key, value in (named | schema).items() if key != "$ref"}


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


# For people


def listing(entries: Sequence[EntryReport]) -> Group:
    """A heading and a table of options an entry."""
    return Group(*(part for entry in entries for part in _shown(entry)))


def _shown(entry: EntryReport) -> Iterator[Text | Table]:
    exact = " (exact)" if isinstance(entry, EngineReport) and entry.exact else ""
    yield Text.assemble((entry.name, "bold"), f"{exact}  {entry.summary}")
    if entry.options:
        table = text_table("  option", "default", "meaning")
        for option in entry.options:
            note = f" ({allowed})" if (allowed := _range(option.values)) else ""
            table.add_row(f"  {option.name}", Text(_plain(option.default)), Text(option.meaning + note))
        yield table
    yield Text()


def _plain(default: Any) -> str:
    """A default as ``--option`` takes it."""
    if isinstance(default, dict):
        return ", ".join(f"{name} {_plain(value)}" for name, value in default.items())
    if isinstance(default, list):
        return ",".join(default)
    return default if isinstance(default, str) else json.dumps(default)


def _range(values: dict[str, Any]) -> str:
    """What a schema allows, in words; empty where its type says it all."""
    if "anyOf" in values:
        return ", or ".join(filter(None, map(_range, values["anyOf"])))
    if values.get("type") == "null":
        return "null"
    if "enum" in values:
        return " or ".join(values["enum"])
    low = f"from {values['minimum']:g}" if "minimum" in values else ""
    low = f"above {values['exclusiveMinimum']:g}" if "exclusiveMinimum" in values else low
    high = f"to {values['maximum']:g}" if "maximum" in values else ""
    return " ".join(filter(None, (low, high)))
