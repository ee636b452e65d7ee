"""The JSON Schema of constraint files, in the form that files have: for editors, and for programs that write rules."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from concord.workers.constraints.constraint_file import ROOT_KEY
from concord.workers.constraints.templates.registry import TEMPLATES

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def file_schema() -> dict[str, Any]:
    """The schema of a whole file: each entry by the template that it names."""
    schemas, shared = models_json_schema([(template, "validation") for template in TEMPLATES.values()])
    definitions: dict[str, Any] = shared["$defs"]
    for name, template in TEMPLATES.items():
        entry = definitions[schemas[template, "validation"]["$ref"].rpartition("/")[2]]
        entry["properties"] = {"template": {"const": name}} | entry["properties"]
    by_template = [
        {"if": {"properties": {"template": {"const": name}}}, "then": schemas[template, "validation"]}
        for name, template in TEMPLATES.items()
    ]
    entry = {"type": "object", "required": ["template"], "properties": {"template": {"enum": list(TEMPLATES)}}}
    return {
        "$schema": DIALECT,
        "title": "Constraints of concord",
        "type": "object",
        "required": [ROOT_KEY],
        "additionalProperties": False,
        "properties": {ROOT_KEY: {"type": "array", "items": entry | {"allOf": by_template}}},
        "$defs": definitions,
    }


def file_schema_text() -> str:
    """The schema as a JSON file."""
    return json.dumps(file_schema(), indent=1, ensure_ascii=False) + "\n"
