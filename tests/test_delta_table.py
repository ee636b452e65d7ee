"""The table of a run's answers: its versions, its files and its log. Kills are in `test_killed_nights`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from concord.flows.errors import RunFolderError
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.runfolder.delta_table import (
    LOG,
    NOTES_FOLDER,
    TABLE_FOLDER,
    check_library,
    commit_run,
    has_table,
    keep_versions,
    table_state,
)
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.published import published
from concord.flows.runfolder.runfolder import find_done, publish
from concord.schemas.document import Document
from concord.schemas.requests import LabelRequest, TableForm
from concord.schemas.run import RunKey
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.files import OutputError, create_whole
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import LABELS, HashModel, consistency, key_of
from tests.support.small_nights import in_table, predicted

CONSTRAINTS = consistency()
OTHER_CONSTRAINTS = LabelConsistency(PairCounts.of(synthesize(10, seed=6, kind="news"), LABELS))
KEYS = [key_of(CONSTRAINTS, engine="viterbi", options={}, seed=seed) for seed in range(3)]
NEWS = list(synthesize(6, seed=1, kind="news"))


def label(
    out: Path, documents: Sequence[Document], key: RunKey, constraints: ConstraintSet = CONSTRAINTS
) -> FolderOutput:
    """A published run of the documents, one of them a shard."""
    corpus = out.parent / "corpus"
    write_corpus(documents, corpus, source="test", overwrite=True)
    output, shards = FolderOutput(out), plan(corpus, shard_bytes=1)
    markers = find_done(output, shards, key)
    for shard in markers.todo():
        store = output.storage.below(STORE)
        markers.add(label_shard(shard, model=HashModel(), constraints=constraints, key=key, store=store).marker)
    publish(output, markers)
    return output


def nights(out: Path, count: int) -> list[int]:
    """The table's version after each of some nights with other documents."""
    return [commit_run(label(out, NEWS[: 6 - night % 4], KEYS[night % 3])) for night in range(count)]


def rows(out: Path, version: int | None = None) -> dict[str, Any]:
    """The rows of a version by document, as another program has them."""
    table = DeltaTable(out / TABLE_FOLDER, version=version).to_pyarrow_table()
    return {row["doc_id"]: row for row in table.to_pylist()}


def files(out: Path) -> set[str]:
    return {path.name for path in (out / TABLE_FOLDER).glob("*.parquet")}


def test_each_version_has_the_answers_of_its_night_and_other_programs_read_it(tmp_path: Path) -> None:
    out, expected = tmp_path / "out", list[dict[str, Any]]()
    for night in range(13):
        output = label(out, NEWS[: 6 - night % 4], KEYS[night % 3])
        assert commit_run(output) == night
        expected.append(in_table(predicted(output)))
    for night, own in enumerate(expected):
        assert rows(out, night) == own
    assert rows(out) == expected[-1]


def test_a_night_without_a_changed_answer_makes_no_version_and_four_rewrite_their_files(tmp_path: Path) -> None:
    """Other weights change penalties, bounds and digests of every row of predictions, and no answer of Viterbi's."""
    out, documents = tmp_path / "out", list(synthesize(12, seed=1, kind="news"))
    assert not has_table(FolderOutput(out).storage)
    other = key_of(OTHER_CONSTRAINTS, engine="viterbi", options={})
    assert commit_run(label(out, documents, KEYS[0])) == 0
    first, before = files(out), dict(published(str(out)).files_in(PREDICTIONS))
    assert len(first) == len(before) == 12
    assert commit_run(label(out, documents, other, OTHER_CONSTRAINTS)) == 0
    after = dict(published(str(out)).files_in(PREDICTIONS))
    assert not set(before.values()) & set(after.values()), "all predictions were written again"
    assert files(out) == first
    texts = synthesize(4, seed=2, kind="news")
    documents[2:10:2] = [replace(new, doc_id=documents[2 + 2 * place].doc_id) for place, new in enumerate(texts)]
    assert commit_run(label(out, documents, KEYS[1])) == 1
    assert len(files(out) - first) == 4
    assert len(table_state(FolderOutput(out).storage).files.keys() & first) == 8
    assert commit_run(label(out, documents, other, OTHER_CONSTRAINTS)) == 1


def test_equal_runs_make_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        nights(tmp_path / name / "out", 12)
    assert files(tmp_path / "one" / "out") == files(tmp_path / "two" / "out")  # their names are digests


def test_what_says_which_file_has_which_answers_only_saves_work(tmp_path: Path) -> None:
    out = tmp_path / "out"
    output = label(out, NEWS, KEYS[0])
    assert commit_run(output) == 0
    place = min((out / NOTES_FOLDER).iterdir())
    for damaged in (b"", None):
        place.unlink() if damaged is None else place.write_bytes(damaged)
        assert commit_run(output) == 0


def test_columns_that_come_and_go_are_columns_of_their_versions(tmp_path: Path) -> None:
    """As a table of an earlier concord, which had all columns of predictions, goes on with the answers alone."""
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("concord.flows.runfolder.delta_table.PREDICTION_COLUMNS", frozenset[str]())
        assert commit_run(label(out, NEWS, KEYS[0])) == 0
    assert "gap" in DeltaTable(out / TABLE_FOLDER).to_pyarrow_table().column_names
    shutil.rmtree(out / NOTES_FOLDER)
    assert commit_run(label(out, NEWS[:4], KEYS[0])) == 1
    assert rows(out) == in_table(predicted(FolderOutput(out)))


def test_the_last_versions_stay_and_files_of_earlier_ones_go(tmp_path: Path) -> None:
    out = tmp_path / "out"
    nights(out, 14)
    storage, expected = FolderOutput(out).storage, {version: rows(out, version) for version in range(14)}
    kept = keep_versions(storage, 3)
    assert (kept.first, kept.last) == (11, 13)
    assert {version: rows(out, version) for version in range(11, 14)} == {v: expected[v] for v in range(11, 14)}
    assert files(out) == {path for version in range(11, 14) for path in table_state(storage, version).files}
    with pytest.raises(RunFolderError, match="move that folder away"):
        table_state(storage, 4)
    assert keep_versions(storage, 3).removed == 0
    assert nights(out, 1) == [14]


def test_without_a_table_nothing_can_be_removed_from_it(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="--table delta"):
        keep_versions(FolderOutput(tmp_path).storage, 3)


def test_a_damaged_log_is_told(tmp_path: Path) -> None:
    out = tmp_path / "out"
    nights(out, 2)
    (out / TABLE_FOLDER / LOG / f"{1:020d}.json").write_text('{"add": 3}\n')
    with pytest.raises(RunFolderError, match=r"_delta_log is damaged .*field 'add'.*move that folder away"):
        commit_run(label(out, NEWS, KEYS[0]))


def test_of_two_writers_of_one_file_the_second_is_refused(tmp_path: Path) -> None:
    create_whole(tmp_path / "a", b"one")
    create_whole(tmp_path / "a", b"one")
    with pytest.raises(OutputError):
        create_whole(tmp_path / "a", b"two")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"one")]


@pytest.mark.parametrize("there", [False, True])
def test_without_the_library_a_line_says_what_to_install_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    out = tmp_path / "out"
    if there:
        nights(out, 1)
    monkeypatch.setattr("concord.flows.runfolder.delta_table.find_spec", lambda name: None)
    request = LabelRequest(
        corpus=str(tmp_path / "corpus"), model="no model", out=str(out), table=None if there else TableForm.DELTA
    )
    with pytest.raises(RunFolderError, match=r"pip install 'concord-nlp\[delta\]'"):
        label_corpus(request)
    with pytest.raises(RunFolderError, match="move that folder away"):
        check_library(FolderOutput(out).storage)


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
