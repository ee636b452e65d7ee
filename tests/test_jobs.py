"""Places as the user gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from concord.flows.commands.corpora import ingest_corpus, synthesize_corpus
from concord.flows.errors import NAMED, RunFolderError, ShardsFailedError
from concord.flows.inputs.jobs import folder_place, source_place
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import short_name
from concord.schemas.settings import TextSettings
from concord.workers.corpus.settings import IngestSettings
from tests.support.made_reports import run_report


def test_paths_become_absolute_and_uris_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert source_place("a/b") == folder_place("a/b") == str(tmp_path / "a" / "b")
    assert source_place("~/c") == folder_place("~/c") == str(tmp_path / "home" / "c")
    assert source_place("s3://bucket/corpus") == "s3://bucket/corpus"
    assert short_name("/a/b/") == short_name("s3://KEY:SECRET@b?region=eu") == "b"


@pytest.mark.parametrize("out", ["s3://bucket/out", str(Path("s3://bucket/out")), "file:///out"])
def test_output_needs_a_folder(out: str) -> None:
    with pytest.raises(RunFolderError, match="not a URI"):
        folder_place(out)


def report_of(errors: tuple[str, ...]) -> RunReport:
    return run_report(shards_done=2, shards_failed=len(errors), errors=errors)


def test_failed_shards_are_counted_and_named_but_not_without_end() -> None:
    error = ShardsFailedError(report_of(("a.parquet, row group 3: damaged",)))
    assert str(error) == "1 of 3 shards failed: a.parquet, row group 3: damaged"
    many = ShardsFailedError(report_of(tuple(f"reason {n}" for n in range(NAMED + 5))))
    assert str(many).endswith(f"reason {NAMED - 1}; and 5 more")
    assert len(many.report.errors) == NAMED + 5


def test_corpora_are_not_written_to_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    layout = IngestSettings()
    with pytest.raises(RunFolderError, match="not a URI"):
        synthesize_corpus(Path("s3://b/c"), documents=1, seed=0, kind="news", layout=layout, overwrite=False)
    with pytest.raises(RunFolderError, match="not a URI"):
        ingest_corpus("text", "x", Path("s3://b/c"), settings=TextSettings(), layout=layout, overwrite=False)
    assert list(tmp_path.iterdir()) == []
