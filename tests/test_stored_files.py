"""Constraints and lists of documents that are in an object store, against a real S3 server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.commands.listed_documents import documents_asked_for
from concord.flows.labelling.sources import open_constraints
from concord.flows.runfolder.runfolder import Sources, read_sources, write_sources
from concord.workers.constraints.constraint_file import ConstraintFileError, load_constraints
from concord.workers.models.corpus_agreement import SUFFIX, AgreementFileError
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.storage import FolderStorage, StorageError, file_bytes
from tests.support.s3 import KEYS, s3_server, uri

RULES = """
constraints:
  - template: starts_with
    labels: [author, editor]
    weight: 2.5
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with patch.dict(os.environ, KEYS), s3_server() as address:
        yield address


def stored(server: str, name: str, text: str) -> str:
    """The URI of a file in the store."""
    ObjectStorage(uri(server, "rules")).write(name, text.encode())
    return uri(server, f"rules/{name}")


def test_stored_constraints_are_those_of_the_file(server: str, tmp_path: Path) -> None:
    here = tmp_path / "rules.yaml"
    here.write_text(RULES)
    for place in (str(here), here.as_uri(), stored(server, "rules.yaml", RULES)):
        assert load_constraints(place).templates == load_constraints(here).templates


def test_mistakes_name_the_uri_and_its_line_without_keys(server: str) -> None:
    place = stored(server, "wrong.yaml", RULES.replace("starts_with", "start_with")) + "&secret_key=abc"
    with pytest.raises(ConstraintFileError, match=r"^s3://bucket/rules/wrong\.yaml\?.*:3: .*start_with") as told:
        load_constraints(place)
    assert "abc" not in str(told.value)


def test_what_is_not_there_is_told(server: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: 's3://bucket/rules/none\.yaml"):
        file_bytes(uri(server, "rules/none.yaml"))
    with pytest.raises(StorageError, match="a place of an unknown kind"):
        load_constraints("ftp://host/rules.yaml")


@pytest.mark.parametrize("command", ["check", "weigh"])
def test_a_command_is_told_of_the_uri_as_it_was_given(server: str, command: str) -> None:
    """A `Path` on the way would have left out one of its slashes."""
    found = CliRunner().invoke(app, ["constraints", command, uri(server, "rules/none.yaml"), "--corpus", "none"])
    assert found.exit_code == Exit.INPUT
    assert "s3://bucket/rules/none.yaml" in found.output


def test_a_list_of_documents_is_read_from_there(server: str) -> None:
    table = pa.BufferOutputStream()
    pq.write_table(pa.table({"doc_id": ["x", "y"]}), table)
    ObjectStorage(uri(server, "out")).write("rejects.parquet", table.getvalue().to_pybytes())
    assert documents_asked_for((), uri(server, "out/rejects.parquet")) == ("x", "y")
    assert documents_asked_for(("a",), stored(server, "ids.txt", "b\nc\n")) == ("a", "b", "c")


def test_counts_are_told_from_rules_by_the_name_in_a_uri(server: str) -> None:
    opened: Any = SimpleNamespace(folder=Path("model"), model=SimpleNamespace(labels=None))
    with pytest.raises(AgreementFileError, match="there is no such file"):
        open_constraints(opened, [uri(server, f"none{SUFFIX}")], consistency=False)


def test_a_run_keeps_the_places_of_its_constraints_without_keys(tmp_path: Path) -> None:
    given = ("s3://bucket/rules.yaml?region=x&secret_key=abc", "/rules/more.yaml")
    write_sources(
        FolderStorage(tmp_path), Sources(corpus="/corpus", model="/model", constraints=given, consistency=True)
    )
    assert read_sources(FolderStorage(tmp_path)).constraints == ("s3://bucket/rules.yaml?region=x", "/rules/more.yaml")
