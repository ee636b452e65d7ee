"""A month of an output folder on a page, and the deployments that Prefect is given."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.exceptions import SignatureMismatchError
from typer.testing import CliRunner

from concord.flows import deployed
from concord.flows.cli.app import app
from concord.flows.errors import RunFolderError
from concord.flows.monthly import monthly
from concord.flows.nights.month import last_month
from concord.flows.nights.record import RECORD, keep_night
from concord.flows.screen.pages import page_of
from concord.schemas.drift import ChangedDocument, Drift, Movement
from concord.schemas.nights import MonthReport
from concord.workers.storage.storage import FolderStorage
from tests.support.made_reports import run_report

DEPLOYMENTS = yaml.safe_load((Path(__file__).parents[1] / "infra" / "prefect.yaml").read_text())["deployments"]
MOVED = Movement(figure="unknown | words", of="texts", before=0.02, after=0.31, p_value=1e-9, breach=True)


def nights(out: Path) -> None:
    """A run in October, and three in November, of which one drifted and one failed."""
    out.mkdir()
    drift = Drift(against=2, new=30, gone=2, changed=4, movements=(MOVED,))
    drift = drift.model_copy(update={"most_changed": (ChangedDocument(doc_id="<b>a", spans=7),)})
    reports: list[tuple[str, dict[str, Any], str]] = [
        ("2026-10-31", {"labelled": 5}, "v1"),
        ("2026-11-01", {}, "v1"),
        ("2026-11-02", {"labelled": 30, "drift": drift}, "v2"),
        ("2026-11-30", {"shards_failed": 1}, "v2"),
    ]
    for _, given, model in reports:
        report = run_report(documents=100, shards_done=1, **given)
        keep_night(
            FolderStorage(out),
            report,
            tags={"mlflow.user": "ada", "host": "h"},
            asked={"model": model, "s": "s3://K:S3CRET@b"},
        )
    lines = [json.loads(line) for line in (out / RECORD).read_text().splitlines()]
    dated = (line | {"time": f"{day}T03:00:00+00:00"} for line, (day, *_) in zip(lines, reports, strict=True))
    (out / RECORD).write_text("".join(json.dumps(line) + "\n" for line in dated))


def test_a_month_has_its_nights_their_drift_and_what_was_asked_for(tmp_path: Path) -> None:
    nights(tmp_path / "out")
    report: MonthReport = monthly(str(tmp_path / "out"), str(tmp_path / "reports"), month="2026-11")
    assert (report.nights, report.labelled, report.drifted, report.failed) == (3, 30, 1, 1)
    assert (report.published, report.cancelled) == (2, 0)
    text = (tmp_path / "reports" / "out-2026-11.md").read_text()
    assert text == report.markdown
    for row in (
        "# out, 2026-11",
        "| 3 | 2026-11-02 03:00 | ada | 100 | 30 | 30 | 2 | 0 | 4 | 0 | 0.0% |",
        "| 4 | 2026-11-30 03:00 | ada | 100 | 1 shards failed |  |  |  |  | 0 | 0.0% |",
        "| 3 | unknown \\| words: 16 times higher in the new texts (0.02 → 0.31) | 1e-09 |  |",
        "| 3 | model | v1 | v2 |",
        "| 3 | \\<b\\>a | 7 |",
    ):
        assert row in text.splitlines(), text
    page = (tmp_path / "reports" / "out-2026-11.html").read_text()
    assert "<td>unknown | words: 16 times higher in the new texts (0.02 → 0.31)</td>" in page
    assert "<td>&lt;b&gt;a</td>" in page
    assert "S3CRET" not in text + page
    shown = page_of(report)
    assert shown is not None
    assert shown.headline == "2026-11: 3 runs (2 published, 1 failed); 1 with drift"
    assert shown.tags == ("drift",)


def test_a_month_without_a_run_says_so_and_a_folder_without_any_is_an_error(tmp_path: Path) -> None:
    nights(tmp_path / "out")
    report: MonthReport = monthly(str(tmp_path / "out"), str(tmp_path / "reports"), month="2025-01")
    assert "No run ended in this month." in report.markdown
    with pytest.raises(RunFolderError):
        monthly(str(tmp_path / "nowhere"), str(tmp_path / "reports"))


@pytest.mark.parametrize("month", ["11", "2026-13", "2026-1", "2026-11-01", "November"])
def test_what_is_no_month_is_told_and_nothing_is_written(tmp_path: Path, month: str) -> None:
    nights(tmp_path / "out")
    asked = ["monthly", "--run", str(tmp_path / "out"), "--out", str(tmp_path / "reports"), "--month", month]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 2
    assert told.stderr.startswith(f"concord: month {month}: want YYYY-MM, such as 20")
    assert not (tmp_path / "reports").exists()


def test_the_command_says_what_the_month_came_to_and_where_its_page_is(tmp_path: Path) -> None:
    nights(tmp_path / "out")
    asked = ["monthly", "--run", str(tmp_path / "out"), "--out", str(tmp_path / "reports"), "--month", "2026-11"]
    told = CliRunner().invoke(app, asked)
    page = tmp_path / "reports" / "out-2026-11.md"
    assert told.stdout.splitlines() == [
        "2026-11: 3 runs (2 published, 1 failed); 1 with drift",
        "documents labelled: 30; different from the night before: 30 new, 2 gone, 4 with another answer",
        f"page in {page}, and as HTML beside it",
    ]
    assert json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)["markdown"] == page.read_text()


def test_the_last_month_is_the_one_before() -> None:
    assert last_month(datetime(2026, 12, 1, 7, tzinfo=UTC)) == "2026-11"
    assert last_month(datetime(2026, 1, 31, tzinfo=UTC)) == "2025-12"


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_a_deployment_names_a_flow_that_takes_its_parameters(deployment: dict[str, Any]) -> None:
    module, _, name = deployment["entrypoint"].rpartition(".")
    assert module == deployed.__name__
    flow = getattr(deployed, name)
    assert set(flow.validate_parameters(deployment["parameters"])) >= set(deployment["parameters"])
    assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    with pytest.raises(SignatureMismatchError):
        flow.validate_parameters(deployment["parameters"] | {"nothing": 1})
    (schedule,) = deployment["schedules"]
    assert len(schedule["cron"].split()) == 5


def test_every_deployed_flow_is_in_the_file_or_left_to_people() -> None:
    named = {deployment["entrypoint"].rpartition(".")[2] for deployment in DEPLOYMENTS}
    assert named == {"reprocess", "challenge", "monthly"}
    assert len({deployment["name"] for deployment in DEPLOYMENTS}) == len(DEPLOYMENTS)
