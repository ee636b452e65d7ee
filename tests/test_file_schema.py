"""The JSON Schema of constraint files: of files as they are written, against the reader of these files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.starting import write_start
from concord.workers.constraints.constraint_file import ConstraintFileError, parse_constraints
from concord.workers.constraints.file_schema import file_schema, file_schema_text

CONCORD = Path(__file__).parents[1] / "concord"
WRITTEN = [path for path in sorted(CONCORD.rglob("*.yaml")) if "template: " in path.read_text(encoding="utf-8")]
SCHEMA = jsonschema.Draft202012Validator(file_schema())

WEIGHT = {"template": "starts_with", "labels": "author"}
ENTRIES: list[dict[str, Any]] = [
    {**WEIGHT, "weight": "hard"},
    {**WEIGHT, "weight": 2.5},
    {**WEIGHT, "weight": 0},
    {**WEIGHT, "weight": -1},
    {**WEIGHT, "weight": 1e7},
    {**WEIGHT, "weight": "soft"},
    {**WEIGHT, "weight": "hard", "labels": ["author", "title"]},
    {**WEIGHT, "weight": "hard", "labels": []},
    {**WEIGHT, "weight": "hard", "labels": 7},
    {**WEIGHT, "weight": "hard", "scope": "sentence"},
    {**WEIGHT, "weight": "hard", "scope": "corpus"},
    {**WEIGHT, "weight": "hard", "label": "author"},
    WEIGHT,
    {"weight": 1},
    {"template": "no_such", "weight": 1},
    {"template": "lexicon", "words": "May", "labels": "O", "weight": 1},
    {"template": "lexicon", "words": ["May"], "labels": "O", "weight": 1, "name": "months"},
    {"template": "token_feature", "tokens": ["a"], "labels": "O", "weight": -1},
    {"template": "token_feature", "tokens": {"pattern": "[0-9]+"}, "labels": "O", "weight": 1},
    {"template": "token_feature", "tokens": {"patern": "[0-9]+"}, "labels": "O", "weight": 1},
    {"template": "at_most_runs", "labels": "author", "limit": 1, "weight": "hard"},
    {"template": "at_most_runs", "labels": "author", "limit": "one", "weight": "hard"},
]
"""Entries, right ones and wrong ones."""


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.relative_to(CONCORD).as_posix())
def test_every_file_that_is_shipped_is_valid(path: Path) -> None:
    SCHEMA.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_there_are_such_files() -> None:
    assert len(WRITTEN) > 8


@pytest.mark.parametrize("entry", ENTRIES, ids=json.dumps)
def test_the_schema_says_of_an_entry_what_the_reader_says(entry: dict[str, Any]) -> None:
    content = {"constraints": [entry]}
    try:
        parse_constraints(yaml.safe_dump(content), file="rules.yaml")
        is_read = True
    except ConstraintFileError:
        is_read = False
    assert SCHEMA.is_valid(content) == is_read


def test_the_command_and_init_write_it(tmp_path: Path) -> None:
    SCHEMA.check_schema(file_schema())
    ended = CliRunner().invoke(app, ["constraints", "schema", "--out", str(tmp_path / "s.json")])
    assert "# yaml-language-server: $schema=" in ended.stdout
    assert (tmp_path / "s.json").read_text(encoding="utf-8") == file_schema_text()
    write_start(tmp_path / "nights")
    assert (tmp_path / "nights" / "constraints.schema.json").read_text(encoding="utf-8") == file_schema_text()
