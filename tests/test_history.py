"""The record of an output folder, and `concord history`: a line a run, whatever happened to the file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.nights.record import KEPT_NIGHTS, MOST_NIGHTS, RECORD, keep_night, read_record
from concord.schemas.drift import Drift, Movement
from concord.schemas.nights import NightLine
from concord.workers.drift.chart import NightScore
from concord.workers.storage.storage import FolderStorage
from tests.support.made_reports import run_report

TAGS = {"mlflow.user": "ada", "host": "engine"}
MOVED = Movement(figure="unknown words", of="texts", before=0.02, after=0.31, p_value=1e-9, breach=True)


def keep(
    out: Path, asked: dict[str, object] | None = None, chart: dict[str, NightScore] | None = None, **given: Any
) -> None:
    keep_night(FolderStorage(out), run_report(**given), tags=TAGS, asked=asked or {}, chart=chart)


def history(out: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["history", "--run", str(out), *options])


def test_a_run_adds_a_line_and_changes_no_other(tmp_path: Path) -> None:
    scores = {"texts: tokens": NightScore(1.25, 30.0)}
    keep(tmp_path, {"model": "models:/news@champion", "work": None}, documents=9, labelled=9, shards_done=1)
    first = (tmp_path / RECORD).read_bytes()
    keep(tmp_path, documents=9, chart=scores)
    assert (tmp_path / RECORD).read_bytes().startswith(first)
    found = read_record(FolderStorage(tmp_path))
    assert [night.night for night in found.nights] == [1, 2]
    assert found.nights[0].asked == {"model": "models:/news@champion"}
    assert found.charts() == [scores]
    assert found.unread == 0


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    keep(tmp_path, {"corpus": "s3://KEY:S3CRET@bucket/a"})
    assert "S3CRET" not in (tmp_path / RECORD).read_text()


@pytest.mark.parametrize("torn", [b'{"format":1,"night":2,"ti', b"\xff\xfe\n", b'{"format": 2}\n', b"\n"])
def test_half_a_line_costs_no_other(torn: bytes, tmp_path: Path) -> None:
    keep(tmp_path)
    with (tmp_path / RECORD).open("ab") as file:
        file.write(torn)
    keep(tmp_path)
    found = read_record(FolderStorage(tmp_path))
    assert ([night.night for night in found.nights], found.unread) == ([1, 2], 1)
    assert "1 lines of the record cannot be read" in history(tmp_path).stdout


def test_a_record_that_cannot_be_written_ends_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / RECORD).mkdir()
    with pytest.raises(IsADirectoryError):
        read_record(FolderStorage(tmp_path))
    keep(tmp_path)
    assert "this run is missing in the folder's record" in " ".join(capfd.readouterr().err.split())


def test_of_very_many_nights_the_last_are_kept_and_it_stays_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = {f"texts: figure {i}": NightScore(0.5, 30.0) for i in range(40)}
    keep(tmp_path, chart=chart, documents=3)
    line = json.loads((tmp_path / RECORD).read_text())
    many = (json.dumps(line | {"night": i}) + "\n" for i in range(1, MOST_NIGHTS - 1))
    (tmp_path / RECORD).write_text("".join(many))
    keep(tmp_path, chart=chart)
    assert len(read_record(FolderStorage(tmp_path)).nights) == MOST_NIGHTS - 1
    started = time.process_time()
    keep(tmp_path, chart=chart)
    assert time.process_time() - started < 2
    found = read_record(FolderStorage(tmp_path))
    assert len(found.nights) == KEPT_NIGHTS
    assert found.nights[-1].night == MOST_NIGHTS
    keep(tmp_path)
    assert read_record(FolderStorage(tmp_path)).last == MOST_NIGHTS + 1


def test_history_says_who_asked_what_came_of_it_and_what_was_asked_for_otherwise(tmp_path: Path) -> None:
    drift = Drift(against=1, new=30, gone=2, changed=1_234, movements=(MOVED,))
    digest = "0123456789abcdef" * 4
    keep(tmp_path, {"model": "m", "dataset": "x"}, documents=100, labelled=100, shards_done=2)
    keep(tmp_path, {"model": "m", "dataset": "x"}, documents=100)
    keep(
        tmp_path,
        {"model": "m", "dataset": "y", "constraints.news.yaml": digest},
        documents=128,
        labelled=30,
        shards_done=1,
        rejected=4,
        drift=drift,
    )
    keep(tmp_path, {"model": "n", "dataset": "y"}, documents=100, shards_failed=2)
    told = history(tmp_path)
    assert told.exit_code == Exit.OK, told.output
    text = " ".join(told.stdout.split())
    for part in (
        " ada 100 100 0 ",
        " ada 100 0 0 ",
        " ada 128 30 30 2 0 1,234 4 1 ",
        "night 3: asked for: constraints.news.yaml none → 01234567",
        "night 3: drift: unknown words: 16 times higher in the new texts (0.02 → 0.31)",
        "night 4: asked for: constraints.news.yaml 01234567 → none, model m → n",
        "night 4: failed: 2 shards; nothing was published",
        "4 of 4 nights; MLflow's run of the last: run",
    ):
        assert part in text, part
    assert digest not in text
    answer = json.loads(history(tmp_path, "--nights", "2", "--json").stdout)
    assert [(night["line"]["night"], night["line"]["failed"]) for night in answer["nights"]] == [(3, 0), (4, 2)]
    assert answer["nights"][0]["changed"] == {"constraints.news.yaml": [None, digest]}
    assert NightLine.model_validate(answer["nights"][0]["line"]).drift == drift


def test_a_folder_without_a_record_is_told(tmp_path: Path) -> None:
    told = history(tmp_path / "nowhere")
    assert told.exit_code == Exit.INPUT
    assert "no run is recorded there" in " ".join(told.stderr.split())
