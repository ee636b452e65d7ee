"""Planning of a run: files that stand as they did are not read again, and the plan is that of a run that reads all."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.labelling import planning
from concord.flows.labelling.planning import KEPT_SURVEY, Listing, plan_corpus, read_anywhere, read_here
from concord.flows.labelling.ray_on_demand import RayOnDemand
from concord.flows.work.done import Done
from concord.schemas.columns import SchemaError
from concord.schemas.document import ScoreColumn
from concord.schemas.errors import CorpusError
from concord.schemas.folders import FolderKind
from concord.schemas.settings import TextSettings
from concord.workers.corpus import id_file, kept_survey
from concord.workers.corpus.kept_survey import is_settled
from concord.workers.corpus.parquet import ListedFile, ParquetLocation, listed_files
from concord.workers.corpus.plan import Survey, plan, survey
from concord.workers.corpus.surveyed import SurveyedFile
from concord.workers.remote.registry import TASKS
from concord.workers.remote.survey import FileCounts, SurveyParts
from concord.workers.remote.task import AnyTask
from concord.workers.storage.files import OutputError
from concord.workers.storage.storage import FolderStorage

PARTS = SurveyParts(shard_bytes=2_000)
FILES = ("a.parquet", "b.parquet", "sub/c.parquet")


class Reading:
    """Reads here, last files first, and notes the names of what it reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, files: Sequence[ListedFile], parts: SurveyParts) -> Iterable[SurveyedFile]:
        self.read += [file.location.name for file in files]
        return read_here(files[::-1], parts)


@pytest.fixture(autouse=True)
def _settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of these tests are milliseconds old."""
    monkeypatch.setattr(kept_survey, "SETTLED_SECONDS", -1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a corpus of three files."""
    for number, name in enumerate(FILES):
        made(tmp_path / "corpus" / name, seed=number)
    return tmp_path


def made(path: Path, *, seed: int, first: int | None = None, documents: int = 30) -> None:
    """A file of raw texts; seeds below 10 give equal sizes. Ids count from ``first``, or occur nowhere else."""
    start = 10_000 * (seed + 1) if first is None else first
    texts = [f"Ada Byron {seed} saw Basel {i:03d}. " * (1 + i % 9) for i in range(documents)]
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"doc_id": [f"d{start + i:06d}" for i in range(documents)], "text": texts})
    pq.write_table(table, path, compression="none", use_dictionary=False, row_group_size=11)


def listed(place: Path) -> Listing:
    """The corpus's files as they are now."""
    return Listing.of(str(place / "corpus"))


def planned(place: Path, parts: SurveyParts = PARTS) -> tuple[Survey, list[str]]:
    """The survey by what is kept, which is kept anew, and the names of the files that were read for it."""
    reading = Reading()
    survey, found = plan_corpus(listed(place), parts, FolderStorage(place), reading)
    found.keep(FolderStorage(place))
    return survey, reading.read


def tables(place: Path) -> dict[str, int]:
    """The tables that are kept, and their inodes."""
    return {path.name: path.stat().st_ino for path in (place / KEPT_SURVEY).iterdir()}


def whole(place: Path, parts: SurveyParts = PARTS) -> Survey:
    """The survey of somebody who reads all."""
    return survey(str(place / "corpus"), text=parts.text, shard_bytes=parts.shard_bytes)


def same(found: Survey, other: Survey) -> bool:
    return (found.shards, list(map(str, found.damages)), found.columns) == (
        other.shards,
        list(map(str, other.damages)),
        other.columns,
    )


@pytest.mark.parametrize("kind", list(FolderKind))
def test_a_folder_of_another_kind_is_no_corpus(place: Path, kind: FolderKind) -> None:
    (place / "manifest.json").write_text(json.dumps({"folder": kind}))
    if kind is FolderKind.CORPUS:
        assert plan(place)
        return
    with pytest.raises(CorpusError, match=f"this is {kind.phrase}, and no corpus") as raised:
        plan(place)
    assert ("concord export predictions --run" in str(raised.value)) == (kind is FolderKind.RUN)
    (place / "manifest.json").write_text('{"made by": "somebody"}')
    assert plan(place)


def test_a_corpus_that_stands_is_not_read_again(place: Path) -> None:
    first, read = planned(place)
    assert tuple(read) == FILES
    assert len(first.shards) > len(FILES)
    again, read = planned(place)
    assert read == []
    assert same(again, first)
    assert same(first, whole(place))
    before = tables(place)
    planned(place)
    assert tables(place) == before, "nothing is written again"


def test_a_file_with_other_rows_of_the_same_size_and_time_is_read(place: Path) -> None:
    first, _ = planned(place)
    path = place / "corpus" / "b.parquet"
    before = path.stat()
    made(path, seed=7)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    found, read = planned(place)
    assert read == ["b.parquet"]
    assert same(found, whole(place))
    assert not same(found, first)


EDITS = st.lists(st.tuples(st.sampled_from(["write", "remove", "rename", "damage"]), st.integers(0, 4)), max_size=6)


@given(nights=st.lists(EDITS, min_size=1, max_size=3))
def test_after_any_nights_the_plan_is_that_of_who_reads_all(
    nights: list[list[tuple[str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("nights")
    made(place / "corpus" / "file-0.parquet", seed=0)
    planned(place)
    for number, edits in enumerate(nights):
        for kind, which in edits:
            _edit(place / "corpus", kind, which, seed=number)
        made(place / "corpus" / "last.parquet", seed=9, documents=2)  # so that there is something to read
        found, _ = planned(place)
        assert same(found, whole(place))


def _edit(corpus: Path, kind: str, which: int, *, seed: int) -> None:
    """Changes a file; its documents have ids of other files, so that some are repeats."""
    path = corpus / f"file-{which}.parquet"
    if kind == "write":
        made(path, seed=seed, first=15 * which)
    elif kind == "damage" and path.exists():
        path.write_bytes(path.read_bytes()[:-3])
    elif kind == "rename" and path.exists():
        path.rename(corpus / f"file-{which + 10}.parquet")
    elif kind == "remove":
        path.unlink(missing_ok=True)


def test_ids_of_files_that_are_not_read_are_known(place: Path) -> None:
    made(place / "corpus" / "b.parquet", seed=1, first=10_000)
    first, _ = planned(place)
    assert sum(len(shard.repeats) for shard in first.shards) == 30
    made(place / "corpus" / "d.parquet", seed=3, first=10_010, documents=10)
    found, read = planned(place)
    assert read == ["d.parquet"]
    assert sum(len(shard.repeats) for shard in found.shards) == 40
    assert same(found, whole(place))


@pytest.mark.parametrize("limit", [0, 300])
def test_ids_that_are_aside_are_compared_as_in_memory(place: Path, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made(place / "corpus" / "b.parquet", seed=1, first=10_000)
    default = id_file.IDS_IN_MEMORY
    monkeypatch.setattr(id_file, "IDS_IN_MEMORY", limit)
    for _ in range(2):
        found, _ = planned(place)
        assert sum(len(shard.repeats) for shard in found.shards) == 30
        assert same(found, whole(place))
    before = tables(place)
    monkeypatch.setattr(id_file, "IDS_IN_MEMORY", default)
    planned(place)
    assert tables(place) == before, "what is kept is the same, too"


def test_ids_for_which_the_disk_has_no_room_are_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_file, "IDS_IN_MEMORY", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OutputError, match="cannot be written"):
        planned(place)


def full(*_: object, **__: object) -> BinaryIO:
    """A file for temporary things on a disk without room."""
    return Path("/dev/full").open("wb")


def test_a_file_that_was_written_a_moment_ago_is_read_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_survey, "SETTLED_SECONDS", 60)
    planned(place)
    _, read = planned(place)
    assert tuple(read) == FILES


@pytest.mark.parametrize(
    ("modified", "changed", "settled"), [(0, 0, True), (39, 39, True), (41, 0, False), (0, 41, False)]
)
def test_times_tell_contents_apart_after_a_minute(
    modified: int, changed: int, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_survey, "SETTLED_SECONDS", 60)
    second = 1_000_000_000
    file = ListedFile(ParquetLocation("c", "c/a", "a"), 1, modified * second, changed * second)
    assert is_settled(file, 100 * second) is settled


@pytest.mark.parametrize(
    "other",
    [PARTS._replace(shard_bytes=3_000), PARTS._replace(text=TextSettings(text_column="other"))],
    ids=["shards of another size", "another column"],
)
def test_what_cuts_depend_on_is_compared(place: Path, other: SurveyParts) -> None:
    for name in FILES:
        path = place / "corpus" / name
        table = pq.read_table(path)
        pq.write_table(table.append_column("other", table["text"]), path)
    planned(place)
    found, read = planned(place, other)
    assert tuple(read) == FILES
    assert same(found, whole(place, other))


@pytest.mark.parametrize("scores", [None, ScoreColumn("scores", 2)], ids=["tokens", "tokens and scores"])
def test_files_of_tokens_are_known_with_their_columns(place: Path, scores: ScoreColumn | None) -> None:
    """Of what a corpus can hold, raw text is tried above."""
    for name in FILES:
        ids = pq.read_table(place / "corpus" / name)["doc_id"].to_pylist()
        tokens = [["Ada", "saw", doc_id] for doc_id in ids]
        columns = {"doc_id": ids, "tokens": tokens, "sentence_starts": [[0]] * len(ids), "pos": [["X"] * 3] * len(ids)}
        types = {"sentence_starts": pa.array(columns["sentence_starts"], pa.list_(pa.int32()))}
        table = pa.table({**columns, **types, "scores": [[[0.5, number]] * 3 for number in range(len(ids))]})
        pq.write_table(table, place / "corpus" / name)
    parts = PARTS._replace(scores=scores, shard_bytes=300)
    first, read = planned(place, parts)
    assert tuple(read) == FILES
    again, read = planned(place, parts)
    assert read == []
    assert same(again, first)
    assert same(first, survey(str(place / "corpus"), shard_bytes=300, scores=scores))
    assert {tuple(sorted(columns)) for columns in first.columns.values()} == {("pos", "tokens")}
    other = ScoreColumn("scores", 2) if scores is None else None
    assert tuple(planned(place, parts._replace(scores=other))[1]) == FILES


def test_another_corpus_is_read(place: Path) -> None:
    planned(place)
    (place / "corpus").rename(place / "moved")
    reading = Reading()
    plan_corpus(Listing.of(str(place / "moved")), PARTS, FolderStorage(place), reading)
    assert tuple(reading.read) == FILES


@pytest.mark.parametrize("fault", ["cut", "changed", "empty", "other"])
def test_a_damaged_record_is_not_believed(place: Path, fault: str) -> None:
    planned(place)
    (record,) = (place / KEPT_SURVEY).iterdir()
    data = bytearray(record.read_bytes())
    data[len(data) // 3] ^= 0xFF
    other = pa.BufferOutputStream()
    pq.write_table(pa.table({"name": FILES}), other)
    faults = {"cut": bytes(data[:-9]), "changed": bytes(data), "empty": b"", "other": other.getvalue().to_pybytes()}
    record.write_bytes(faults[fault])
    found, read = planned(place)
    assert tuple(read) == FILES
    assert same(found, whole(place))


@pytest.mark.parametrize(("limit", "most"), [("FILES_AT_ONCE", 1), ("IDS_AT_ONCE", 25)])
def test_a_changed_file_changes_its_table_alone(
    place: Path, limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_survey, limit, most)
    planned(place)
    before = tables(place)
    assert len(before) == 3
    made(place / "corpus" / "b.parquet", seed=7)
    planned(place)
    after = tables(place)
    assert len(after) == 3
    assert len(before.items() & after.items()) == 2
    assert planned(place)[1] == []
    min((place / KEPT_SURVEY).iterdir()).write_bytes(b"damaged")
    found, read = planned(place)
    assert read == ["a.parquet"]
    assert same(found, whole(place))


def test_a_damaged_file_is_read_each_time_until_it_is_whole(place: Path) -> None:
    path = place / "corpus" / "b.parquet"
    path.write_bytes(path.read_bytes()[:-3])
    for _ in range(2):
        found, _ = planned(place)
        assert [str(damage).partition(": ")[0] for damage in found.damages] == [str(path)]
        assert same(found, whole(place))
    made(path, seed=1)
    found, read = planned(place)
    assert read == ["b.parquet"]
    assert found.damages == []


def test_the_first_file_with_the_wrong_columns_is_named(place: Path) -> None:
    for name in FILES[1:]:
        pq.write_table(pa.table({"title": ["x"]}), place / "corpus" / name)
    with pytest.raises(SchemaError, match=r"b\.parquet: there is neither a column"):
        planned(place)


# On workers


class Workers:
    """Stands in for a cluster: does each file here, by its pickles, the last one first; the ones of ``lost`` fail."""

    def __init__(self, lost: Sequence[str] = ()) -> None:
        self.lost = lost

    def started(self) -> Any:
        return SimpleNamespace(run=self._run)

    def _run(self, task: AnyTask, files: Sequence[ListedFile], parts: SurveyParts) -> Iterator[Done[Any, Any]]:
        for file in reversed(files):
            if file.location.name in self.lost:
                yield Done(file, None, "its worker died 2 times")
                continue
            sent = pickle.loads(pickle.dumps((file, parts)))
            yield Done(file, pickle.loads(pickle.dumps(TASKS[task.name].run(*sent))))


def on(workers: Workers) -> partial[Iterator[SurveyedFile]]:
    return partial(read_anywhere, cast("RayOnDemand", workers))


def test_workers_find_what_one_process_finds(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place / "corpus" / "b.parquet"
    path.write_bytes(path.read_bytes()[:-3])
    monkeypatch.setattr(planning, "READ_ALONE", 0)
    found, _ = plan_corpus(listed(place), PARTS, FolderStorage(place), on(Workers()))
    assert same(found, whole(place))


def test_a_file_that_no_worker_survives_is_a_damage(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "READ_ALONE", 0)
    survey, found = plan_corpus(
        Listing.of(str(place / "corpus")), PARTS, FolderStorage(place), on(Workers(lost=FILES[:1]))
    )
    assert list(map(str, survey.damages)) == [f"{place / 'corpus' / FILES[0]}: its worker died 2 times"]
    found.keep(FolderStorage(place))
    _, read = planned(place)
    assert read == ["a.parquet"]


def test_wrong_columns_come_back_from_workers(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "READ_ALONE", 0)
    pq.write_table(pa.table({"title": ["x"]}), place / "corpus" / "b.parquet")
    with pytest.raises(SchemaError, match=r"b\.parquet: there is neither a column"):
        plan_corpus(listed(place), PARTS, FolderStorage(place), on(Workers()))


def test_little_is_read_without_workers(place: Path) -> None:
    class Nobody(Workers):
        def started(self) -> Any:
            raise AssertionError("no worker is needed")

    found, _ = plan_corpus(listed(place), PARTS, FolderStorage(place), on(Nobody()))
    assert same(found, whole(place))


def test_counts_of_files_add_up(place: Path) -> None:
    path = place / "corpus" / "b.parquet"
    path.write_bytes(path.read_bytes()[:-3])
    task = TASKS["survey"]
    files = listed_files(str(place / "corpus"))
    every = [cast("FileCounts", task.counts(task.run(file, PARTS))) for file in files]
    assert FileCounts.merge(every) == FileCounts(60, 1)
    assert sum(shard.rows for shard in whole(place).shards) == 60
    with pytest.raises(CorpusError, match=r"b\.parquet"):
        plan(str(place / "corpus"))
