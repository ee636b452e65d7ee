"""What readers shall see of a run is known without a list of it, and lists that stay are not written again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.flows.runfolder import publication
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import MANIFEST, SHARD_LISTS, STORE, files_seen
from concord.flows.runfolder.publication import RunPublication
from concord.flows.runfolder.published import PublishedError, published
from concord.flows.runfolder.runfolder import Purpose, claim, dataset_digest, find_done, publish
from concord.workers.constraints.constraint_set import NO_RULES
from concord.workers.corpus.plan import plan
from concord.workers.labelling.output import CERTIFICATES, PREDICTIONS, REJECTS, TIMES
from tests.support.made_runs import consistency, key_of, run

CONSTRAINTS = consistency()
KEY = key_of(CONSTRAINTS, engine="certify", options={}, certificates=True)


@pytest.fixture(autouse=True)
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of three shards."""
    monkeypatch.setattr(publication, "LISTED_AT_ONCE", 3)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Eight shards in two files; one has a row without an id, and two have rows of the same content."""
    written(tmp_path / "corpus" / "a.parquet", ["a", "b", None, "c", "d"])
    written(tmp_path / "corpus" / "b.parquet", ["e", None, "f"])
    return tmp_path / "corpus"


def written(path: Path, ids: list[str | None]) -> None:
    path.parent.mkdir(exist_ok=True)
    texts = [f"Ada {doc} saw Basel." for doc in ids]
    pq.write_table(pa.table({"doc_id": pa.array(ids, pa.string()), "text": texts}), path)


def whole_run(corpus: Path, out: Path) -> RunPublication:
    """A run to its end."""
    folder, shards = FolderOutput(out), plan(corpus, shard_bytes=1)
    with folder.exclusive():
        claim(folder, Purpose.of(str(corpus)))
        run(find_done(folder, shards, KEY).todo(), out / STORE, KEY, CONSTRAINTS)
        done = find_done(folder, shards, KEY)
        assert done.done.all()
        publish(folder, done)
        return RunPublication(done, NO_RULES, dataset_digest(shards))


def test_a_file_is_seen_exactly_if_it_is_one_of_the_run(corpus: Path, tmp_path: Path) -> None:
    seen = whole_run(corpus, tmp_path / "out")
    files = [file.entry.path for file in seen.files()]
    folders = {name: [path for path in files if path.startswith(f"{name}/")] for name in (*TABLE_FOLDERS, SHARD_LISTS)}
    assert [len(folders[name]) for name in TABLE_FOLDERS] == [8, 8, 2]
    assert len(folders[SHARD_LISTS]) == 3
    times = [path.replace(PREDICTIONS, TIMES) for path in folders[PREDICTIONS]]
    there = set(files_seen(FolderOutput(tmp_path / "out").storage))
    assert there == {*files, *times}
    assert all(map(seen.shows, there))
    others = {altered for path in there for altered in altered_names(path)} - there
    assert len(others) > 100
    assert not any(map(seen.shows, others))


TABLE_FOLDERS = (PREDICTIONS, CERTIFICATES, REJECTS)


def altered_names(path: str) -> list[str]:
    """The same file in other folders, of another shard, and of another content."""
    folder, _, name = path.partition("/")
    number, _, key = name.partition("-")
    other = f"{(int(key[0], 16) + 1) % 16:x}{key[1:]}"
    numbers = [f"{int(number) + step:08d}" for step in (1, 7, 99_999)]
    folders = (*TABLE_FOLDERS, TIMES, SHARD_LISTS)
    return [f"{folder}/{number}-{other}", f"{folder}/x-{key}", *(f"{folder}/{n}-{key}" for n in numbers)] + [
        f"{place}/{name}" for place in folders
    ]


def test_files_of_the_store_are_kept_by_their_names(corpus: Path, tmp_path: Path) -> None:
    seen = whole_run(corpus, tmp_path / "out")
    stored = [path.stem for path in (tmp_path / "out" / STORE).glob("*/*.parquet")]
    assert len(stored) == 3 * 7, "the two rows without an id are equal, and so are their files"
    assert all(map(seen.keeps, stored))
    assert not any(seen.keeps(name) for name in ("", "half", *(name[::-1] for name in stored)))


def test_readers_get_the_shards_in_order_from_several_lists(corpus: Path, tmp_path: Path) -> None:
    whole_run(corpus, tmp_path / "out")
    reader = published(str(tmp_path / "out"))
    shards = plan(corpus, shard_bytes=1)
    assert [(s.place.file, s.place.first_row, s.place.rows) for s in reader.shards()] == [
        (s.file.name, s.first_row, s.rows) for s in shards
    ]
    assert (reader.manifest.shards, len(reader.manifest.lists)) == (8, 3)
    ids = [row["doc_id"] for shard in reader.shards() for path in shard.files for row in rows(tmp_path / "out", path)]
    assert sorted(filter(None, ids)) == sorted("aabbccddeeff"), "in predictions and certificates"
    assert ids.count(None) == 2


def rows(out: Path, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / path).to_pylist()
    return found


def test_lists_and_rejects_that_stay_are_not_written_again(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole_run(corpus, out)
    before = inodes(out)
    written(corpus / "b.parquet", ["e", None, "g"])
    whole_run(corpus, out)
    after = inodes(out)
    assert {name for name in before.keys() & after.keys() if before[name] != after[name]} == set()
    assert [len(before.keys() - after.keys()), len(after.keys() - before.keys())] == [1, 1], "the last list"


def inodes(out: Path) -> dict[str, int]:
    files = (path for folder in (SHARD_LISTS, REJECTS) for path in (out / folder).iterdir())
    return {path.name: path.stat().st_ino for path in files}


@pytest.mark.parametrize("damage", [b"", b"no list", None])
def test_a_damaged_list_is_told_and_mended_without_labelling(
    corpus: Path, tmp_path: Path, damage: bytes | None
) -> None:
    out = tmp_path / "out"
    whole_run(corpus, out)
    path = sorted((out / SHARD_LISTS).iterdir())[1].resolve()
    data = path.read_bytes()
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(PublishedError, match=rf"{SHARD_LISTS}/{path.name} is (missing|damaged); run the same"):
        list(published(str(out)).shards())
    manifest = (out / MANIFEST).read_bytes()
    assert find_done(FolderOutput(out), plan(corpus, shard_bytes=1), KEY).done.all()
    whole_run(corpus, out)
    assert (out / SHARD_LISTS / path.name).read_bytes() == data
    assert (out / MANIFEST).read_bytes() == manifest
