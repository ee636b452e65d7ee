"""Markers of the last run in tables: what is finished is known by it, and nothing else is."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
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
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.labelling.output import MARKERS, PREDICTIONS
from concord.workers.storage.files import OutputError
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import consistency, key_of, run

CONSTRAINTS = consistency()
KEY = key_of(CONSTRAINTS)


@pytest.fixture
def shards(tmp_path: Path) -> ShardTable:
    write_corpus(synthesize(5, seed=3, kind="news"), tmp_path / "corpus", source="test")
    return plan(tmp_path / "corpus", shard_bytes=1)


@pytest.fixture
def out(shards: ShardTable, tmp_path: Path) -> Path:
    """A run of these shards, published."""
    folder = tmp_path / "out"
    claim(FolderOutput(folder), Purpose.of("corpus"))
    run(shards, folder / STORE, KEY, CONSTRAINTS)
    publish(FolderOutput(folder), found(folder, shards))
    return folder


def found(out: Path, shards: ShardTable) -> Markers:
    return find_done(FolderOutput(out), shards, KEY)


def the_table(out: Path) -> Path:
    """The only table of markers that a small run keeps."""
    (path,) = (out / KEPT_MARKERS).iterdir()
    return path


def test_what_is_published_needs_no_marker_and_no_file_to_be_read(
    out: Path, shards: ShardTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("is read")

    assert list((out / STORE / MARKERS).iterdir()) == []
    monkeypatch.setattr(runfolder, "finished", refuse)
    monkeypatch.setattr(FolderOutput, "holds", refuse)
    assert found(out, shards).done.sum() == len(shards) == 5
    kept = the_table(out).stat().st_mtime_ns
    publish(FolderOutput(out), found(out, shards))
    assert the_table(out).stat().st_mtime_ns == kept, "nothing is written where nothing is new"


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
    out: Path, shards: ShardTable, change: Callable[[Path], object], left: int
) -> None:
    change(min((out / STORE / PREDICTIONS).iterdir()))
    assert found(out, shards).done.sum() == left


def test_a_copy_of_an_output_is_finished_as_well(out: Path, shards: ShardTable, tmp_path: Path) -> None:
    shutil.copytree(out, tmp_path / "copy", symlinks=True)
    assert found(tmp_path / "copy", shards).done.sum() == 5


@pytest.mark.parametrize("size", [0, 9, -9])
def test_a_damaged_file_of_markers_is_none(out: Path, shards: ShardTable, size: int) -> None:
    data = the_table(out).read_bytes()
    the_table(out).write_bytes(data[:size])
    assert found(out, shards).done.sum() == 0
    run(shards, out / STORE, KEY, CONSTRAINTS)
    publish(FolderOutput(out), found(out, shards))
    assert found(out, shards).done.sum() == 5


def test_any_changed_byte_of_the_file_loses_markers_and_changes_none(out: Path, shards: ShardTable) -> None:
    data, whole = the_table(out).read_bytes(), found(out, shards)
    for place in range(0, len(data), 7):
        the_table(out).write_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
        kept = [row.packed for rows in at.kept_markers(FolderStorage(out)) for row in rows]
        assert set(kept) <= {whole.packed(number) for number in range(len(shards))}


def test_markers_of_another_version_are_none(out: Path, shards: ShardTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at, "_schema", lambda: at.SCHEMA.with_metadata({at.FIELDS: "others"}))
    assert found(out, shards).done.sum() == 0
    monkeypatch.undo()
    table = pq.read_table(the_table(out))
    pq.write_table(table.drop_columns(["versions"]), the_table(out))
    assert found(out, shards).done.sum() == 0


def test_a_marker_comes_back_as_it_was(shards: ShardTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at, "IN_MEMORY", 1)
    markers, one = Markers(shards, KEY), FileDigest(path="predictions/a.parquet", bytes=3, sha256="0" * 64)
    report = ShardReport(documents=2, gap_sum=float("inf"), gap_max=0.1 + 0.2, statuses={"optimal": 2})
    rejects = (RowReject(row=0, doc_id="ä\n", reason="r"),)
    marker = ShardMarker(key=markers.keys[3], files=(one,), rejects=rejects, report=report)
    other = marker.model_copy(update={"key": markers.keys[1]})
    markers.add(marker)
    markers.add(other)
    assert (markers[3], markers[1], list(markers)) == (marker, other, [other, marker])
    assert markers.done.tolist() == [False, True, False, True, False]
    assert markers.todo() == [shards[0], shards[2], shards[4]]


def test_shards_with_equal_rows_are_done_once(shards: ShardTable) -> None:
    twice = shards.take(np.array([1, 0, 1, 2, 0]))
    markers = Markers(twice, KEY)
    assert markers.todo() == [twice[0], twice[1], twice[3]]
    assert markers.keys.places(markers.keys[2]) == markers.keys.places(markers.keys[0][:32]) == [0, 2]
    assert [markers.keys.places(name) for name in ("", "half", "0" * 64, markers.keys[0][:16])] == [[], [], [], []]
    markers.add(ShardMarker(key=markers.keys[0], files=(), report=ShardReport(documents=1)))
    assert markers.done.tolist() == [True, False, True, False, False]
    assert markers.report().documents == 2
    assert markers.todo() == [twice[1], twice[3]]


def test_a_run_of_many_shards_keeps_several_tables(
    out: Path, shards: ShardTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at, "KEPT_AT_ONCE", 2)
    publish(FolderOutput(out), found(out, shards))
    names = {path.name for path in (out / KEPT_MARKERS).iterdir()}
    assert sorted(name[:9] for name in names) == ["00000000-", "00000001-", "00000002-"]
    fewer = shards.take(np.array([0, 2, 4]))
    publish(FolderOutput(out), found(out, fewer))
    assert sorted(path.name[:9] for path in (out / KEPT_MARKERS).iterdir()) == ["00000000-", "00000001-"]
    min((out / KEPT_MARKERS).iterdir()).write_bytes(b"damaged")
    assert found(out, fewer).done.tolist() == [False, False, True], "the other table stands"
    assert found(out, shards).done.tolist() == [False, False, False, False, True]


def test_a_file_of_markers_that_cannot_be_written_is_told(shards: ShardTable, monkeypatch: pytest.MonkeyPatch) -> None:
    markers = Markers(shards, KEY)
    monkeypatch.setattr(markers, "_file", Full())
    with pytest.raises(OutputError, match="cannot be written"):
        markers.add_packed(markers.keys[0], b"{}")
    assert not markers.done.any()


class Full:
    """A file on a full disk."""

    def seek(self, _: int) -> None:
        """As a file has it."""

    def write(self, _: bytes) -> None:
        """As a file has it."""
        raise OSError(errno.ENOSPC, "No space left on device")
