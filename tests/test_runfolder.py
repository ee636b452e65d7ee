"""The output folder: readers see the last whole run or the new one, whatever happens in between."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.folder_output import CURRENT, PUBLISHED, FolderOutput
from concord.flows.runfolder.layout import CORPUS, FOLDERS, MANIFEST, PUBLISHED_NAMES, STORE
from concord.flows.runfolder.locks import LOCK
from concord.flows.runfolder.markers import KEPT_MARKERS
from concord.flows.runfolder.published import PublishedError, published
from concord.flows.runfolder.runfolder import Purpose, claim, find_done, publish
from concord.schemas.columns import PREDICTIONS_LAYOUT, TEXT, table_from_documents
from concord.schemas.document import Document
from concord.schemas.run import RunKey
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.labelling.output import (
    MARKERS,
    PREDICTIONS,
    TIMES,
)
from concord.workers.storage.files import TEMPORARY, OutputError
from concord.workers.storage.sealed import DIGEST, seal, unseal
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import consistency, key_of, run

CONSTRAINTS = consistency()
KEY = key_of(CONSTRAINTS)
*NEWS, LATER = synthesize(4, seed=1, kind="news")


def make_corpus(folder: Path, documents: list[Document]) -> Path:
    write_corpus(documents, folder, source="test", overwrite=True)
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "corpus", NEWS)


def label(out: Path, corpus: Path, key: RunKey = KEY) -> tuple[ShardTable, int]:
    """What a run does, up to publication: its shards, and how many it had to label."""
    claim(FolderOutput(out), Purpose.of(str(corpus)))
    shards = plan(corpus, shard_bytes=1)
    done = find_done(FolderOutput(out), shards, key)
    todo = done.todo()
    run(todo, out / STORE, key, CONSTRAINTS)
    return shards, len(todo)


def whole_run(out: Path, corpus: Path, key: RunKey = KEY) -> int:
    """A run to its end: how many shards it had to label."""
    with FolderOutput(out).exclusive():
        shards, labelled = label(out, corpus, key)
        publish(FolderOutput(out), find_done(FolderOutput(out), shards, key))
    return labelled


def seen(out: Path) -> dict[str, bytes]:
    """What a reader finds who looks for files by name, times apart."""
    named = [
        *(path for folder in FOLDERS if folder != TIMES for path in out.glob(f"{folder}/*.parquet")),
        out / MANIFEST,
    ]
    found = [path for path in named if path.exists()]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


def content(out: Path) -> dict[str, bytes]:
    """All that must not depend on how the runs went, hidden files too; the number of the published folder apart."""
    files = [
        path for path in out.rglob("*") if path.is_file() and TIMES not in path.parts and CURRENT not in path.parts
    ]
    names = {path: path.relative_to(out).as_posix() for path in files if KEPT_MARKERS not in path.parts}
    hidden = {name: path.read_bytes() for path, name in names.items() if not name.startswith(PUBLISHED)}
    return hidden | seen(out)


def test_a_whole_run_is_seen_by_every_kind_of_reader(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert whole_run(out, corpus) == 3
    ids = [document.doc_id for document in NEWS]
    assert [
        i for path in sorted((out / PREDICTIONS).glob("*.parquet")) for i in pq.read_table(path)["doc_id"].to_pylist()
    ] == ids
    assert pq.read_table(out / PREDICTIONS)["doc_id"].to_pylist() == ids
    assert ds.dataset(out / PREDICTIONS).to_table()["doc_id"].to_pylist() == ids
    run_seen = published(str(out))
    assert [i for t in run_seen.tables(PREDICTIONS, PREDICTIONS_LAYOUT) for i in t["doc_id"].to_pylist()] == ids
    assert (run_seen.unfinished, run_seen.manifest.totals.documents) == (0, 3)
    assert len(list((out / TIMES).glob("*.parquet"))) == 3
    files = run_seen.files()
    assert len(files) == 4, "and the list of them"
    assert {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in files} == files
    assert [(s.place.file, s.place.first_row, s.place.rows) for s in run_seen.shards()] == [
        ("part-00000.parquet", first, 1) for first in range(3)
    ]


def test_a_run_that_does_not_come_to_its_end_takes_nothing_away(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole_run(out, corpus)
    before = seen(out)
    make_corpus(corpus, [*NEWS, LATER])
    with FolderOutput(out).exclusive():
        claim(FolderOutput(out), Purpose.of(str(corpus)))
        find_done(FolderOutput(out), plan(corpus, shard_bytes=1), KEY)
    assert seen(out) == before
    with FolderOutput(out).exclusive():
        label(out, corpus, key_of(CONSTRAINTS, seed=3))
    assert seen(out) == before
    assert published(str(out)).unfinished == 4
    whole_run(out, corpus)
    assert published(str(out)).manifest.totals.documents == 4


def test_the_same_run_again_changes_nothing_at_all(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole_run(out, corpus)
    before = {path: path.lstat().st_ctime_ns for path in out.rglob("*") if path.name != ".lock"}
    assert whole_run(out, corpus) == 0
    assert {path: path.lstat().st_ctime_ns for path in out.rglob("*") if path.name != ".lock"} == before


def test_a_name_stands_for_the_same_bytes_in_the_old_run_and_in_the_new_one(corpus: Path, tmp_path: Path) -> None:
    """So a reader that lists the one and opens the other never mixes them."""
    out = tmp_path / "out"
    states = []
    for key in (KEY, key_of(CONSTRAINTS, seed=1), key_of(CONSTRAINTS, engine="viterbi", options={})):
        whole_run(out, corpus, key)
        states.append(seen(out))
    (corpus / "part-00000.parquet").rename(corpus / "other.parquet")
    assert whole_run(out, corpus, key) == 0
    states.append(seen(out))
    for i, old in enumerate(states):
        for new in states[i + 1 :]:
            assert [name for name in old.keys() & new.keys() if old[name] != new[name]] in ([], [MANIFEST])
    assert not states[0].keys() & states[1].keys() - {MANIFEST}


@pytest.mark.parametrize("name", ["predictions", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "remove", "replace"])
def test_what_readers_see_is_mended(corpus: Path, tmp_path: Path, name: str, damage: str) -> None:
    """A flipped byte in a prediction is in the store as well: that shard alone is labelled again."""
    out = tmp_path / "out"
    whole_run(out, corpus)
    good = content(out)
    path = out / name if name == MANIFEST else min((out / name).iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    if damage == "flip":
        path.write_bytes(data)
    else:
        path.unlink() if name == PREDICTIONS else (out / CURRENT / name).unlink()
        if damage == "replace":
            (out / CURRENT / path.relative_to(out)).write_bytes(data)
    with pytest.raises(PublishedError, match=r"damaged|missing|no whole run"):
        list(published(str(out)).tables(PREDICTIONS, PREDICTIONS_LAYOUT))
    assert whole_run(out, corpus) == (1 if (name, damage) == (PREDICTIONS, "flip") else 0)
    assert content(out) == good


def test_a_folder_without_a_whole_run_is_refused(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with FolderOutput(out).exclusive():
        label(out, corpus)
    for uri in (str(out), f"file://{out}", str(corpus)):
        with pytest.raises(PublishedError, match=r"no manifest\.json, so there is no whole run"):
            published(uri)
    whole_run(out, corpus)
    assert published(f"file://{out}").manifest.totals.documents == 3


def test_what_killed_workers_left_and_what_no_run_needs_any_more_goes(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pq.write_table(table_from_documents([LATER]), corpus / "later.parquet")
    assert whole_run(out, corpus) == 4
    (out / STORE / PREDICTIONS / f"{TEMPORARY}half").write_bytes(b"half")
    assert whole_run(out, corpus) == 0
    (corpus / "later.parquet").unlink()
    assert whole_run(out, corpus) == 0
    for folder in (PREDICTIONS, TIMES):
        assert len(list((out / STORE / folder).iterdir())) == 3
    assert list((out / STORE / MARKERS).iterdir()) == [], "markers of what is published stand in one file"
    assert len(list((out / PREDICTIONS).iterdir())) == 3


def test_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        FolderOutput(tmp_path / "out").exclusive(),
        pytest.raises(RunFolderError, match="another run"),
        FolderOutput(tmp_path / "out").exclusive(),
    ):
        pass
    with FolderOutput(tmp_path / "out").exclusive():
        pass


def test_another_corpus_is_kept_out_of_a_folder_with_work_in_it(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    claim(FolderOutput(out), Purpose.of("mistyped"))
    with FolderOutput(out).exclusive():
        label(out, corpus)
    with pytest.raises(RunFolderError, match=f"holds the predictions of {corpus}"):
        claim(FolderOutput(out), Purpose.of("elsewhere"))
    whole_run(out, corpus)
    shutil.rmtree(out / STORE)
    with pytest.raises(RunFolderError, match=f"holds the predictions of {corpus}"):
        claim(FolderOutput(out), Purpose.of("elsewhere"))


@pytest.mark.parametrize("name", PUBLISHED_NAMES)
def test_what_another_program_put_there_is_left_alone(corpus: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "out" / name).mkdir(parents=True)
    with pytest.raises(RunFolderError, match=f"{name}: not written by this version"):
        whole_run(tmp_path / "out", corpus)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]


def test_a_file_system_without_hard_links_gets_copies(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    whole_run(tmp_path / "linked", corpus)
    monkeypatch.setattr(os, "link", refuse)
    whole_run(tmp_path / "copied", corpus)
    assert seen(tmp_path / "copied") == seen(tmp_path / "linked")
    assert whole_run(tmp_path / "copied", corpus) == 0


def test_a_seal_is_broken_by_any_change() -> None:
    content = {"b": [1, 2.5, "inf", None], "a": {"x": "é"}}
    data = seal(content)
    assert unseal(data) == content
    assert unseal(json.dumps(json.loads(data)).encode()) == content
    for place in range(len(data) - 1):
        bad = bytearray(data)
        bad[place] ^= 1
        changed = unseal(bytes(bad))
        assert changed is None or (changed == content and chr(data[place]).isspace())
    for other in (b"", b"null", b"[1]", b"{}", b"\xff", b"[" * 100_000):
        assert unseal(other) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("digest", "a", "z")), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != DIGEST), VALUES, max_size=4))
def test_a_seal_is_the_digest_of_the_rest(content: dict[str, Any]) -> None:
    data = seal(content)
    digest = json.loads(data)[DIGEST]
    rest = json.dumps(content, indent=1, sort_keys=True) + "\n"
    assert digest == hashlib.sha256(rest.encode()).hexdigest()
    assert data.decode() == json.dumps(content | {DIGEST: digest}, indent=1, sort_keys=True) + "\n"
    assert unseal(data) == content


def test_a_lock_that_is_a_link_keeps_its_target(tmp_path: Path) -> None:
    """It was opened for writing, which emptied whatever it led to; a second name of a file was emptied, too."""
    (tmp_path / "thesis").write_text("all of it")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOCK).symlink_to(tmp_path / "thesis")
    with (
        pytest.raises(RunFolderError, match=r"\.lock: a symbolic link.*; remove it"),
        FolderOutput(tmp_path / "out").exclusive(),
    ):
        pass
    (tmp_path / "out" / LOCK).unlink()
    os.link(tmp_path / "thesis", tmp_path / "out" / LOCK)
    with FolderOutput(tmp_path / "out").exclusive():
        pass
    assert (tmp_path / "thesis").read_text() == "all of it"


@pytest.mark.parametrize("target", ["/etc", f"{PUBLISHED}/last", f"{PUBLISHED}/0000001\u0661", "9" * 200, "."])
def test_a_link_to_no_run_is_mended(corpus: Path, tmp_path: Path, target: str) -> None:
    out = tmp_path / "out"
    whole_run(out, corpus)
    good = seen(out)
    (out / CURRENT).unlink()
    (out / CURRENT).symlink_to(target)
    with pytest.raises(PublishedError, match=r"no manifest\.json"):
        published(str(out))
    assert whole_run(out, corpus) == 0
    assert seen(out) == good
    assert [path.name for path in (out / PUBLISHED).iterdir()] == ["00000002"]


@pytest.mark.parametrize("place", ["predictions/mine.parquet", "_rejects/notes.txt", f"{PUBLISHED}/backup"])
def test_what_is_not_concords_is_named_and_kept(corpus: Path, tmp_path: Path, place: str) -> None:
    """Readers would take it for predictions, and the next run would delete it."""
    out = tmp_path / "out"
    whole_run(out, corpus)
    (out / place).write_text("mine")
    (out / place).with_name(".DS_Store").write_text("left out by readers of Parquet")
    with pytest.raises(RunFolderError, match=f"{place}: not written by concord.*; move it away"):
        whole_run(out, corpus, key_of(CONSTRAINTS, seed=4))
    assert (out / place).read_text() == "mine"
    (out / place).unlink()
    assert whole_run(out, corpus, key_of(CONSTRAINTS, seed=4)) == 3


def test_a_file_of_an_earlier_run_beside_the_predictions_goes(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole_run(out, corpus)
    good = seen(out)
    (out / PREDICTIONS / f"{7:08d}-{'ab' * 8}.parquet").write_bytes(b"stale")
    assert whole_run(out, corpus) == 0
    assert seen(out) == good


def test_a_folder_copied_without_its_links_is_told_how_to_go_on(corpus: Path, tmp_path: Path) -> None:
    whole_run(tmp_path / "out", corpus)
    copy = shutil.copytree(tmp_path / "out", tmp_path / "copy")  # as cp -rL does
    with pytest.raises(RunFolderError, match=r"copied without its links \(cp -rL\); delete .*, or copy with cp -a"):
        whole_run(copy, corpus)
    for name in (*PUBLISHED_NAMES, CURRENT, PUBLISHED):
        shutil.rmtree(copy / name) if (copy / name).is_dir() else (copy / name).unlink()
    assert whole_run(copy, corpus) == 0
    assert seen(copy) == seen(tmp_path / "out")


def test_a_corpus_that_is_misread_is_not_believed(corpus: Path, tmp_path: Path) -> None:
    """One letter of its name was another: the folder was held to be of a corpus that does not exist."""
    out = tmp_path / "out"
    whole_run(out, corpus)
    good = (out / CORPUS).read_bytes()
    (out / CORPUS).write_bytes(good.replace(b"corpus", b"corpuz").replace(b'"corpuz": ', b'"corpus": '))
    assert whole_run(out, corpus) == 0
    assert (out / CORPUS).read_bytes() == good


def test_a_folder_below_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(TEXT)
    with (
        pytest.raises(OutputError, match=r"file/out: cannot be written \(Not a directory\)"),
        FolderOutput(tmp_path / "file" / "out").exclusive(),
    ):
        pass
