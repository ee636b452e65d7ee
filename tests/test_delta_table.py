"""The table of a run's predictions: what its log says, by a plain reader. Kills are in `test_killed_nights`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.delta_table import TABLE_FOLDER, commit_run, has_table, keep_versions, table_state
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.published import published
from concord.flows.runfolder.runfolder import find_done, publish
from concord.schemas.document import Document
from concord.schemas.run import RunKey
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.delta.log import (
    Commit,
    DataFile,
    DeltaLogError,
    TableState,
    after,
    checkpoint,
    commit_lines,
    commit_name,
    of_checkpoint,
    schema_string,
)
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.files import OutputError, create_whole
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import HashModel, consistency, key_of

CONSTRAINTS = consistency()
KEYS = [key_of(CONSTRAINTS, engine="viterbi", options={}, seed=seed) for seed in range(3)]
NEWS, LATER = (list(synthesize(6, seed=seed, kind="news")) for seed in (1, 2))
SCHEMA = pa.schema([("doc_id", pa.string()), ("labels", pa.list_(pa.string())), ("gap", pa.float64())])


def label(out: Path, documents: Sequence[Document], key: RunKey) -> FolderOutput:
    """A published run of the documents, two of them a shard."""
    corpus = out.parent / "corpus"
    write_corpus(documents, corpus, source="test", overwrite=True)
    output, shards = FolderOutput(out), plan(corpus, shard_bytes=1)
    markers = find_done(output, shards, key)
    for shard in markers.todo():
        store = output.storage.below(STORE)
        markers.add(label_shard(shard, model=HashModel(), constraints=CONSTRAINTS, key=key, store=store).marker)
    publish(output, markers)
    return output


def nights(out: Path, count: int) -> list[int]:
    """The table's version after each of some nights: another seed, and then fewer documents."""
    return [commit_run(label(out, NEWS[: 6 - night % 4], KEYS[night % 3])) for night in range(count)]


def rows(out: Path, version: int | None = None) -> dict[str, Any]:
    """The rows of a version by document, as whoever reads the log finds them."""
    state = table_state(FolderOutput(out).storage, version)
    tables = [pq.read_table(out / TABLE_FOLDER / path) for path in state.files]
    return {row["doc_id"]: row for table in tables for row in table.to_pylist()}


def predicted(out: Path) -> dict[str, Any]:
    run = published(str(out))
    tables = [pq.read_table(out / path) for path, _ in run.files_in(PREDICTIONS)]
    return {row["doc_id"]: row for table in tables for row in table.to_pylist()}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_version_has_the_rows_of_its_night(tmp_path: Path) -> None:
    out, wanted = tmp_path / "out", list[dict[str, Any]]()
    for night in range(5):
        version = commit_run(label(out, NEWS[: 6 - night], KEYS[night % 3]))
        assert version == night
        wanted.append(predicted(out))
    for night, own in enumerate(wanted):
        assert rows(out, night) == own
    assert rows(out) == wanted[-1]


def test_a_night_without_a_change_makes_no_version(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert not has_table(FolderOutput(out).storage)
    assert [commit_run(label(out, NEWS, KEYS[0])) for _ in range(3)] == [0, 0, 0]
    assert has_table(FolderOutput(out).storage)


def test_equal_runs_make_equal_tables(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        nights(tmp_path / name / "out", 12)
    assert contents(tmp_path / "one" / "out" / TABLE_FOLDER) == contents(tmp_path / "two" / "out" / TABLE_FOLDER)


def test_files_of_documents_that_stay_are_not_added_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    commit_run(label(out, NEWS, KEYS[0]))
    commit_run(label(out, NEWS[:5], KEYS[0]))
    actions = [json.loads(line) for line in (out / TABLE_FOLDER / commit_name(1)).read_text().splitlines()]
    removed = [action for action in actions if "remove" in action]
    added = [action for action in actions if "add" in action]
    assert 1 <= len(removed) < 6
    assert len(added) < len(removed)


def test_the_last_versions_stay_and_files_of_earlier_ones_go(tmp_path: Path) -> None:
    out = tmp_path / "out"
    nights(out, 14)
    storage, wanted = FolderOutput(out).storage, {version: rows(out, version) for version in range(14)}
    kept = keep_versions(storage, 3)
    assert (kept.first, kept.last) == (11, 13)
    assert {version: rows(out, version) for version in range(11, 14)} == {v: wanted[v] for v in range(11, 14)}
    there = {path.name for path in (out / TABLE_FOLDER).glob("*.parquet")}
    assert there == {path for version in range(11, 14) for path in table_state(storage, version).files}
    with pytest.raises(RunFolderError, match="missing"):
        table_state(storage, 4)
    assert keep_versions(storage, 3).removed == 0
    assert nights(out, 1) == [14]


def test_without_a_table_nothing_can_be_removed_from_it(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="--table delta"):
        keep_versions(FolderOutput(tmp_path).storage, 3)


def test_a_damaged_log_is_told_with_its_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    nights(out, 2)
    (out / TABLE_FOLDER / commit_name(1)).write_text('{"add": 3}\n')
    with pytest.raises(RunFolderError, match=r"00000000000000000001\.json.*move that folder away"):
        commit_run(label(out, NEWS, KEYS[0]))


def test_of_two_writers_of_one_file_the_second_is_refused(tmp_path: Path) -> None:
    create_whole(tmp_path / "a", b"one")
    create_whole(tmp_path / "a", b"one")
    with pytest.raises(OutputError):
        create_whole(tmp_path / "a", b"two")
    assert contents(tmp_path) == {"a": b"one"}


@given(st.lists(st.sets(st.integers(0, 12), max_size=8), min_size=1, max_size=25))
def test_the_log_gives_back_each_state(states: list[set[int]]) -> None:
    state = TableState()
    for chosen in states:
        files = [DataFile(f"{number}.parquet", number, "{}") for number in sorted(chosen)]
        lines = commit_lines(state, Commit(files, SCHEMA, {"run": "r"}))
        if lines is None:
            assert state.version >= 0
            assert {file.path for file in files} == state.files.keys()
            continue
        state = after(state, lines, source="commit")
        assert {file.path for file in files} == state.files.keys()
        assert of_checkpoint(checkpoint(state), state.version, source="checkpoint") == state
        assert commit_lines(state, Commit(files, None, {"run": "s"})) is None


def test_a_type_that_delta_has_no_name_for_is_refused() -> None:
    with pytest.raises(DeltaLogError, match="uint8"):
        schema_string(pa.schema([("a", pa.uint8())]))


def test_other_programs_read_every_version(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    out, wanted = tmp_path / "out", list[dict[str, Any]]()
    for night in range(13):
        commit_run(label(out, NEWS[: 6 - night % 4], KEYS[night % 3]))
        wanted.append(predicted(out))
    for version, own in enumerate(wanted):
        table = deltalake.DeltaTable(out / TABLE_FOLDER, version=version)
        assert {row["doc_id"]: row for row in table.to_pyarrow_table().to_pylist()} == own


PAGE = Path(__file__).parents[1] / "docs" / "table.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: str(re.split(r"\W+", code)[1]))
def test_examples_of_the_page_run(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = re.split(r"\W+", code)[1]
    pytest.importorskip(package, reason=f"{package} is not installed")
    if "delta" in code:
        pytest.importorskip("deltalake", reason="deltalake is not installed")
    nights(tmp_path / "out", 2)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert len(capsys.readouterr().out) > 20
