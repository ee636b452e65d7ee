"""The feed of changes against plain loops over predictions: random nights, consumers that merge.

Kills are in `test_killed_nights`.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.errors import RunFolderError
from concord.flows.nights.record import read_record
from concord.flows.runfolder import feed
from concord.flows.runfolder.delta_table import TABLE_FOLDER, commit_run
from concord.flows.runfolder.feed_reader import feed_files, keep_changes
from concord.flows.runfolder.layout import FEED_FOLDER, STAGED, RunOutput
from concord.flows.runfolder.published import PublishedError
from concord.flows.runfolder.runfolder import run_output
from concord.predictions import read_predictions
from concord.schemas.changes import AddedChanges, ChangeCause, ChangeCounts, ChangeKind, Why
from concord.schemas.corrections import Correction
from concord.schemas.feed import CHANGES_SCHEMA
from concord.schemas.run import RuleStrengths, Strength
from concord.workers.corpus.correction_file import CorrectionFile
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.drift.changes import TwoRuns
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import key_of
from tests.support.runs_here import label, stay_here
from tests.support.small_nights import (
    CONSTRAINTS,
    WORDS,
    Night,
    Row,
    State,
    answers,
    merged,
    predicted,
    read,
    rows_of,
)


def expected(before: State, after: State) -> dict[str, str]:
    """What happened to each document, by a plain loop."""
    found = dict.fromkeys(before.keys() - after.keys(), "gone") | dict.fromkeys(after.keys() - before.keys(), "new")
    for doc_id in before.keys() & after.keys():
        old, new = before[doc_id], after[doc_id]
        if (old["tokens"], old["sentence_starts"]) != (new["tokens"], new["sentence_starts"]):
            found[doc_id] = "text"
        elif old["labels"] != new["labels"]:
            found[doc_id] = "answer"
    return found


WORDED = st.lists(st.sampled_from(WORDS), max_size=4)
CORPUS = st.lists(st.tuples(st.integers(0, 7).map(lambda n: f"doc-{n}"), WORDED), min_size=1, max_size=9)
NIGHT = st.tuples(st.one_of(CORPUS, st.just(rows_of(1, 2, 3)), st.just(rows_of(2, 3, 4))), st.integers(0, 1))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NIGHT, min_size=2, max_size=6), st.sampled_from([1, 60, 10_000]), st.integers(1, 3))
def test_whatever_the_nights_a_consumer_has_the_predictions(
    tmp_path: Path, nights: list[tuple[list[Row], int]], shard_bytes: int, parts: int
) -> None:
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    out, states = run_output(str(tmp_path / "out")), [dict[str, Any]()]
    with patch.object(feed, "part_count", lambda _: parts):
        for rows, model in nights:
            before = states[-1]
            added = Night(rows, model, shard_bytes=shard_bytes).into(out, tmp_path)
            now = predicted(out)
            wanted = expected(before, now)
            if added is None:
                assert not wanted
                states[-1] = now
                continue
            states.append(now)
            assert added.counts == ChangeCounts(**{kind: list(wanted.values()).count(kind) for kind in ChangeKind})
            assert {row["doc_id"]: row["what"] for row in read(out)} == wanted
            assert answers(now) == merged(out)
    first = feed_files(out.storage)[0].run if feed_files(out.storage) else None
    for since in range(len(states) - 1 if first == 1 else 0):
        found = {row["doc_id"]: row for row in read(out, since)}
        assert {doc_id: row["what"] for doc_id, row in found.items()} == expected(states[since], states[-1])
        for doc_id, row in found.items():
            assert row["labels"] == states[-1].get(doc_id, {}).get("labels")
            assert row["labels_before"] == states[since].get(doc_id, {}).get("labels")


def test_a_run_that_changes_nothing_adds_nothing(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    assert Night(rows_of(1, 2)).into(out, tmp_path) == AddedChanges(run=1, since=0, counts=ChangeCounts(new=2))
    assert Night(rows_of(1, 2)).into(out, tmp_path) is None
    assert Night(rows_of(1, 2), seed=1).into(out, tmp_path) is None, "other files of the same answers"
    assert read_predictions(tmp_path / "out").changes_since(1).schema == CHANGES_SCHEMA
    assert len(read_predictions(tmp_path / "out").changes_since(1)) == 0
    assert Night(rows_of(1)).into(out, tmp_path) == AddedChanges(run=2, since=1, counts=ChangeCounts(gone=1))
    assert not list(out.storage.names(STAGED))


def test_a_change_and_its_way_back_are_no_change(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    for rows in (rows_of(1, 2, 3), [*rows_of(1), *rows_of(2, words=1)], rows_of(1, 2, 4)):
        Night(rows).into(out, tmp_path)
    assert [(row["doc_id"], row["what"], row["run"], row["since"]) for row in read(out, 1)] == [
        ("doc-3", "gone", 2, 1),
        ("doc-4", "new", 3, 1),
    ]


def test_equal_nights_make_equal_bytes_in_whatever_order_shards_are_done(tmp_path: Path) -> None:
    nights = [Night(rows_of(1, 2, 3)), Night(rows_of(2, 3, 4), model=1), Night(rows_of(2, words=3))]
    for name in ("forwards", "backwards"):
        (tmp_path / name).mkdir()
        for night in nights:
            replace(night, backwards=name == "backwards").into(
                run_output(str(tmp_path / name / "out")), tmp_path / name
            )
    one, two = (sorted((tmp_path / n / "out" / FEED_FOLDER).iterdir()) for n in ("forwards", "backwards"))
    assert [path.name for path in one] == [path.name for path in two]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert len(one) == 3


# Causes


def whys(out: RunOutput) -> dict[str, list[tuple[str, str | None]]]:
    return {row["doc_id"]: [(one["cause"], one["detail"]) for one in row["why"]] for row in read(out)}


def test_a_document_that_becomes_a_reject_is_gone_with_its_reason(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    Night(rows_of(1, 2, 3)).into(out, tmp_path)
    Night([*rows_of(1), ("doc-2", []), *rows_of(1)]).into(out, tmp_path)
    assert whys(out) == {"doc-2": [("reject", "document has no tokens")], "doc-3": [("row", None)]}


def test_answers_change_by_what_the_runs_differ_in(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    Night(rows_of(*range(6))).into(out, tmp_path)
    added = Night(rows_of(*range(6)), model=1, seed=2).into(out, tmp_path)
    assert added is not None
    assert added.counts.answer
    assert set(map(tuple, whys(out).values())) == {(("model", None), ("settings", "seed"))}


def test_a_corrected_document_says_so(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    Night(rows_of(1, 2)).into(out, tmp_path)
    row = predicted(out)["doc-1"]
    kind = "LOC" if row["labels"][0] != "B-LOC" else "PER"
    corrections = CorrectionFile("made up", {"doc-1": (Correction(0, 1, kind),)})
    Night(rows_of(1, 2), corrections=corrections).into(out, tmp_path)
    assert whys(out) == {"doc-1": [("correction", None)]}


def strengths(**weights: tuple[str, float]) -> RuleStrengths:
    return RuleStrengths(strengths=tuple(Strength(name=n, form=f, weights=(w,)) for n, (f, w) in weights.items()))


def test_constraints_are_told_by_name_where_they_have_rows_in_the_document() -> None:
    key = key_of(CONSTRAINTS, engine="viterbi", options={})
    old = strengths(a=("x", 1.0), b=("x", 1.0), c=("x", 1.0))
    new = strengths(b=("x", 2.0), c=("y", 1.0), d=("x", 1.0))
    own = TwoRuns.of(2, 1, (key, old), (key, new)).causes
    assert [cause.cause for cause in own] == [
        ChangeCause(Why.ADDED, "d"),
        ChangeCause(Why.REMOVED, "a"),
        ChangeCause(Why.REWEIGHED, "b (1 → 2)"),
        ChangeCause(Why.REWRITTEN, "c"),
    ]
    assert [cause.cause.detail for cause in own if cause.touches({"a", "c"})] == ["a", "c"]
    assert all(cause.touches(None) for cause in own)


# What is lost, and damaged


def test_who_comes_too_late_is_told_to_read_in_full(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    for numbers in ((1, 2), (2, 3), (3, 4), (4, 5)):
        Night(rows_of(*numbers)).into(out, tmp_path)
    kept = keep_changes(out.storage, 2)
    assert (kept.first, kept.last, kept.removed) == (3, 4, 2)
    assert {row["doc_id"] for row in read(out, 2)} == {"doc-2", "doc-3", "doc-4", "doc-5"}
    with pytest.raises(RunFolderError, match="since run 1 are no longer there, those since run 2 are; read the pred"):
        read(out, 1)
    with pytest.raises(RunFolderError, match="no run 9"):
        read(out, 9)
    added = Night(rows_of(5, 6)).into(out, tmp_path)
    assert added is not None
    assert added.run == 5, "numbers go on"
    assert keep_changes(out.storage, 10).removed == 0


def test_a_lost_feed_in_between_is_no_silent_gap(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    for numbers in ((1, 2), (2, 3), (3, 4)):
        Night(rows_of(*numbers)).into(out, tmp_path)
    out.storage.remove([feed_files(out.storage)[1].path])
    with pytest.raises(RunFolderError, match="read the predictions in full"):
        read(out, 0)
    assert [row["run"] for row in read(out, 2)] == [3, 3]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    Night(rows_of(1, 2)).into(out, tmp_path)
    path = feed_files(out.storage)[0].path
    (tmp_path / "out" / path).write_bytes(b"PAR1")
    with pytest.raises(PublishedError, match=f"{path} is damaged; read the predictions in full"):
        read(out)


def test_where_the_last_run_is_damaged_the_feed_begins_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run_output(str(tmp_path / "out"))
    Night(rows_of(1, 2, 3)).into(out, tmp_path)
    for path in (tmp_path / "out" / PREDICTIONS).iterdir():
        path.unlink()
    added = Night(rows_of(2, 3, 4), model=1).into(out, tmp_path)
    assert added == AddedChanges(run=2, since=0, counts=ChangeCounts(new=3))
    assert "the feed of changes begins anew" in capsys.readouterr().err
    assert merged_from_scratch(out) == answers(predicted(out))
    with pytest.raises(RunFolderError, match="run 2 could not be compared"):
        read(out, 0)


def merged_from_scratch(out: RunOutput) -> State:
    return {row["doc_id"]: {"labels": row["labels"], "entities": row["entities"]} for row in read(out)}


def test_a_folder_from_before_there_was_a_feed_begins_with_what_changes(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    Night(rows_of(1, 2)).into(out, tmp_path)
    shutil.rmtree((tmp_path / "out" / FEED_FOLDER).resolve())
    (tmp_path / "out" / FEED_FOLDER).unlink()
    with pytest.raises(RunFolderError, match="no feed of changes"):
        read(out)
    assert Night(rows_of(1, 2)).into(out, tmp_path) is None
    added = Night(rows_of(1, 3)).into(out, tmp_path)
    assert added == AddedChanges(run=2, since=1, counts=ChangeCounts(new=1, gone=1))


# Consumers


PAGE = Path(__file__).parents[1] / "docs" / "table.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
MERGES = [code for code in EXAMPLES if "def merge" in code]


def random_nights(count: int) -> Iterator[Night]:
    """Nights of a dozen documents that come, go, change and come back, under two models; some are rejects."""
    chance, texts = random.Random(7), dict.fromkeys(range(12), 0)
    for _ in range(count):
        for doc in chance.sample(range(12), 4):
            texts[doc] = chance.choice((0, 0, 1, 2, -1, -2))
        rows = [row for doc, words in texts.items() if words >= 0 for row in rows_of(doc, words=words)]
        yield Night([*rows, *((f"doc-{doc}", []) for doc, words in texts.items() if words == -1)], chance.randrange(2))


def plain(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {row["doc_id"]: list(row["labels"]) for row in rows}


@pytest.mark.parametrize("code", MERGES, ids=lambda code: str(code.split()[1]))
def test_a_consumer_that_merges_twelve_nights_has_the_table_of_a_full_read(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = pytest.importorskip(code.split()[1])
    monkeypatch.chdir(tmp_path)
    out, names, done = run_output("out"), dict[str, Any](), 0
    for number, night in enumerate(random_nights(12)):
        added = night.into(out, tmp_path)
        if number in (5, 6):
            continue  # the consumer sleeps
        if not number:
            exec(code, names)
        elif package.__name__ == "duckdb":
            names["merge"](done)
        else:
            names["mine"] = names["merge"](names["mine"], done)
        done = done if added is None else added.run
        assert table_of(package.__name__, names) == plain(list(predicted(out).values()))


def table_of(package: str, names: Mapping[str, Any]) -> dict[str, list[str]]:
    """The consumer's table."""
    if package == "polars":
        return plain(names["mine"].to_dicts())
    if package == "pandas":
        return plain(names["mine"].reset_index().to_dict("records"))
    return plain(names["duckdb"].sql("FROM mine").to_arrow_table().to_pylist())


def test_the_last_version_of_the_table_and_the_merged_feed_are_the_same(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    out = run_output(str(tmp_path / "out"))
    for night in random_nights(12):
        night.into(out, tmp_path)
        version = commit_run(out)
        table = deltalake.DeltaTable(tmp_path / "out" / TABLE_FOLDER, version=version).to_pyarrow_table()
        assert plain(table.to_pylist()) == plain(list(predicted(out).values()))
        assert {doc_id: row["labels"] for doc_id, row in merged(out).items()} == plain(table.to_pylist())


def test_each_answer_says_in_which_run_it_last_changed(tmp_path: Path) -> None:
    out, last, before = run_output(str(tmp_path / "out")), dict[str, tuple[int, str]](), dict[str, Any]()
    for night in random_nights(6):
        added = night.into(out, tmp_path)
        now = predicted(out)
        for doc_id in expected(before, now):
            assert added is not None
            last[doc_id] = (added.run, f"model {night.model}")
        before = now
    rows = read_predictions(tmp_path / "out").last_changed().to_pylist()
    assert [row["doc_id"] for row in rows] == list(before)
    assert {row["doc_id"]: (row["run"], row["model_digest"]) for row in rows} == {doc: last[doc] for doc in before}
    keep_changes(out.storage, 1)
    assert None in read_predictions(tmp_path / "out").last_changed()["run"].to_pylist()


# The command


def changes(out: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["changes", "--run", str(out), *options])


def test_the_command_says_what_changed_in_words_as_a_table_and_as_a_file(tmp_path: Path) -> None:
    out, file = run_output(str(tmp_path / "out")), tmp_path / "all.parquet"
    Night(rows_of(*range(30))).into(out, tmp_path)
    Night([*rows_of(*range(1, 30)), *rows_of(31)], model=1).into(out, tmp_path)
    Night([*rows_of(*range(1, 30)), *rows_of(31, words=1)], model=1).into(out, tmp_path)
    said = " ".join(changes(tmp_path / "out").stdout.split())
    assert "run 3: 1 text changed" in said
    assert "doc-31 text" in said
    answers = len([row for row in read(out, 1) if row["what"] == "answer"])
    said = " ".join(changes(tmp_path / "out", "--since", "1", "--out", str(file)).stdout.split())
    assert f"runs 2 to 3: 1 document new, 1 document gone, {answers} answers changed (model)" in said
    assert f"all documents that changed are in {file}" in said
    assert pq.read_table(file).schema == CHANGES_SCHEMA
    assert pq.read_table(file).to_pylist() == read(out, 1)
    told = json.loads(changes(tmp_path / "out", "--since", "1", "--json").stdout)
    assert told["counts"] == {"new": 1, "gone": 1, "text": 0, "answer": answers}
    assert [one["doc_id"] for one in told["documents"]] == sorted(row["doc_id"] for row in read(out, 1))[:20]
    assert "nothing changed since run 3" in changes(tmp_path / "out", "--since", "3").stdout
    late = changes(tmp_path / "out", "--since", "7")
    assert late.exit_code == Exit.INPUT
    assert "no run 7" in late.stderr


def test_the_record_says_when_a_run_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    write_corpus(list(synthesize(3, seed=1, kind="news")), tmp_path / "corpus", source="test")
    report = label(tmp_path / "corpus", tmp_path / "out")
    assert report.changes == AddedChanges(run=1, since=0, counts=ChangeCounts(new=3))
    assert label(tmp_path / "corpus", tmp_path / "out").changes is None
    time = read_record(FolderStorage(tmp_path / "out")).nights[0].time
    assert f"run 1 ({time[:16].replace('T', ' ')} UTC): 3 documents new" in changes(tmp_path / "out").stdout
    told = CliRunner().invoke(app, ["history", "--run", str(tmp_path / "out"), "--keep", "1"])
    assert "changes of runs 1 to 1 stay; 0 files of earlier ones are removed" in told.stdout
