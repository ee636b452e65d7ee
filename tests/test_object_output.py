"""A run's output in an object store: the bytes of a folder, whatever the network does; a real S3 server and memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from concord.flows.commands.doctor import WrongError, _clocks, _output
from concord.flows.errors import RunFolderError
from concord.flows.inputs.output_places import check_inputs
from concord.flows.nights.record import keep_night, read_record
from concord.flows.runfolder.delta_table import LOG, TABLE_FOLDER, commit_run, table_state
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.layout import FOLDERS, MANIFEST, SHARD_LISTS, STORE, RunOutput, foreign_files
from concord.flows.runfolder.markers import KEPT_MARKERS, Markers
from concord.flows.runfolder.object_output import KEPT, ObjectOutput
from concord.flows.runfolder.published import NothingPublishedError, published
from concord.flows.runfolder.runfolder import (
    Purpose,
    Sources,
    claim,
    find_done,
    publish,
    read_sources,
    run_output,
    write_sources,
)
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.schemas.document import Document
from concord.schemas.run import RuleStrengths, RunKey
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import read_digests
from concord.workers.labelling.kept import Reusable
from concord.workers.labelling.output import MARKERS, PREDICTIONS, TIMES
from concord.workers.labelling.shard import label_shard
from concord.workers.storage import object_storage
from concord.workers.storage.files import OutputError
from concord.workers.storage.object_storage import ObjectStorage, OvertakenError
from concord.workers.storage.storage import FolderStorage, StorageError, storage_at
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_reports import run_report
from tests.support.made_runs import HashModel, consistency, key_of
from tests.support.memory_store import memory_store, objects_below
from tests.support.s3 import KEYS, Troubles, s3_server, troubled, uri
from tests.support.seeds import blocks

KEYS_A_PART = 50
"""Names that the server gives at once in a list; as many as obstore hands on at once, and so goes on after."""
CONSTRAINTS = consistency()
KEY = key_of(CONSTRAINTS, engine="viterbi", options={})
OTHER = key_of(CONSTRAINTS, engine="viterbi", options={}, seed=1)
*NEWS, LATER = synthesize(4, seed=1, kind="news")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with patch.dict(os.environ, KEYS | {"MOTO_S3_DEFAULT_MAX_KEYS": str(KEYS_A_PART)}), s3_server() as address:
        yield address


@pytest.fixture
def on_server(server: str, request: pytest.FixtureRequest) -> str:
    """An output that is reached over the wire."""
    return uri(server, f"{abs(hash(request.node.nodeid))}/out")


@pytest.fixture
def out() -> Iterator[str]:
    with memory_store() as uri_of:
        yield uri_of("above/out")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "corpus", NEWS)


def make_corpus(folder: Path, documents: list[Document]) -> Path:
    write_corpus(documents, folder, source="test", overwrite=True)
    return folder


def label(out: RunOutput, shards: ShardTable, key: RunKey) -> int:
    """What a run does, up to publication: how many shards it had to label; then it publishes."""
    markers = find_done(out, shards, key)
    todo = markers.todo()
    store = out.storage.below(STORE)
    for shard in todo:
        done = label_shard(shard, model=HashModel(), constraints=CONSTRAINTS, key=key, store=store)
        markers.add(done.marker)
    publish(out, markers)
    return len(todo)


def whole_run(out: RunOutput, corpus: Path, key: RunKey = KEY) -> int:
    with out.exclusive():
        claim(out, Purpose.of("corpus"))
        return label(out, plan(corpus, shard_bytes=1), key)


def content(out: RunOutput) -> dict[str, bytes]:
    """All that readers see, times apart, and markers that have files of their own."""
    storage = out.storage
    names = [
        MANIFEST,
        *(f"{folder}/{name}" for folder in FOLDERS if folder != TIMES for name in storage.names(folder)),
    ]
    names += [f"{STORE}/{MARKERS}/{name}" for name in storage.names(f"{STORE}/{MARKERS}")]
    return {name: storage.read(name) or b"" for name in names}


def reference(tmp_path: Path, corpus: Path, key: RunKey = KEY) -> dict[str, bytes]:
    """What the same run writes to a folder."""
    folder = FolderOutput(tmp_path / "reference")
    whole_run(folder, corpus, key)
    return content(folder)


def leftovers(storage: ObjectStorage) -> list[str]:
    """Objects that a finished run has no use for."""
    names = [f"{STORE}/{folder}/{name}" for folder in FOLDERS for name in storage.names(f"{STORE}/{folder}")]
    return [*names, *foreign_files(storage, published(storage.uri).files())]


def test_a_run_writes_the_bytes_of_a_folder_and_the_next_one_skips_them(out: str, corpus: Path, tmp_path: Path) -> None:
    assert whole_run(run_output(out), corpus) == 3
    assert content(run_output(out)) == reference(tmp_path, corpus)
    assert whole_run(run_output(out), corpus) == 0
    assert leftovers(ObjectStorage(out)) == []
    assert len(list(ObjectStorage(out).names(TIMES))) == 3


def test_readers_of_a_run_need_only_its_uri(out: str, corpus: Path) -> None:
    with pytest.raises(NothingPublishedError, match="no whole run"):
        published(out)
    whole_run(run_output(out), corpus)
    ids = [
        name for table in published(out).tables(PREDICTIONS, PREDICTIONS_LAYOUT) for name in table["doc_id"].to_pylist()
    ]
    assert ids == [document.doc_id for document in NEWS]
    for shards, known in ((plan(corpus, shard_bytes=1), (3, 0)), (plan(corpus, shard_bytes=1)[:0], (0, 3))):
        last = last_answers(ObjectStorage(out), Markers(shards, KEY), RuleStrengths())
        assert (last.known, len(last.files)) == (Reusable.SAME, 3)
        assert (len(last.shards.digest), len(last.documents.digest)) == known


def test_of_a_file_that_is_gone_no_answers_are_taken(out: str, corpus: Path) -> None:
    whole_run(run_output(out), corpus)
    storage = ObjectStorage(out)
    storage.remove([f"{PREDICTIONS}/{min(storage.names(PREDICTIONS))}"])
    shards = plan(corpus, shard_bytes=1)
    same, gone = (last_answers(storage, Markers(own, KEY), RuleStrengths()) for own in (shards, shards[:0]))
    for shard, there in zip(shards, (0, 1, 1), strict=True):
        for last in (same, gone):
            assert len(last.find(shard.id, read_digests(shard), HashModel().labels)) == there


@pytest.mark.parametrize("change", ["a document before the others", "another key", "a document less"])
def test_the_next_run_leaves_nothing_of_the_last(out: str, corpus: Path, tmp_path: Path, change: str) -> None:
    whole_run(run_output(out), corpus)
    key = OTHER if change == "another key" else KEY
    documents = {"a document before the others": [LATER, *NEWS], "a document less": NEWS[1:]}.get(change, NEWS)
    make_corpus(corpus, documents)
    labelled = whole_run(run_output(out), corpus, key)
    assert labelled == {"a document before the others": 1, "another key": 3, "a document less": 0}[change]
    assert content(run_output(out)) == reference(tmp_path, corpus, key)
    assert leftovers(ObjectStorage(out)) == []


@pytest.mark.parametrize("seed", blocks(3))
def test_troubles_of_the_network_change_no_byte(
    server: str, on_server: str, corpus: Path, tmp_path: Path, seed: int
) -> None:
    troubles = Troubles(0.3, seed=seed)
    with troubled(server, troubles) as proxy:
        there = run_output(on_server.replace(server, proxy))
        whole_run(there, corpus)
        make_corpus(corpus, [LATER, *NEWS])
        whole_run(run_output(on_server.replace(server, proxy)), corpus)
    assert sum(troubles.met.values()) > 5
    assert content(run_output(on_server)) == reference(tmp_path, corpus)
    assert leftovers(ObjectStorage(on_server)) == []


def test_an_answer_that_is_lost_after_the_commit_is_no_failure(server: str, on_server: str, corpus: Path) -> None:
    whole_run(run_output(on_server), corpus)
    lost = Troubles(1.0, ("lost",))
    storage = ObjectStorage(on_server)
    before = storage.version(MANIFEST)
    with troubled(server, lost) as proxy:
        through = ObjectStorage(on_server.replace(server, proxy))
        with patch.object(object_storage, "MOST_RETRIES", 3), pytest.raises(OutputError, match="cannot be"):
            through.replace(MANIFEST, b"new", over=before)
    # It was done; the same call again finds it so, though it names the version before.
    assert storage.read(MANIFEST) == b"new"
    storage.replace(MANIFEST, b"new", over=before)


class EverySecond:
    """Has the answer to the first request, and to every second one after it, break off in its body."""

    def __init__(self) -> None:
        self.asked = 0

    def next(self, _method: str, _path: str, /) -> str | None:
        self.asked += 1
        return "broken" if self.asked % 2 else None


ASKED: dict[str, tuple[Callable[[ObjectStorage], Any], Any]] = {
    "read": (lambda there: there.read("a/one"), b"1" * 10_000),
    "read what is not there": (lambda there: there.read("a/none"), None),
    "opened": (lambda there: there.opened("a/one").read(), b"1" * 10_000),
    "names": (lambda there: sorted(there.names("many")), [f"{n:02d}" for n in range(KEYS_A_PART + 1)]),
    "write": (lambda there: there.write("a/new", b"new"), None),
    "copy": (lambda there: there.copy("a/one", "a/other"), None),
    "remove": (lambda there: there.remove(["a/two", "a/none"]), None),
    "replace": (lambda there: there.replace("a/first", b"first", over=None), None),
    "replace what is new": (lambda there: there.replace("a/two", b"2", over=None), None),
}
"""Every kind of request, and what it gives."""


@pytest.mark.parametrize("kind", ASKED)
def test_a_request_whose_answer_breaks_off_is_sent_again(kind: str, server: str, on_server: str) -> None:
    direct, (ask, wanted) = ObjectStorage(on_server), ASKED[kind]
    direct.write("a/one", b"1" * 10_000)
    direct.write("a/two", b"2")
    if kind == "names":  # a list of two parts
        for name in wanted:
            direct.write(f"many/{name}", b"")
    chance = EverySecond()
    with troubled(server, chance) as proxy:
        assert ask(ObjectStorage(on_server.replace(server, proxy))) == wanted
    assert chance.asked > 0
    assert direct.read("a/one") == b"1" * 10_000
    left = {"write": ("a/new", b"new"), "copy": ("a/other", b"1" * 10_000), "remove": ("a/two", None)}
    if kind in left:
        name, data = left[kind]
        assert direct.read(name) == data


def test_a_request_whose_answer_always_breaks_off_ends(server: str, on_server: str) -> None:
    ObjectStorage(on_server).write("a/one", b"1")
    with (
        patch.multiple(object_storage, MOST_RETRIES=2, FIRST_WAIT=0.01),
        troubled(server, Troubles(1.0, ("broken",))) as proxy,
        pytest.raises(
            OutputError, match=r"a: cannot be listed \(.*request or response body error\); see to the bucket"
        ),
    ):
        list(ObjectStorage(on_server.replace(server, proxy)).names("a"))


def test_a_model_or_a_part_of_another_run_is_no_place_for_a_run(out: str, corpus: Path) -> None:
    """A model's manifest was written over by the run's."""
    whole_run(run_output(out), corpus)
    before = content(run_output(out))
    for folder in (*FOLDERS, STORE):
        with pytest.raises(OutputError, match=r"is inside s3:.*, where a run is"):
            whole_run(run_output(ObjectStorage(out).below(folder).uri), corpus)
    model = ObjectStorage(out).below("model")
    model.write(MANIFEST, b'{"kind": "crf", "labels": ["O"], "files": {}}')
    with pytest.raises(OutputError, match="is the folder of a model; give a place apart from it"):
        whole_run(run_output(model.uri), corpus)
    assert content(run_output(out)) == before


def test_of_two_runs_at_once_the_second_is_told_and_loses_no_work(out: str, corpus: Path, tmp_path: Path) -> None:
    slow = run_output(out)
    with slow.exclusive():
        claim(slow, Purpose.of("corpus"))
        whole_run(run_output(out), corpus, OTHER)
        with pytest.raises(OvertakenError, match=r"another run has published there.*the same command again"):
            label(slow, plan(corpus, shard_bytes=1), KEY)
    assert content(run_output(out))[MANIFEST] == reference(tmp_path / "other", corpus, OTHER)[MANIFEST]
    assert whole_run(run_output(out), corpus, KEY) == 0  # its shards are kept
    assert content(run_output(out)) == reference(tmp_path, corpus, KEY)


def test_two_runs_of_the_same_are_both_right(out: str, corpus: Path, tmp_path: Path) -> None:
    slow = run_output(out)
    with slow.exclusive():
        claim(slow, Purpose.of("corpus"))
        whole_run(run_output(out), corpus)
        assert label(slow, plan(corpus, shard_bytes=1), KEY) == 3
    assert content(run_output(out)) == reference(tmp_path, corpus)


def test_what_is_damaged_or_gone_is_made_again(out: str, corpus: Path, tmp_path: Path) -> None:
    whole_run(run_output(out), corpus)
    storage = ObjectStorage(out)
    gone = min(storage.names(PREDICTIONS))
    storage.remove([f"{PREDICTIONS}/{gone}"])
    assert whole_run(run_output(out), corpus) == 1
    assert content(run_output(out)) == reference(tmp_path, corpus)
    for damaged in (KEPT_MARKERS, SHARD_LISTS, MANIFEST):
        names = [MANIFEST] if damaged == MANIFEST else [f"{damaged}/{name}" for name in storage.names(damaged)]
        for name in names:
            storage.write(name, b"{}")
        assert whole_run(run_output(out), corpus) == 3  # no file is known to be what it was
    assert content(run_output(out)) == reference(tmp_path, corpus)


def test_shards_of_a_run_that_may_go_on_are_kept_for_days(out: str, corpus: Path) -> None:
    storage = ObjectStorage(out)
    shards = plan(corpus, shard_bytes=1)
    label_shard(shards[0], model=HashModel(), constraints=CONSTRAINTS, key=OTHER, store=storage.below(STORE))
    whole_run(run_output(out), corpus)
    assert len(list(storage.names(f"{STORE}/{PREDICTIONS}"))) == 1
    with patch("concord.flows.runfolder.object_output.KEPT", -KEPT):
        whole_run(run_output(out), corpus)
    assert list(storage.names(f"{STORE}/{PREDICTIONS}")) == []


def test_another_corpus_is_refused(out: str, corpus: Path) -> None:
    whole_run(run_output(out), corpus)
    with pytest.raises(RunFolderError, match=r"holds the predictions of corpus; give another --out"):
        claim(run_output(out), Purpose.of("elsewhere"))


def test_a_bucket_that_is_not_there_is_told_in_a_line_without_keys(server: str) -> None:
    place = f"s3://ADA:S3CRET@nowhere/out?endpoint_override={server}&scheme=http&region=us-east-1"
    assert ObjectStorage(place).read("a") is None
    with pytest.raises(OutputError) as told:
        ObjectStorage(place).write("a", b"")
    assert str(told.value).startswith("s3://nowhere/out/a: cannot be written (")
    assert "S3CRET" not in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("out", ["hdfs://name/out", "ftp://a/b", str(Path("s3://bucket/out"))])
def test_kinds_of_places_that_runs_cannot_write_to_are_refused(out: str) -> None:
    with pytest.raises(StorageError, match="give a folder, or a URI with one of s3://"):
        storage_at(out)


@pytest.mark.parametrize(
    ("out", "given", "meets"),
    [
        ("s3://b/x", "s3://b/x", True),
        ("s3://b/x/out", "s3a://KEY:SECRET@b/x?region=eu", True),
        ("s3://b/x", "s3://b/x/corpus/", True),
        ("s3://b/out", "s3://b/other", False),
        ("s3://b/out", "s3://b/out2", False),
        ("s3://b/out", "/b/out", False),
        ("s3://b/out", "models:/news@champion", False),
    ],
)
def test_an_input_is_never_written_over(out: str, given: str, meets: bool) -> None:
    if not meets:
        check_inputs(out, [given, None])
        return
    with pytest.raises(OutputError, match="would overwrite what is read") as told:
        check_inputs(out, [given])
    assert "SECRET" not in str(told.value)


def test_memory_gives_what_a_server_gives(on_server: str, out: str) -> None:
    """Tests of what is not the wire are worth what this says."""
    server, memory = ObjectStorage(on_server), ObjectStorage(out)
    for there in (server, memory):
        for name, data in (("a/one", b"1" * 10_000), ("a/two", b"2"), ("a/b/deep", b"3"), ("ab", b"4")):
            there.write(name, data)
        other = there.above()[0]
        other.write("out2/a/one", b"beside")
        for ask, wanted in ASKED.values():
            if wanted != ASKED["names"][1]:
                assert ask(there) == wanted
        read = there.version("a/one")
        there.write("a/one", b"new")
        for over in (None, read):
            with pytest.raises(OvertakenError):
                there.replace("a/one", b"newer", over=over)
        there.replace("a/one", b"newer", over=there.version("a/one"))
        with pytest.raises(OvertakenError):
            there.replace("a/gone", b"newer", over=read)
        with pytest.raises(OutputError, match="a/none: cannot be copied"):
            there.copy("a/none", "a/other")
        with pytest.raises(FileNotFoundError):
            there.opened("a/none")
        there.remove(["a/none", "a/other"])
    assert objects_below(on_server) == objects_below(out)
    for folder in ("", "a", "a/b", "none"):
        (one, two) = ([(name, file.size) for name, file in there.files(folder)] for there in (server, memory))
        assert one == two


def test_the_doctor_tries_a_store_and_leaves_nothing_there(out: str) -> None:
    storage = ObjectStorage(out)
    assert _output(storage).endswith("can be written, and writes on a condition work")
    assert "the output's storage" in _clocks(storage, "")
    assert list(storage.names("")) == []
    heedless = patch.object(ObjectStorage, "replace", lambda self, name, data, *, over: self.write(name, data))
    with heedless, pytest.raises(WrongError, match="writes over what another run has just written"):
        _output(storage)
    assert list(storage.names("")) == []


def test_a_folder_and_object_stores_are_one_to_their_users(on_server: str, out: str, tmp_path: Path) -> None:
    for storage in (FolderStorage(tmp_path), ObjectStorage(on_server), ObjectStorage(out)):
        assert (storage.read("a"), [*storage.names("b")], [*storage.names("")]) == (None, [], [])
        storage.below("b").write("c.bin", b"12")
        storage.write("b/d/e", b"3")
        assert storage.read("b/c.bin") == b"12"
        assert "c.bin" in storage.names("b")
        with storage.opened("b/c.bin") as file:
            file.seek(1)
            assert (file.read(), file.tell()) == (b"2", 2)
        storage.remove(["b/c.bin", "b/never"])
        assert storage.read("b/c.bin") is None
        sources = Sources(corpus="c", model="m", constraints=(), consistency=True)
        write_sources(storage, sources)
        assert read_sources(storage) == sources
        keep_night(storage, run_report(documents=1), tags={"mlflow.user": "ada", "host": "h"}, asked={})
        keep_night(storage, run_report(documents=2), tags={"mlflow.user": "ada", "host": "h"}, asked={})
        assert [line.documents for line in read_record(storage).nights] == [1, 2]
    assert isinstance(run_output(out), ObjectOutput)
    assert run_output(f"file://{tmp_path}/a%20b") == FolderOutput(tmp_path / "a b")


def test_a_table_in_a_store_is_that_of_a_folder(out: str, corpus: Path, tmp_path: Path) -> None:
    folder, store = FolderOutput(tmp_path / "reference"), run_output(out)
    for documents, key in ((NEWS, KEY), (NEWS[:2], KEY)):
        make_corpus(corpus, documents)
        for output in (folder, store):
            whole_run(output, corpus, key)
        assert commit_run(folder) == commit_run(store) == commit_run(run_output(out))
    files = [f"{TABLE_FOLDER}/{name}" for name in folder.storage.names(TABLE_FOLDER) if name.endswith(".parquet")]
    assert len(files) == 3
    assert all(folder.storage.read(name) == store.storage.read(name) for name in files)
    for version in (0, 1):
        assert table_state(folder.storage, version) == table_state(store.storage, version)


def test_of_two_commits_at_once_the_second_is_refused(out: str, corpus: Path) -> None:
    store = run_output(out)
    whole_run(store, corpus)
    commit = f"{TABLE_FOLDER}/{LOG}/{0:020d}.json"
    store.create(commit, b"{}")
    with pytest.raises(OvertakenError):
        store.create(commit, b'{"add": {}}')
