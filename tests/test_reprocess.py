"""The main job from plan to report, with its shards labelled in this process in the place of Ray's workers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import concord.flows.commands.run_plan
import concord.flows.inputs.jobs
import concord.flows.labelling.planned_run
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit, reported
from concord.flows.commands.run_plan import plan_run
from concord.flows.errors import NothingLabelledError, ShardsFailedError
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.labelling.planned_run import planned_run
from concord.flows.nights.record import read_record
from concord.flows.runfolder.published import published
from concord.flows.screen.pages import page_of
from concord.flows.screen.progress import followed
from concord.flows.tracking.tracking import DESCRIPTION, FAILURES, RUN_NAME, Outcome
from concord.flows.work.done import Done
from concord.flows.work.in_process import InProcess
from concord.schemas.columns import REJECTS_LAYOUT
from concord.schemas.requests import LabelRequest
from concord.schemas.run import Reuse, RunSettings
from concord.schemas.run_report import RunReport
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.shards import read_documents
from concord.workers.labelling.output import REJECTS
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_runs import rejects_in
from tests.support.runs_here import label, stay_here


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """Has runs stay in this process; what MLflow would be told of their ends."""
    return stay_here(monkeypatch)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_corpus(synthesize(6, seed=1, kind="news"), tmp_path / "corpus", source="test")
    return tmp_path / "corpus"


def spoil(corpus: Path, ids: list[str | None]) -> None:
    """Gives the documents other ids; one without an id is a reject."""
    path = corpus / "part-00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, table.schema.field(0).with_nullable(True), pa.array(ids, pa.string())), path)


def told_of(report: RunReport) -> str:
    """What MLflow shows as the description of a run."""
    return f"{report.headline}; output in {report.out}"


def test_a_corpus_of_rejects_alone_is_one_line_and_they_are_published(
    corpus: Path, tmp_path: Path, outcomes: list[Outcome], capfd: pytest.CaptureFixture[str]
) -> None:
    spoil(corpus, [None] * 6)
    for done, skipped, night in ((6, 0, "first night"), (0, 6, "nothing new")):  # the same command again says the same
        with pytest.raises(NothingLabelledError) as raised:
            label(corpus, tmp_path / "out")
        report = raised.value.report
        assert (report.documents, report.rejected, report.shards_done, report.shards_skipped) == (0, 6, done, skipped)
        assert outcomes[-1].status == "FAILED"
        assert outcomes[-1].tags == {
            FAILURES: str(raised.value),
            DESCRIPTION: told_of(report),
            RUN_NAME: f"corpus · {night} · viterbi · made up",
        }
    rejects = [r for t in published(str(tmp_path / "out")).tables(REJECTS, REJECTS_LAYOUT) for r in rejects_in(t)]
    assert [reject.row for reject in rejects] == list(range(6))
    capfd.readouterr()
    with pytest.raises(typer.Exit) as left, reported():
        label(corpus, tmp_path / "out")
    assert left.value.exit_code == Exit.INPUT
    path = corpus / "part-00000.parquet"
    assert capfd.readouterr().err.splitlines()[-1] == (
        f"concord: none of the 6 documents could be labelled: {path}, row 0: {rejects[0].reason}"
    )


def test_one_good_document_is_enough_and_the_first_reject_is_told(
    corpus: Path, tmp_path: Path, outcomes: list[Outcome], capfd: pytest.CaptureFixture[str]
) -> None:
    spoil(corpus, [None] * 5 + ["good"])
    reports = []
    for _ in range(2):  # done now, and found done
        reports.append(label(corpus, tmp_path / "out"))
        assert (reports[-1].documents, reports[-1].rejected) == (1, 5)
        said = " ".join(capfd.readouterr().err.split())
        assert f"5 documents are rejects; the first: {corpus / 'part-00000.parquet'}, row 0: doc_id is null" in said
    assert len(outcomes) == 1, "a run with nothing new is none in MLflow"
    assert (outcomes[-1].status, outcomes[-1].tags) == (
        "FINISHED",
        {DESCRIPTION: told_of(reports[0]), RUN_NAME: "corpus · first night · viterbi · made up"},
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 100 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount here")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


def test_a_disk_that_is_full_or_read_only_is_one_line_and_the_same_run_goes_on_when_it_is_not(
    corpus: Path, disk: Path, tmp_path: Path, outcomes: list[Outcome], capfd: pytest.CaptureFixture[str]
) -> None:
    out = disk / "out"
    label(corpus, tmp_path / "wanted")
    (disk / "ballast").write_bytes(bytes(60 << 10))
    with pytest.raises(ShardsFailedError) as raised:
        label(corpus, out)
    report = raised.value.report
    assert (report.shards_failed > 0, report.shards_done + report.shards_failed) == (True, 6)
    for error in report.errors:
        assert f": {out}/" in error
        assert "cannot be written (No space left on device)" in error
        assert "\n" not in error
    assert outcomes[-1].status == "FAILED"
    assert not (out / "manifest.json").exists()
    assert list(out.rglob(".tmp-*")) == []
    with pytest.raises(typer.Exit) as left, reported():
        label(corpus, out)
    assert left.value.exit_code == Exit.SHARDS

    (disk / "ballast").unlink()
    remount(disk, "ro")
    capfd.readouterr()
    with pytest.raises(typer.Exit) as left, reported():
        label(corpus, out)
    assert left.value.exit_code == Exit.INPUT
    said = capfd.readouterr().err.splitlines()[-1]
    assert said.startswith(f"concord: {out}")
    assert "cannot be written (Read-only file system)" in said

    remount(disk, "rw,size=10m")
    assert label(corpus, out).shards_skipped >= report.shards_done
    assert seen(out) == seen(tmp_path / "wanted")


def seen(out: Path) -> dict[str, bytes]:
    found = [out / "manifest.json", *(out / "predictions").iterdir()]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in found}


def test_a_new_document_alone_is_labelled_and_a_dry_run_says_so(
    corpus: Path, outcomes: list[Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.inputs.jobs, "check_sources", lambda *_, **__: None)
    out = tmp_path / "out"
    settings = RunSettings(engine="viterbi")
    request = LabelRequest(corpus=str(corpus), model="made up", out=str(out), settings=settings)
    first = plan_run(request)
    assert (first.documents, first.decoded, first.clock, first.shards, first.first_run) == (6, 6, None, 1, True)
    assert not out.exists()
    label_corpus(request)
    assert (plan_run(request).skipped, plan_run(request).shards) == (6, 0)
    shutil.rmtree(corpus)
    write_corpus(synthesize(7, seed=1, kind="news"), corpus, source="test")
    planned = plan_run(request)
    assert (planned.documents, planned.skipped, planned.kept, planned.decoded) == (7, 0, 6, 1)
    assert planned.clock is not None
    report = label_corpus(request)
    assert (report.labelled, report.reuse) == (7, Reuse(kept=6))
    assert len(outcomes) == 2


class Told:
    """A follower that keeps what a run has done that a signal ends."""

    def __init__(self) -> None:
        self.reports: list[object] = []

    def said(self, message: str) -> None: ...

    def advanced(self, title: str, done: int, total: int | None, note: str) -> None: ...

    def left(self, report: object) -> None:
        self.reports.append(report)


class Signalled(BaseException):
    """As a signal is raised by the command line, and another by Prefect."""


@pytest.mark.parametrize("signal", [KeyboardInterrupt, Signalled])
def test_a_run_that_a_signal_ends_is_a_night_of_its_own(
    signal: type[BaseException], corpus: Path, outcomes: list[Outcome], tmp_path: Path
) -> None:
    """With what it has done, which is told to who follows it; the next one does the rest."""
    told, out, whole_run = Told(), tmp_path / "out", InProcess.run

    def signalled(*given: Any) -> Iterator[Done[Any, Any]]:
        yield from islice(whole_run(*given), 3)
        raise signal

    with followed(told), patch.object(InProcess, "run", signalled), pytest.raises(signal):
        label(corpus, out)
    (report,) = told.reports
    assert isinstance(report, RunReport)
    assert (report.cancelled, report.labelled, report.shards_done) == (True, 3, 3)
    assert report.headline == "cancelled: 3 documents labelled, nothing published; the same again does the rest"
    page = page_of(report)
    assert page is not None
    assert page.tags == ("cancelled",)
    whole = label(corpus, out)
    assert (whole.labelled, whole.shards_skipped) == (3, 3)
    first, second = read_record(FolderStorage(out)).nights
    assert (first.cancelled, first.labelled, first.documents) == (True, 3, 3)
    assert (second.cancelled, second.documents) == (False, 6)
    shown = CliRunner().invoke(app, ["history", "--run", str(out)]).output
    assert "night 1: cancelled: 3 documents were labelled, nothing was published" in shown


@pytest.mark.parametrize("again", [(0, 0, 5), (3, 3, 3, 1)])
def test_a_dry_run_counts_as_the_run_does_where_ids_are_repeated(
    again: tuple[int, ...], corpus: Path, outcomes: list[Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated row is a reject: it is not decoded, and no answer is taken for it."""
    monkeypatch.setattr(concord.flows.inputs.jobs, "check_sources", lambda *_, **__: None)
    (part,) = corpus.glob("part-*.parquet")
    table = pq.read_table(part)
    repeating = pa.concat_tables([table, table.take(again)])

    def ran(corpus: pa.Table, settings: RunSettings) -> None:
        pq.write_table(corpus, part)
        request = LabelRequest(
            corpus=str(part.parent), model="made up", out=str(tmp_path / "out"), settings=settings, shard_bytes=2048
        )
        planned, report = plan_run(request), label_corpus(request)
        taken = report.reuse.kept + report.reuse.stood
        assert planned.kept + planned.checked == taken
        assert planned.decoded + planned.guessed == report.labelled - taken
        assert (planned.documents, planned.rejected) == (report.documents, report.rejected)
        assert planned.rows == planned.documents + planned.rejected
        assert planned.documents == planned.skipped + report.labelled

    settings = RunSettings(engine="viterbi")
    for rows in (repeating, table, repeating):
        ran(rows, settings)
    ran(repeating, RunSettings(engine="beam"))
    assert outcomes


def test_of_very_many_shards_a_dry_run_reads_some(
    tmp_path: Path, outcomes: list[Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.inputs.jobs, "check_sources", lambda *_, **__: None)
    write_corpus(synthesize(40, seed=1, kind="news"), tmp_path / "corpus", source="test")
    settings = RunSettings(engine="viterbi", settle=True)
    given = {"corpus": str(tmp_path / "corpus"), "model": "made up", "out": str(tmp_path / "out"), "shard_bytes": 1024}
    request = LabelRequest(**given, settings=settings)
    label_corpus(request)
    assert len(outcomes) == 1
    others = request.model_copy(update={"settings": settings.model_copy(update={"engine": "certify"})})
    every = plan_run(others)
    assert every.shards > 10
    assert (every.guessed, every.decoded, every.sampled) == (40, 0, False)
    monkeypatch.setattr(concord.flows.commands.run_plan, "planned_run", partial(planned_run, most_shards=5))
    with patch.object(concord.flows.labelling.planned_run, "read_documents", wraps=read_documents) as reading:
        some = plan_run(others)
    assert some == every.model_copy(update={"sampled": True, "differences": None})
    assert 3 <= reading.call_count <= 5
