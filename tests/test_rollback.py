"""Back to the run before: its bytes, whatever the nights; what is told, and what is refused.

Kills are in `test_killed_nights`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import concord.flows.labelling.label_job
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.errors import RunFolderError, TakenBackError
from concord.flows.nights.month import report_month
from concord.flows.nights.record import RECORD, Record, read_record
from concord.flows.nights.rollback import rollback
from concord.flows.runfolder.delta_table import answer_names, commit_run, table_state
from concord.flows.runfolder.former_run import FORMER, former_run
from concord.flows.runfolder.layout import SOURCES, STORE, RunOutput, staged_prefix
from concord.flows.runfolder.locks import LOCK, locked
from concord.flows.runfolder.marked_shards import marked_shards, read_markers
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import NothingPublishedError, published
from concord.flows.runfolder.runfolder import Purpose, find_done, republish, run_output
from concord.schemas.blocks import Remark
from concord.schemas.corrections import Correction
from concord.schemas.errors import CorpusError
from concord.schemas.nights import NightLine, NightReport, RollbackReport
from concord.schemas.run import RunSettings
from concord.workers.corpus.correction_file import CorrectionFile
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.labelling.output import PREDICTIONS, TIMES
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.storage import FolderStorage
from concord.workers.storage.tables import read_unthreaded
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import key_of
from tests.support.runs_here import label, stay_here
from tests.support.small_nights import (
    CONSTRAINTS,
    WORDS,
    Biased,
    Files,
    Night,
    answers,
    merged,
    predicted,
    rows_of,
    seen,
)

NIGHT_LINE = NightLine(
    night=1, time="", user="", host="", mlflow_run="", asked={}, documents=1, labelled=1, rejected=0, failed=0,
    certified=1.0, seconds=1.0,
)  # fmt: skip


def back(out: RunOutput) -> RunOutput:
    """Rolls back; the output as another command finds it."""
    republish(out, former_run(out))
    return run_output(out.storage.uri)


CORPUS = st.lists(
    st.tuples(st.integers(0, 5).map(lambda n: f"doc-{n}"), st.lists(st.sampled_from(WORDS), max_size=3)),
    min_size=1,
    max_size=7,
)
CORRECTED = CorrectionFile("made up", {"doc-1": (Correction(0, 1, "LOC"),)})
LIKE: dict[str, Any] = {
    "model": st.integers(0, 1),
    "seed": st.integers(0, 1),
    "shard_bytes": st.sampled_from([1, 60, 10_000]),
}
NIGHT = st.one_of(
    st.builds(Night, st.one_of(CORPUS, st.just(rows_of(1, 2, 3)), st.just(rows_of(2, 3, 4))), **LIKE),
    st.builds(Night, st.just(rows_of(1, 2, 3)), corrections=st.just(CORRECTED), **LIKE),
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(NIGHT, min_size=2, max_size=5), NIGHT)
def test_whatever_the_nights_readers_have_the_bytes_of_the_run_before(
    tmp_path: Path, nights: list[Night], later: Night
) -> None:
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    out, runs = run_output(str(tmp_path / "out")), list[tuple[Night, Files]]()
    for night in nights:
        night.into(out, tmp_path)
        commit_run(out)
        if not runs or seen(out) != runs[-1][1]:
            runs.append((night, seen(out)))
    if len(runs) == 1:
        with pytest.raises(RunFolderError, match="no run before the published one is kept"):
            former_run(out)
        return
    before, files = runs[-2]
    out = back(out)
    assert seen(out) == files
    commit_run(out)
    assert set(table_state(out.storage).files) == answer_names(published(out.storage.uri))
    assert merged(out) == answers(predicted(out))
    assert seen(back(out)) == files, "the same again"
    assert before.found_in(out, tmp_path).done.all(), "its work is there"
    later.into(out, tmp_path)
    assert merged(out) == answers(predicted(out))
    if seen(out) != files:
        assert seen(back(out)) == files


def test_times_and_what_the_run_was_made_from_come_back(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    out.storage.write(SOURCES, b"first")
    Night(rows_of(1, 2, 3)).into(out, tmp_path)
    times = {name: out.storage.read(f"{TIMES}/{name}") for name in out.storage.names(TIMES)}
    out.storage.write(SOURCES, b"second")
    Night(rows_of(1, 2, 3), model=1).into(out, tmp_path)
    out = back(out)
    assert out.storage.read(SOURCES) == b"first"
    assert {name: out.storage.read(f"{TIMES}/{name}") for name in out.storage.names(TIMES)} == times != {}


def test_what_is_kept_of_a_run_is_all_that_it_is_published_by(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    night = Night([*rows_of(1, 2, 3, 1), ("doc-9", [])], corrections=CORRECTED)
    night.into(out, tmp_path)
    markers = night.found_in(out, tmp_path)
    again = read_markers(lambda: [read_unthreaded(data) for data in marked_shards(markers)], markers.key)
    assert again.shards == markers.shards
    assert again.shards.repeats
    assert again.shards.corrections
    assert again.shards.scores is None
    assert list(again) == list(markers)
    assert [again.shards[place] for place in range(len(again.shards))] == list(markers.shards)


def test_what_is_kept_has_the_same_bytes_for_markers_of_workers_and_of_files(tmp_path: Path) -> None:
    write_corpus(list(synthesize(6, seed=1, kind="news")), tmp_path / "corpus", source="test")  # with gold labels
    out, key = run_output(str(tmp_path / "out")), key_of(CONSTRAINTS, engine="viterbi", options={})
    shards = plan(tmp_path / "corpus", shard_bytes=600)
    made, store = Markers(shards, key), out.storage.below(STORE)
    for shard in shards:
        made.add(label_shard(shard, model=Biased(1), constraints=CONSTRAINTS, key=key, store=store).marker)
    found = find_done(out, shards, key)
    assert found.packed(0) != made.packed(0), "names are in another order"
    assert list(marked_shards(found)) == list(marked_shards(made))


def test_a_run_costs_the_bytes_of_what_it_changes(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    Night(rows_of(*range(30))).into(out, tmp_path)
    Night([*rows_of(*range(29)), *rows_of(29, words=1)]).into(out, tmp_path)
    assert len(list(out.storage.names(f"{FORMER}/{PREDICTIONS}"))) == 1
    assert len(list(out.storage.names(PREDICTIONS))) > 3


# Refused


def test_what_cannot_be_gone_back_to_is_refused_in_a_line_and_readers_have_what_they_had(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    with pytest.raises(NothingPublishedError):
        former_run(out)
    Night(rows_of(1, 2)).into(out, tmp_path)
    with pytest.raises(RunFolderError, match="no run before the published one is kept there"):
        former_run(out)
    Night(rows_of(1, 2), model=1).into(out, tmp_path)
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "out", whole, symlinks=True)
    kept = [path.relative_to(whole) for path in sorted((whole / FORMER).rglob("*")) if path.is_file()]
    needed_key = staged_prefix(former_run(out).run.manifest)
    needed = [path for path in kept if "sources" not in path.name and path.parent.name != TIMES]
    assert len(needed) > 3
    for path in needed:
        for damage in (None, b"", b"PAR1"):
            shutil.rmtree(tmp_path / "out")
            shutil.copytree(whole, tmp_path / "out", symlinks=True)
            (tmp_path / "out" / path).unlink()
            if damage is not None:
                (tmp_path / "out" / path).write_bytes(damage)
            files = seen(out)
            if path.name.startswith(needed_key) or path.parent.name != "runs":
                with pytest.raises(RunFolderError, match=r"kept whole|no run before"):
                    republish(out, former_run(out))
                assert seen(out) == files, path


def test_without_its_folder_the_next_nights_are_as_ever(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    for model in (0, 1):
        Night(rows_of(1, 2), model=model).into(out, tmp_path)
    shutil.rmtree(tmp_path / "out" / FORMER)
    with pytest.raises(RunFolderError, match="no run before"):
        former_run(out)
    Night(rows_of(1, 2), model=1).into(out, tmp_path)
    files = seen(out)
    Night(rows_of(1, 3), model=1).into(out, tmp_path)
    assert seen(back(out)) == files


def test_a_run_at_work_is_not_disturbed(tmp_path: Path) -> None:
    out = run_output(str(tmp_path / "out"))
    for model in (0, 1):
        Night(rows_of(1, 2), model=model).into(out, tmp_path)
    files = seen(out)
    with locked(tmp_path / "out" / LOCK, tmp_path / "out"):
        ended = CliRunner().invoke(app, ["rollback", "--run", str(tmp_path / "out")])
    assert ended.exit_code == Exit.INPUT
    assert len(ended.stderr.strip().splitlines()) == 1
    assert seen(out) == files


# The record, and what is told


@pytest.fixture
def three_nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of two models' runs over a corpus, the second one's twice."""
    write_corpus(list(synthesize(8, seed=1, kind="news")), tmp_path / "corpus", source="test")
    for model in (0, 1, 1):
        stay_here(monkeypatch, Biased(model))
        label(tmp_path / "corpus", tmp_path / "out")
    return tmp_path / "out"


def test_the_command_says_which_night_readers_have_and_the_record_keeps_it(
    three_nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, storage = str(three_nights), FolderStorage(three_nights)
    first = read_record(storage).nights[0]
    said = CliRunner().invoke(app, ["rollback", "--run", out]).stdout
    assert f"readers have night 1 ({first.time[:16].replace('T', ' ')} UTC) again, in place of night 3:" in said
    assert "answers changed" in said
    report = RollbackReport.model_validate_json(CliRunner().invoke(app, ["rollback", "--run", out, "--json"]).stdout)
    assert (report.night, report.again, report.changes, report.documents) == (1, True, None, 8)
    assert "since a rollback; no run before it is kept" in report.headline
    record = read_record(storage)
    line = record.nights[-1]
    assert (len(record.nights), line.night, line.rolled_back_to, line.labelled) == (4, 4, 1, 0)
    assert (line.documents, line.asked, line.mlflow_run) == (8, first.asked, first.mlflow_run)
    assert (
        "night 4: rolled back: readers have night 1 again" in CliRunner().invoke(app, ["history", "--run", out]).stdout
    )
    month = report_month(out, str(tmp_path / "pages"), line.time[:7])
    assert (month.nights, month.published, month.rolled_back) == (3, 3, 1)
    assert month.runs.endswith("; 1 rolled back")
    stay_here(monkeypatch, Biased(1))
    night = label(tmp_path / "corpus", three_nights, allow_again=True)
    assert night.before is not None
    assert (night.before.night, night.drift and night.drift.against) == (4, 4)
    assert night.changes is not None


# What was taken back does not come back by itself

CAUSES = ("model", "settings", "corpus")
MANY = list(chain.from_iterable(combinations(CAUSES, count) for count in range(len(CAUSES) + 1)))


def night_with(causes: Sequence[str], folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    """A run in which these are otherwise than in the first one."""
    stay_here(monkeypatch, Biased(int("model" in causes)))
    settings = RunSettings(engine="viterbi", seed=int("settings" in causes))
    label(folder / ("other" if "corpus" in causes else "corpus"), out, settings=settings, allow_gone=True, **given)


@pytest.mark.parametrize("causes", MANY[1:], ids="-".join)
def test_what_a_rollback_took_is_withheld_until_its_causes_differ(
    tmp_path: Path, causes: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, every = tmp_path / "first", list(synthesize(4, seed=1, kind="news"))
    for name, documents in (("corpus", every[:3]), ("other", [every[0], *every[2:]])):
        write_corpus(documents, tmp_path / "texts" / name, source="test")
    # One place, whose texts change.
    monkeypatch.setattr(Purpose, "of", lambda *_: Purpose("texts"))
    night_with((), tmp_path / "texts", first, monkeypatch)
    night_with(causes, tmp_path / "texts", first, monkeypatch)
    taken = seen(run_output(str(first)))
    report = rollback(str(first))
    assert len(report.causes) == len(causes)
    for tonight in MANY:
        out = tmp_path / "-".join(("out", *tonight))
        shutil.copytree(first, out, symlinks=True)
        had, others = seen(run_output(str(out))), set(causes) - {"corpus"}
        if set(tonight) >= (others or {"corpus"}):
            with pytest.raises(TakenBackError, match=r"night 2 again, which a rollback took back \(.+--allow-again"):
                night_with(tonight, tmp_path / "texts", out, monkeypatch)
            assert seen(run_output(str(out))) == had
            line = read_record(FolderStorage(out)).nights[-1]
            assert (line.end, line.published, line.labelled) == ("withheld", False, 0)
            assert "--allow-again" in line.stopped
            night_with(tonight, tmp_path / "texts", out, monkeypatch, allow_again=True)
            assert set(tonight) != set(causes) or seen(run_output(str(out))) == taken
        night_with(tonight, tmp_path / "texts", out, monkeypatch)
        assert read_record(FolderStorage(out)).nights[-1].published


def test_a_run_that_has_much_less_is_gone_back_to_only_if_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = list(synthesize(8, seed=1, kind="news"))
    stay_here(monkeypatch)
    for count in (4, 8):
        write_corpus(every[:count], tmp_path / "corpus", source="test", overwrite=True)
        label(tmp_path / "corpus", tmp_path / "out")
    had = seen(run_output(str(tmp_path / "out")))
    ended = CliRunner().invoke(app, ["rollback", "--run", str(tmp_path / "out")])
    assert ended.exit_code == Exit.DRIFT
    assert "night 1 has 4 documents, and readers have 8 now: 4 would be gone; give --allow-gone" in " ".join(
        ended.stderr.split()
    )
    assert seen(run_output(str(tmp_path / "out"))) == had
    assert rollback(str(tmp_path / "out"), allow_gone=True).documents == 4
    assert rollback(str(tmp_path / "out")).again, "the same again asks nothing"
    page = report_month(str(tmp_path / "out"), str(tmp_path / "pages"), read_record_time(tmp_path / "out"))
    assert page.differences == {"new": 4, "gone": 4}, "what the rollback took is in the sums"


def read_record_time(out: Path) -> str:
    """The month of the last line of a record."""
    return read_record(FolderStorage(out)).nights[-1].time[:7]


def test_a_run_that_ends_before_it_labels_is_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(list(synthesize(2, seed=1, kind="news")), tmp_path / "corpus", source="test")
    stay_here(monkeypatch)
    label(tmp_path / "corpus", tmp_path / "out")
    with monkeypatch.context() as patched:
        patched.setattr(concord.flows.labelling.label_job, "open_model", interrupted)
        with pytest.raises(KeyboardInterrupt):
            label(tmp_path / "corpus", tmp_path / "out")
    for path in (tmp_path / "corpus").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(CorpusError):
        label(tmp_path / "corpus", tmp_path / "out")
    _, cancelled, empty = read_record(FolderStorage(tmp_path / "out")).nights
    assert (cancelled.end, empty.end) == ("cancelled", "stopped")
    page = report_month(str(tmp_path / "out"), str(tmp_path / "pages"), empty.time[:7])
    assert (page.nights, page.published, page.cancelled, page.failed) == (3, 1, 1, 1)
    said = CliRunner().invoke(app, ["history", "--run", str(tmp_path / "out")]).stdout
    assert "night 3: stopped before it labelled:" in said


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_scores_of_a_night_that_was_taken_back_judge_no_other() -> None:
    nights = [NIGHT_LINE.model_copy(update={"night": n, "chart": {"words": (float(n), 1.0)}}) for n in (1, 2, 3, 5)]
    back = NIGHT_LINE.model_copy(update={"night": 4, "rolled_back_to": 1})
    record = Record((*nights[:3], back, nights[3]))
    assert [chart["words"].z for chart in record.charts()] == [1.0, 5.0]
    unknown = back.model_copy(update={"rolled_back_to": 0})
    assert len(Record((*nights[:3], unknown, nights[3])).charts()) == 4


def test_without_a_record_the_run_before_is_back_all_the_same(three_nights: Path) -> None:
    (three_nights / RECORD).unlink()
    report = rollback(str(three_nights))
    assert (report.night, report.time, report.instead_of) == (0, None, 0)
    assert "readers have the run before again:" in report.headline
    (line,) = read_record(FolderStorage(three_nights)).nights
    assert (line.rolled_back_to, line.asked) == (0, {})
    assert [one.text for one in NightReport(line=line, changed={}).lines()] == [
        "night 1: rolled back: readers have the run before again"
    ]


def test_a_table_goes_on_with_the_run_before(three_nights: Path) -> None:
    out = run_output(str(three_nights))
    commit_run(out)
    report = rollback(str(three_nights))
    assert report.version == 1
    assert "version 1 of the table" in [block.text for block in report.blocks() if isinstance(block, Remark)]
    assert set(table_state(out.storage).files) == answer_names(published(out.storage.uri))
    assert rollback(str(three_nights)).version == 1
