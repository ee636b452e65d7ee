"""Markers of the last run in one file: what is finished is known by it, and nothing else is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from concord.flows.runfolder import markers as at
from concord.flows.runfolder import runfolder
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.markers import KEPT_MARKERS, Markers
from concord.flows.runfolder.runfolder import Purpose, claim, find_done, publish
from concord.schemas.run import FileDigest, RowReject, ShardMarker, ShardReport
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.output import MARKERS, PREDICTIONS
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import consistency, key_of, run

CONSTRAINTS = consistency()
KEY = key_of(CONSTRAINTS)


@pytest.fixture
def shards(tmp_path: Path) -> Sequence[Shard]:
    write_corpus(synthesize(5, seed=3, kind="news"), tmp_path / "corpus", source="test")
    return plan(tmp_path / "corpus", shard_bytes=1)


@pytest.fixture
def out(shards: Sequence[Shard], tmp_path: Path) -> Path:
    """A run of these shards, published."""
    folder = tmp_path / "out"
    claim(FolderOutput(folder), Purpose.of("corpus"))
    run(shards, folder / STORE, KEY, CONSTRAINTS)
    publish(FolderOutput(folder), KEY, shards, found(folder, shards))
    return folder


def found(out: Path, shards: Sequence[Shard]) -> Markers:
    return find_done(FolderOutput(out), shards, KEY)


def test_what_is_published_needs_no_marker_and_no_file_to_be_read(
    out: Path, shards: Sequence[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("is read")

    assert list((out / STORE / MARKERS).iterdir()) == []
    monkeypatch.setattr(runfolder, "finished", refuse)
    monkeypatch.setattr(FolderOutput, "holds", refuse)
    assert len(found(out, shards)) == len(shards) == 5
    kept = (out / KEPT_MARKERS).stat().st_mtime_ns
    publish(FolderOutput(out), KEY, shards, found(out, shards))
    assert (out / KEPT_MARKERS).stat().st_mtime_ns == kept, "nothing is written where nothing is new"


def damaged(path: Path) -> None:
    """Changes a byte, and has size and time of writing be what they were."""
    before = path.stat()
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    """Another file of the same bytes."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


@pytest.mark.parametrize(("change", "left"), [(damaged, 4), (Path.unlink, 4), (replaced, 5), (Path.touch, 5)])
def test_a_file_that_changed_is_read_again(
    out: Path, shards: Sequence[Shard], change: Callable[[Path], object], left: int
) -> None:
    change(min((out / STORE / PREDICTIONS).iterdir()))
    assert len(found(out, shards)) == left


def test_a_copy_of_an_output_is_finished_as_well(out: Path, shards: Sequence[Shard], tmp_path: Path) -> None:
    shutil.copytree(out, tmp_path / "copy", symlinks=True)
    assert len(found(tmp_path / "copy", shards)) == 5


@pytest.mark.parametrize("size", [0, 9, -9])
def test_a_damaged_file_of_markers_is_none(out: Path, shards: Sequence[Shard], size: int) -> None:
    data = (out / KEPT_MARKERS).read_bytes()
    (out / KEPT_MARKERS).write_bytes(data[:size])
    assert len(found(out, shards)) == 0
    run(shards, out / STORE, KEY, CONSTRAINTS)
    publish(FolderOutput(out), KEY, shards, found(out, shards))
    assert len(found(out, shards)) == 5


def test_any_changed_byte_of_the_file_loses_markers_and_changes_none(out: Path, shards: Sequence[Shard]) -> None:
    data, whole = (out / KEPT_MARKERS).read_bytes(), found(out, shards)
    for place in range(0, len(data), 7):
        kept = at.kept_markers(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
        known = {row.packed for row in kept.values()}
        assert known <= {whole.packed(shard.id) for shard in shards}


def test_markers_of_another_version_are_none(
    out: Path, shards: Sequence[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at, "_fields", lambda: b"others")
    assert len(found(out, shards)) == 0
    monkeypatch.undo()
    table = pq.read_table(out / KEPT_MARKERS)
    pq.write_table(table.drop_columns(["versions"]), out / KEPT_MARKERS)
    assert len(found(out, shards)) == 0


def test_a_marker_comes_back_as_it_was() -> None:
    markers, one = Markers(), FileDigest(path="predictions/a.parquet", bytes=3, sha256="0" * 64)
    report = ShardReport(documents=2, gap_sum=float("inf"), gap_max=0.1 + 0.2, statuses={"optimal": 2})
    marker = ShardMarker(key="k", files=(one,), rejects=(RowReject(row=0, doc_id="ä\n", reason="r"),), report=report)
    markers.add("a", marker)
    assert (markers["a"], dict(markers), markers.files("a")) == (marker, {"a": marker}, ("predictions/a.parquet",))
    assert ("a" in markers, "b" in markers, len(markers)) == (True, False, 1)
