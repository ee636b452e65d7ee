"""Constraints and lists of documents that are in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from concord.workers.constraints.rows import ConstraintError
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.storage import FolderStorage, StorageError, file_bytes
from tests.support.memory_store import memory_store

RULES = """
constraints:
  - template: starts_with
    labels: [author, editor]
    weight: 2.5
"""


Uri = Callable[[str], str]


@pytest.fixture(scope="module")
def uri() -> Iterator[Uri]:
    with memory_store() as uri_of:
        yield uri_of


def stored(uri: Uri, name: str, text: str) -> str:
    """The URI of a file in the store."""
    ObjectStorage(uri("rules")).write(name, text.encode())
    return uri(f"rules/{name}")


def test_stored_constraints_are_those_of_the_file(uri: Uri, tmp_path: Path) -> None:
    here = tmp_path / "rules.yaml"
    here.write_text(RULES)
    for place in (str(here), here.as_uri(), stored(uri, "rules.yaml", RULES)):
        assert load_constraints(place).templates == load_constraints(here).templates


def test_mistakes_name_the_uri_and_its_line_without_keys(uri: Uri) -> None:
    place = stored(uri, "wrong.yaml", RULES.replace("starts_with", "start_with")) + "?region=x&secret_key=abc"
    with pytest.raises(ConstraintFileError, match=r"^s3://[^/]+/rules/wrong\.yaml\?.*:3: .*start_with") as told:
        load_constraints(place)
    assert "abc" not in str(told.value)


def test_what_is_not_there_is_told(uri: Uri) -> None:
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: 's3://[^/]+/rules/none\.yaml"):
        file_bytes(uri("rules/none.yaml"))
    with pytest.raises(StorageError, match="a place of an unknown kind"):
        load_constraints("ftp://host/rules.yaml")


@pytest.mark.parametrize("command", ["check", "weigh"])
def test_a_command_is_told_of_the_uri_as_it_was_given(uri: Uri, command: str) -> None:
    """A `Path` on the way would have left out one of its slashes."""
    found = CliRunner().invoke(app, ["constraints", command, uri("rules/none.yaml"), "--corpus", "none"])
    assert found.exit_code == Exit.INPUT
    assert uri("rules/none.yaml") in found.output


def test_a_list_of_documents_is_read_from_there(uri: Uri) -> None:
    table = pa.BufferOutputStream()
    pq.write_table(pa.table({"doc_id": ["x", "y"]}), table)
    ObjectStorage(uri("out")).write("rejects.parquet", table.getvalue().to_pybytes())
    assert documents_asked_for((), uri("out/rejects.parquet")) == ("x", "y")
    assert documents_asked_for(("a",), stored(uri, "ids.txt", "b\nc\n")) == ("a", "b", "c")


def test_counts_of_before_are_told_by_the_name_in_a_uri(uri: Uri) -> None:
    opened: Any = SimpleNamespace(folder=Path("model"), model=SimpleNamespace(labels=None))
    with pytest.raises(ConstraintError, match=r"none\.parquet: no YAML file of constraints; .* leave them out"):
        open_constraints(opened, [uri("none.parquet")], consistency=False)


def test_a_run_keeps_the_places_of_its_constraints_without_keys(tmp_path: Path) -> None:
    given = ("s3://bucket/rules.yaml?region=x&secret_key=abc", "/rules/more.yaml")
    write_sources(
        FolderStorage(tmp_path), Sources(corpus="/corpus", model="/model", constraints=given, consistency=True)
    )
    assert read_sources(FolderStorage(tmp_path)).constraints == ("s3://bucket/rules.yaml?region=x", "/rules/more.yaml")
