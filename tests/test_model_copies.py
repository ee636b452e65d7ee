"""Copies of models that are in an object store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from concord.flows.inputs.model_copies import KEPT_COPIES, kept_copy, stored_model
from concord.flows.labelling.sources import open_model
from concord.workers.learning.trainers import crfsuite
from concord.workers.models.folder import MANIFEST, ModelError, parse_manifest, update_manifest
from concord.workers.models.settings import CrfSettings
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.storage import StorageError
from concord.workers.synthesis.made_up import synthesize
from tests.support.memory_store import memory_store
from tests.support.s3 import upload


@pytest.fixture(scope="module")
def uri() -> Iterator[Callable[[str], str]]:
    with memory_store() as uri_of:
        yield uri_of


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder on this machine."""
    folder = tmp_path_factory.mktemp("trained") / "news"
    crfsuite.train(list(synthesize(12, seed=3, kind="news")), settings=CrfSettings(max_iterations=3), out=folder)
    return folder


@pytest.fixture
def place(uri: Callable[[str], str], trained: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URI of the model in the store; copies go to ``tmp_path``."""
    found = uri(f"{abs(hash(request.node.nodeid))}/news")
    upload(trained, found)
    with patch.dict(os.environ, {"CONCORD_HOME": str(tmp_path / "home")}):
        yield found


def copies(folder: Path) -> list[Path]:
    """Folders of copies below a folder."""
    return [path.parent for path in folder.rglob(MANIFEST)]


def test_a_stored_model_is_the_trained_one_and_is_copied_once(place: str, trained: Path, tmp_path: Path) -> None:
    opened = open_model(place)
    assert opened.model.digest == open_model(str(trained)).model.digest
    assert opened.version is None
    assert {path.name: path.read_bytes() for path in opened.folder.iterdir()} == {
        path.name: path.read_bytes() for path in trained.iterdir()
    }
    asked: list[str] = []
    read = ObjectStorage.read

    def noted(store: ObjectStorage, name: str) -> bytes | None:
        asked.append(name)
        return read(store, name)

    with patch.object(ObjectStorage, "read", noted):
        assert stored_model(place) == opened.folder
    assert asked == [MANIFEST]
    assert copies(tmp_path) == [opened.folder]


def test_another_model_in_the_place_is_another_copy_and_old_copies_go(place: str, tmp_path: Path) -> None:
    store, seen = ObjectStorage(place), []
    for version in range(KEPT_COPIES + 2):
        seen.append(stored_model(place))
        update_manifest(seen[-1], kind=parse_manifest(seen[-1] / MANIFEST).kind, metrics={"version": float(version)})
        store.write(MANIFEST, (seen[-1] / MANIFEST).read_bytes())
        os.utime(seen[-1], (version, version))
    assert len(set(seen)) == len(seen)
    assert set(copies(tmp_path)) == set(seen[-KEPT_COPIES:])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (MANIFEST, None, "manifest.json: not there, so this is not the folder of a model"),
        (MANIFEST, b"{}", "manifest.json: kind: Field required; this is no manifest"),
        ("model.crfsuite", None, "model.crfsuite: the model's file is missing"),
        ("model.crfsuite", b"other", "model.crfsuite: SHA-256 differs from the manifest's"),
    ],
)
def test_what_is_missing_or_damaged_is_named_and_not_kept(
    name: str, content: bytes | None, said: str, place: str, trained: Path, tmp_path: Path
) -> None:
    store = ObjectStorage(place)
    name = next(file for file in parse_manifest(trained / MANIFEST).files) if name != MANIFEST else name
    said = said.replace("model.crfsuite", name)
    if content is None:
        store.remove([name])
    else:
        store.write(name, content)
    with pytest.raises(ModelError) as told:
        open_model(place)
    assert str(told.value).startswith(store.named(said.partition(":")[0]))
    assert said in str(told.value)
    assert "endpoint_override" not in str(told.value)
    assert copies(tmp_path) == []
    upload(trained, place)
    open_model(place)


def test_a_manifest_whose_files_lead_elsewhere_is_refused(place: str, trained: Path, tmp_path: Path) -> None:
    manifest = json.loads((trained / MANIFEST).read_text())
    for name in ("../elsewhere", str(tmp_path / "elsewhere")):
        ObjectStorage(place).write(MANIFEST, json.dumps(manifest | {"files": {name: "0" * 64}}).encode())
        with pytest.raises(ModelError, match="is not in the model's folder"):
            open_model(place)
    assert copies(tmp_path) == []


def test_a_place_of_an_unknown_kind_is_told() -> None:
    for other in ("http://host/model", str(Path("s3://bucket/model"))):
        with pytest.raises(StorageError, match="a place of an unknown kind"):
            open_model(other)


def test_a_file_uri_is_the_folder_itself(trained: Path) -> None:
    assert open_model(trained.as_uri()).folder == trained


def test_of_two_processes_that_copy_at_once_one_wins(place: str) -> None:
    def first(folder: Path) -> Path:
        (folder / "whole").write_text("first")
        return folder

    def second(folder: Path) -> Path:
        kept_copy(place, "news", "1", first)
        (folder / "whole").write_text("second")
        return folder

    folder = kept_copy(place, "news", "1", second)
    assert (folder / "whole").read_text() == "first"
    assert [path.name for path in folder.parent.iterdir()] == ["1"]


KILLED = """
import os, signal
from concord.flows.inputs.model_copies import kept_copy

def fetch(folder):
    (folder / "half").write_text("of it")
    os.kill(os.getpid(), signal.SIGKILL)

kept_copy("s3://bucket/news", "news", "1", fetch)
"""


def test_what_a_kill_left_is_removed_by_the_next_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    assert subprocess.run([sys.executable, "-c", KILLED], check=False).returncode == -signal.SIGKILL
    assert [path.read_text() for path in tmp_path.rglob("half")] == ["of it"]
    kept_copy("s3://bucket/news", "news", "2", lambda folder: folder)
    assert not list(tmp_path.rglob("half"))
    assert [path.name for path in (tmp_path / "models").glob("*/news/*")] == ["2"]
