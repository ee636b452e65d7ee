"""A corpus and its output in an object store, as a user has them there: a real S3 server, Ray, the commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from concord.flows.cli.failures import Exit
from concord.flows.runfolder.published import published
from concord.workers.storage.object_storage import ObjectStorage
from tests.integration.conftest import World
from tests.support.s3 import KEYS, Troubles, s3_server, troubled, upload, uri

RULES = """
constraints:
  - template: at_most_runs
    labels: [PER]
    limit: 1
    weight: 1.5
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def keyed(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The world with the keys of the store, in a Ray of its own: workers have the keys too."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    return replace(world, env=world.env | KEYS, ray=None)


@pytest.mark.slow
def test_a_run_in_an_object_store_has_the_bytes_of_one_in_a_folder(keyed: World, reference: Any, server: str) -> None:
    corpus = uri(server, "corpora/test")
    upload(keyed.folder / "test", corpus)
    upload(keyed.folder / "model", uri(server, "models/news"))
    troubles = Troubles(0.1, seed=1)
    with troubled(server, troubles) as proxy:
        out = uri(proxy, "out")
        command = keyed.reprocess_command(out, "--workers", "2")
        command[command.index("test")] = corpus
        command[command.index("model")] = uri(proxy, "models/news")
        first = keyed.run(*command)
        assert (first["documents"], first["shards_done"]) == (reference["documents"], reference["shards_done"])
        again = keyed.run(*command)
        assert (again["shards_done"], again["shards_skipped"]) == (0, reference["shards_done"])
        plan = keyed.run(*command, "--dry-run")
        assert (plan["skipped"], plan["decoded"]) == (reference["documents"], 0)
        counts = keyed.run("evaluate", "--run", out, "--corpus", corpus, "--json")
        assert counts["documents"] == reference["documents"]
        checked = keyed.run("verify", "--run", out, "--json")
        assert (checked["failed"], checked["documents"]) == ([], reference["documents"])
        nights = keyed.run("history", "--run", out, "--json")
        assert [night["line"]["labelled"] for night in nights["nights"]] == [reference["documents"], 0]
        month = keyed.run(
            "monthly", "--run", out, "--out", "reports", "--month", nights["nights"][0]["line"]["time"][:7], "--json"
        )
        assert (month["nights"], month["labelled"]) == (2, reference["documents"])
    assert troubles.met
    storage = ObjectStorage(uri(server, "out"))
    manifest = (keyed.folder / "reference" / "manifest.json").read_bytes()
    assert storage.read("manifest.json") == manifest
    for name in published(str(keyed.folder / "reference")).files():
        assert storage.read(name) == (keyed.folder / "reference" / name).read_bytes()


@pytest.mark.slow
def test_constraints_in_an_object_store_are_those_of_the_file(keyed: World, trained: Any, server: str) -> None:
    """And what checks the run finds them there."""
    (keyed.folder / "rules.yaml").write_text(RULES)
    ObjectStorage(uri(server, "rules")).write("news.yaml", RULES.encode())
    for out, place in (("here", "rules.yaml"), ("there", uri(server, "rules/news.yaml"))):
        keyed.run(*keyed.reprocess_command(out, "--constraints", place, "--workers", "1"))
    assert keyed.content("here") == keyed.content("there")
    assert keyed.run("verify", "--run", "there", "--json")["failed"] == []


def test_an_output_over_the_corpus_and_one_that_cannot_be_reached_are_told_in_a_line(
    keyed: World, trained: Any, server: str
) -> None:
    corpus = uri(server, "corpora/other")
    upload(keyed.folder / "test", corpus)
    for out, told in (
        (uri(server, "corpora"), "would overwrite what is read"),
        (
            uri(server, "x").replace("s3://bucket", "s3://nowhere"),
            "s3://nowhere/x/predictions: cannot be listed (Server returned non-2xx status code: 404",
        ),
    ):
        command = keyed.reprocess_command(out, "--workers", "1")
        command[command.index("test")] = corpus
        process = keyed.start(*command)
        _, said = process.communicate(timeout=300)
        assert process.returncode == Exit.INPUT, said
        assert told in " ".join(said.split()), said
