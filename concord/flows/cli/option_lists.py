"""The options that ``--set NAME=VALUE`` takes, with defaults and ranges: for ``--json``, and at the end of a help."""

from __future__ import annotations

import json
from typing import Any

from rich.markup import escape

from concord.schemas.reports import OptionReport
from concord.schemas.settings import Settings


def with_options(example: str, kind: type[Settings]) -> str:
    """End of a command's help: the example, and a paragraph for each option of ``--set``."""
    lines = [f"{option.name}: {_words(option)}" for option in options_of(kind)]
    return "\n\n".join([example, "What --set takes:", *map(escape, lines)])


def told_meaning(option: OptionReport) -> str:
    """Meaning of an option, and its range."""
    allowed = value_range(option.values)
    return option.meaning + (f" ({allowed})" if allowed else "")


def _words(option: OptionReport) -> str:
    allowed = value_range(option.values)
    return f"{option.meaning} [{plain_value(option.default)}{f'; {allowed}' if allowed else ''}]"


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
    """The schema with each reference replaced by the part that it refers to."""
    if isinstance(schema, list):
        return [_resolved(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
    return {key: _resolved(value, parts) for key, value in (named | schema).items() if key != "$ref"}


def plain_value(default: Any) -> str:
    """A default in the form that ``--set`` takes."""
    if isinstance(default, dict):
        return ", ".join(f"{name} {plain_value(value)}" for name, value in default.items())
    if isinstance(default, list):
        return ",".join(map(str, default))
    return default if isinstance(default, str) else json.dumps(default)


def value_range(values: dict[str, Any]) -> str:
    """Allowed values of a schema in words; empty if the type alone says it."""
    if "anyOf" in values:
        return ", or ".join(filter(None, map(value_range, values["anyOf"])))
    if values.get("type") == "null":
        return "null"
    if "enum" in values:
        return " or ".join(values["enum"])
    low = f"from {values['minimum']:g}" if "minimum" in values else ""
    low = f"above {values['exclusiveMinimum']:g}" if "exclusiveMinimum" in values else low
    high = f"to {values['maximum']:g}" if "maximum" in values else ""
    return " ".join(filter(None, (low, high)))
