"""Any file of an output, damaged in any way: `concord verify` names it, or the page on reliability says why not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from concord.flows.commands import verify as flow
from concord.flows.commands.verify import verify
from concord.flows.labelling.sources import OpenModel
from concord.flows.nights.record import RECORD
from concord.flows.nights.rollback import rollback
from concord.flows.runfolder import delta_table
from concord.flows.runfolder.delta_table import (
    LAST_CHECKPOINT,
    LOG,
    NOTES_FOLDER,
    TABLE_FOLDER,
    commit_run,
    keep_versions,
    table_state,
)
from concord.flows.runfolder.former_run import FORMER, INSTEAD, RUN_BEFORE, RUNS
from concord.flows.runfolder.layout import CORPUS, FEED_FOLDER, MANIFEST, STAGED, STORE
from concord.flows.runfolder.locks import LOCK
from concord.flows.runfolder.markers import KEPT_MARKERS
from concord.flows.runfolder.runfolder import Purpose, Sources, claim, find_done, publish, run_output, write_sources
from concord.schemas.errors import InputError
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.labelling.output import CERTIFICATES, MARKERS, PREDICTIONS, REJECTS, TIMES
from concord.workers.labelling.shard import label_shard
from tests.support.made_folders import documents
from tests.support.made_runs import HashModel, consistency, key_of
from tests.support.memory_store import memory_store, objects_below
from tests.support.seeds import blocks

PARTS = 4
"""Parts of the files; one is tried at each commit, all of them by the slow tests."""
CONSTRAINTS = consistency()
DOCUMENTS = documents(6, seed=1)
Files = dict[str, bytes]

NOT_VERIFIED = (f"{TIMES}/", f"{STORE}/", f"{KEPT_MARKERS}/", f"{NOTES_FOLDER}/", LAST_CHECKPOINT, RECORD, LOCK)
"""Parts of paths that the page says are not verified."""
CANNOT_BE_TOLD = {
    "missing": (f"{FORMER}/{RUN_BEFORE}/", f"{FORMER}/{INSTEAD}/", CORPUS),
    "another": (f"{FORMER}/{INSTEAD}/", CORPUS),
}
"""Starts of paths that may be missing after a kill, or may say something else."""


def night(uri: str, folder: Path, start: int, count: int, seed: int) -> None:
    """What `concord reprocess --table delta --certificates` does to its output."""
    corpus, key = folder / "corpus", key_of(CONSTRAINTS, engine="certify", options={}, certificates=True, seed=seed)
    write_corpus(DOCUMENTS[start : start + count], corpus, source="test", overwrite=True)
    out = run_output(uri)
    with out.exclusive():
        claim(out, Purpose.of(str(corpus)))
        markers = find_done(out, plan(corpus, shard_bytes=1), key)
        for shard in markers.todo():
            own: dict[str, Any] = {"model": HashModel(), "constraints": CONSTRAINTS, "key": key}
            markers.add(label_shard(shard, store=out.storage.below(STORE), **own).marker)
        sources = Sources(corpus=str(corpus), model="model", constraints=(), consistency=True, shard_bytes=1)
        write_sources(out.storage, sources)
        publish(out, markers, rules=CONSTRAINTS.strengths)
        commit_run(out)


def nights(uri: str, folder: Path) -> None:
    for number in range(6):
        night(uri, folder, number % 3, 3, seed=number // 2)
    keep_versions(run_output(uri).storage, 4)


def nights_and_back(uri: str, folder: Path) -> None:
    night(uri, folder, 0, 3, seed=0)
    shutil.copytree(folder / "corpus", folder / "first")
    night(uri, folder, 1, 3, seed=0)
    rollback(uri)
    shutil.rmtree(folder / "corpus")
    (folder / "first").rename(folder / "corpus")


HISTORIES: dict[str, Callable[[str, Path], None]] = {"nights": nights, "a way back": nights_and_back}


def flipped(data: bytes, _: bytes) -> bytes:
    place = len(data) // 3
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "flipped": flipped,
    "cut": lambda data, _: data[: len(data) // 2],
    "another": lambda _, other: other,
    "missing": lambda *_: None,
}


class Place:
    """An output in a folder or an object store, that is put back after each damage."""

    def __init__(self, uri: str) -> None:
        self.uri, self.storage = uri, run_output(uri).storage

    def files(self) -> Files:
        """All that can be damaged, by the names that readers use."""
        if "://" in self.uri:
            names = set(objects_below(self.uri))
        else:
            tops = [path for path in Path(self.uri).iterdir() if path.name not in (".current", ".published")]
            below = [file for top in tops for file in (top.resolve().rglob("*") if top.is_dir() else [top.resolve()])]
            names = {self._shown(file) for file in below if file.is_file()}
        return {name: self.storage.read(name) or b"" for name in sorted(names)}

    def _shown(self, file: Path) -> str:
        path = file.relative_to(self.uri)
        return str(Path(*path.parts[2:]) if path.parts[0] == ".published" else path)

    def put(self, name: str, data: bytes | None) -> None:
        """Makes it a file of its own, so that nothing else of the output changes with it."""
        if data is None:
            self.storage.remove([name])
        else:
            self.storage.write(name, data)


@pytest.fixture(scope="module", params=[(kind, name) for kind in ("folder", "objects") for name in HISTORIES])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    kind, name = request.param
    folder = tmp_path_factory.mktemp("damage")
    with pytest.MonkeyPatch.context() as patched, memory_store() as uri, opened():
        patched.setattr(os, "fsync", lambda _: None)
        patched.setattr(delta_table, "CHECKPOINT_EVERY", 2)
        there = str(folder / "out") if kind == "folder" else uri("out")
        HISTORIES[name](there, folder)
        yield Place(there)


@contextmanager
def opened() -> Iterator[None]:
    with (
        patch.object(flow, "open_model", lambda name, registry: OpenModel(HashModel(), Path(name))),
        patch.object(flow, "open_constraints", lambda opened, files, consistency: CONSTRAINTS),
    ):
        yield


def lines_of(uri: str) -> list[str]:
    """What `verify` has against an output."""
    try:
        return list(map(str, verify(uri).failed))
    except InputError as error:
        return [str(error)]


def another(files: Mapping[str, bytes], name: str) -> bytes | None:
    """The bytes of another file of its folder, which are as good by themselves; of a manifest, another run's."""
    folder = name.rpartition("/")[0] if name != MANIFEST else f"{FORMER}/"
    suffix = name.rpartition(".")[2]
    others = (data for other, data in files.items() if other.startswith(folder) and other.endswith(suffix))
    return next((data for data in others if data != files[name]), None)


def untold(files: Mapping[str, bytes], name: str, damage: str) -> bool:
    """Does the page say that this is no damage, or cannot be told?"""
    if any(part in name for part in NOT_VERIFIED) or any(part in name for part in CANNOT_BE_TOLD.get(damage, ())):
        return True
    oldest = min(other for other in files if other.startswith(f"{FEED_FOLDER}/"))
    return damage == "missing" and name == oldest


def named_instead(name: str, damage: str) -> Iterator[str]:
    """What a line may name in the place of a file: what lists it, where its own name cannot be known any more."""
    if name.startswith(f"{FORMER}/{RUNS}/"):
        yield f"{name.rpartition('-')[0]}-*"
    if name == MANIFEST and damage == "another":
        yield "is not what this run was made from"
    if damage == "missing" and name.startswith(f"{FEED_FOLDER}/"):
        yield f"{FEED_FOLDER}: file"


@pytest.mark.parametrize("part", blocks(PARTS))
def test_any_damage_to_any_file_is_named(place: Place, part: int) -> None:
    files = place.files()
    assert lines_of(place.uri) == []
    tried, missed = 0, list[str]()
    for number, (name, data) in enumerate(files.items()):
        if number % PARTS != part:
            continue
        for damage, change in DAMAGES.items():
            other = another(files, name)
            if untold(files, name, damage) or (damage == "another" and other is None):
                continue
            place.put(name, change(data, other or b""))
            lines = lines_of(place.uri)
            tried += 1
            if not any(shown in line for line in lines for shown in (name, *named_instead(name, damage))):
                missed.append(f"{name} {damage}: {lines}")
        place.put(name, data)
    assert tried
    assert missed == [], chr(10).join(missed)
    assert lines_of(place.uri) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_the_newest_version_that_is_gone_is_written_again(tmp_path: Path, damage: str) -> None:
    with opened():
        out = Place(str(tmp_path / "out"))
        nights_and_back(out.uri, tmp_path)
        files = [f"{TABLE_FOLDER}/{name}" for name in sorted(table_state(out.storage).files)]
        before = {name: out.storage.read(name) or b"" for name in files}
        out.put(files[0], DAMAGES[damage](before[files[0]], before[files[1]]))
        assert any(files[0] in line for line in lines_of(out.uri))
        out.put(files[0], None)
        night(out.uri, tmp_path, 0, 3, seed=0)
        assert {name: out.storage.read(name) for name in files} == before
        assert lines_of(out.uri) == []


def test_a_damaged_file_with_a_second_name_is_written_again_in_both_places(tmp_path: Path) -> None:
    """The disk changes a byte of what `predictions/` and the store share: the next run puts both right."""
    with opened():
        out = str(tmp_path / "out")
        night(out, tmp_path, 0, 3, seed=0)
        path = min((Path(out) / PREDICTIONS).glob("*.parquet"))
        with path.open("r+b") as file:
            file.seek(200)
            file.write(b"!!")
        assert lines_of(out) != []
        night(out, tmp_path, 0, 3, seed=0)
        assert lines_of(out) == []


STRAY_PLACES = (
    *(f"{STORE}/{folder}" for folder in (PREDICTIONS, REJECTS, TIMES, CERTIFICATES, MARKERS)),
    *(f"{FORMER}/{folder}" for folder in (RUNS, RUN_BEFORE, INSTEAD, PREDICTIONS)),
    STAGED,
    KEPT_MARKERS,
    TABLE_FOLDER,
    f"{TABLE_FOLDER}/{LOG}",
)
"""Folders of concord's own from which nights remove files."""


def test_a_folder_in_the_place_of_a_file_stops_no_night_and_stays(tmp_path: Path) -> None:
    with opened():
        out = tmp_path / "out"
        night(str(out), tmp_path, 0, 3, seed=0)
        names = [f"{place}/{'0' * 32}{end}" for place in STRAY_PLACES for end in (".parquet", ".json")]
        for name in names:
            (out / name).mkdir(parents=True)
            (out / name / "mine.txt").write_text("mine")
        night(str(out), tmp_path, 1, 3, seed=0)
        night(str(out), tmp_path, 2, 3, seed=1)
        rollback(str(out))
        keep_versions(run_output(str(out)).storage, 1)
        assert [(out / name / "mine.txt").read_text() for name in names] == ["mine"] * len(names)
