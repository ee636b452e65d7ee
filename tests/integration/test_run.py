"""The whole run as a user drives it: real Ray, Prefect and MLflow, local and offline."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
import urllib.request
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.flows.cli.failures import Exit
from concord.flows.runfolder.published import published
from concord.schemas.visible import visible
from concord.workers.corpus.plan import plan
from tests.integration.conftest import CONCORD, PYTHON, World, asked, damage_a_copy, flow_runs
from tests.integration.interruptions import labelled_through_kills


def test_an_undisturbed_run_answers_with_its_counts(world: World, reference: Any) -> None:
    assert (reference["documents"], reference["rejected"]) == (48, 0)
    assert (reference["shards_skipped"], reference["shards_failed"]) == (0, 0)
    assert reference["shards_done"] == len(plan(world.folder / "test", shard_bytes=3 << 10)) > 8
    assert reference["tokens"] == sum(len(r) for r in pq.read_table(world.folder / "test")["tokens"].to_pylist())
    assert reference["seconds"] > 0
    assert reference["tokens_per_second"] > 0
    assert reference["violations"] < reference["violations_before"]
    manifest = json.loads((world.folder / "reference" / "manifest.json").read_text())
    assert manifest["totals"]["documents"] == 48
    assert manifest["shards"] == reference["shards_done"]
    listed = list(published(str(world.folder / "reference")).shards())
    assert [len(shard.files) for shard in listed] == [1] * reference["shards_done"]


def test_two_workers_and_a_model_of_the_registry_write_the_same_bytes(world: World, reference: Any) -> None:
    two = world.reprocess("two", "--workers", "2", "--model", "models:/news@champion")
    assert two["shards_done"] == reference["shards_done"]
    assert world.content("two") == world.content("reference")


def test_a_run_without_workers_writes_the_same_bytes(world: World, reference: Any) -> None:
    none = world.reprocess("none", "--workers", "0")
    assert none["shards_done"] == reference["shards_done"]
    assert world.content("none") == world.content("reference")


def test_a_corpus_that_workers_read_is_labelled_to_the_same_bytes(world: World, reference: Any) -> None:
    assert world.ray is not None
    script = f"from concord.flows.labelling import planning; planning.READ_ALONE = 0; {CONCORD[2]}"
    typed = [PYTHON, "-c", script, *world.reprocess_command("read", "--ray", world.ray.address, "--workers", "2")]
    env = world.env | world.ray.environment
    ran = subprocess.run(typed, cwd=world.folder, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert "reading the corpus: 1 of 1 files" in ran.stderr
    assert json.loads(ran.stdout)["shards_done"] == reference["shards_done"]
    assert world.content("read") == world.content("reference")


def test_the_same_command_again_skips_everything(world: World, reference: Any) -> None:
    before = world.content("reference")
    again = world.reprocess("reference", "--workers", "1")
    assert (again["shards_done"], again["shards_skipped"]) == (0, reference["shards_done"])
    assert again["documents"] == reference["documents"]
    assert again["violations"] == reference["violations"]
    assert world.content("reference") == before
    (run,) = (
        run for run in flow_runs(world) if "nothing new" in run["tags"] and run["parameters"]["out"] == "reference"
    )
    assert run["state"]["message"] == "nothing new: 0 of 48 documents"


def test_a_run_that_cannot_reach_ray_takes_nothing_away(world: World, reference: Any) -> None:
    before = world.content("reference")
    world.run(*world.reprocess_command("reference", "--seed", "7", "--ray", "127.0.0.1:9"), code=5)
    assert world.content("reference") == before
    answer = world.run("evaluate", "--run", "reference", "--corpus", "test", "--json")
    assert answer["documents"] == reference["documents"]


def test_kills_lose_nothing(world: World, reference: Any) -> None:
    """A worker killed, SIGTERM, the driver killed, the same command to the end: the same bytes."""
    labelled_through_kills(world, "killed", reference["shards_done"])
    states = sorted(run["state_name"] for run in runs_into(world, "killed"))
    # What SIGKILL ends tells nobody.
    assert states == ["Cancelled", "Completed", "Running"]
    assert world.content("killed") == world.content("reference")


def test_mlflow_has_the_figures_by_name(world: World, reference: Any) -> None:
    with closing(sqlite3.connect(world.folder / "home" / "mlflow.db")) as store:
        run = reference["mlflow_run"]
        metrics = dict(store.execute("select key, value from latest_metrics where run_uuid = ?", [run]))
        params = dict(store.execute("select key, value from params where run_uuid = ?", [run]))
        tags = dict(store.execute("select key, value from tags where run_uuid = ?", [run]))
        kinds = store.execute("select value from experiment_tags where key = 'mlflow.experimentKind'").fetchall()
        digests = store.execute("select digest from datasets").fetchall()
        status = store.execute("select status from runs where run_uuid = ?", [run]).fetchone()
    assert metrics["documents"] == reference["documents"]
    assert metrics["certified"] == pytest.approx(reference["certified"])
    assert metrics["gap/max"] == pytest.approx(reference["max_gap"])
    assert metrics["f1"] > metrics["viterbi/f1"]
    for name in ("precision", "recall", "f1/PER", "viterbi/f1/PER", "macro_f1", "token_accuracy", "tokens_per_second"):
        assert metrics[name] > 0, name
    before, after = metrics["violations/before"], metrics["violations/after"]
    assert (before, after) == pytest.approx((reference["violations_before"], reference["violations"]))
    assert metrics["penalty/after"] < metrics["penalty/before"]
    assert params["engine"] == "gibbs"
    assert params["engine.sweeps"] == "2000"
    assert tags["predictions"] == str(world.folder / "reference")
    assert tags["mlflow.user"]
    assert tags["mlflow.note.content"].startswith("labelled 48 of 48 documents; ")
    assert kinds == [("custom_model_development",)]
    (report,) = world.folder.glob(f"home/artifacts/**/{run}/artifacts/report.md")
    kept = {path.relative_to(report.parent).as_posix() for path in report.parent.rglob("*") if path.is_file()}
    assert kept >= {"manifest.json", "tables/constraints.csv", "plots/constraints.png"}
    assert status == ("FINISHED",)
    assert len(digests) >= 2


def runs_into(world: World, out: str) -> list[Any]:
    """The runs of the flow into a folder."""
    return [run for run in flow_runs(world) if run["parameters"]["out"] == out]


def test_prefect_has_the_flow_run(world: World, reference: Any) -> None:
    assert reference["documents"] == 48
    names = {run["name"] for run in flow_runs(world) if run["state_type"] == "COMPLETED"}
    assert "test with model · first night" in names


def test_prefect_tries_again_what_failed(world: World, trained: Any) -> None:
    """As often as it is told to; only the last time is the run a failed one."""
    assert trained["documents"] == 80
    (world.folder / "titles").mkdir()
    pq.write_table(pa.table({"title": ["x"]}), world.folder / "titles" / "a.parquet")
    patient = replace(world, env=world.env | {"PREFECT_FLOW_DEFAULT_RETRIES": "1"})
    patient.run("reprocess", "--corpus", "titles", "--model", "model", "--out", "titled", code=Exit.INPUT)
    (run,) = runs_into(world, "titled")
    assert (run["state_type"], run["run_count"]) == ("FAILED", 2)
    assert "a.parquet: there is neither a column" in run["state"]["message"]
    assert run["tags"] == ["concord", "failed"]
    said = [line["message"] for line in asked(world, "logs", run["id"])]
    assert sum("a.parquet: there is neither a column" in line for line in said) == 3, said
    assert not any("Traceback" in line for line in said), said


def test_prefect_shows_what_a_night_came_to(world: World, reference: Any) -> None:
    """Message of the state, tags, a page in Markdown, progress, and log lines with counts."""
    (run,) = (run for run in runs_into(world, "reference") if "labelled" in run["tags"])
    assert run["state"]["message"].startswith("labelled 48 of 48 documents; ")
    assert run["tags"] == ["concord", "labelled"]
    artifacts = {artifact["key"]: artifact for artifact in asked(world, "artifacts", run["id"]) if artifact["key"]}
    assert "| labelled | by this run, without an answer to keep | 48 |" in artifacts["reprocess-reference"]["data"]
    assert reference["mlflow_run"] in artifacts["reprocess-reference"]["data"]
    assert artifacts["reprocess-labelling"]["data"] == 100
    said = [line["message"] for line in asked(world, "logs", run["id"])]
    assert any(line.startswith("labelling: 48 of 48 documents") for line in said), said


def test_drift_is_a_tag_an_event_and_an_exit_code(world: World, reference: Any) -> None:
    """The model alone, then with its constraints: penalties fall in most documents. Both times the output is whole."""
    assert reference["documents"] == 48
    plain = ("reprocess", "--corpus", "test", "--model", "model", "--out", "drifted", "--json", "--fail-on-drift")
    first = world.run_on_ray(*plain, "--engine", "viterbi")
    assert first["drift"] is None
    night = world.run_on_ray(*plain, code=Exit.DRIFT)
    assert night["drift"]["changed"] > 0
    breaches = [move["figure"] for move in night["drift"]["movements"] if move["breach"]]
    assert "penalty" in breaches
    (run,) = (run for run in runs_into(world, "drifted") if "drift" in run["tags"])
    assert run["state_type"] == "FAILED"
    query = json.dumps({"filter": {"event": {"name": ["concord.drift"]}}}).encode()
    request = urllib.request.Request(f"{world.prefect}/events/filter", query, {"Content-Type": "application/json"})
    wait_for_event(request, [move for move in night["drift"]["movements"] if move["breach"]])
    history = world.run("history", "--run", "drifted", "--json")
    assert [line["line"]["labelled"] for line in history["nights"]] == [48, 48]
    assert history["nights"][1]["changed"]["engine"] == ["viterbi", "certify"]
    assert history["nights"][1]["line"]["mlflow_run"] == night["mlflow_run"]
    assert world.run_on_ray(*plain)["drift"] is None


def wait_for_event(request: urllib.request.Request, movements: list[Any]) -> None:
    """Until the server has the event, which it takes in later."""
    deadline = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(request, timeout=30) as answer:
            events = json.load(answer)["events"]
        if events:
            assert events[0]["resource"]["prefect.resource.name"] == "drifted"
            assert events[0]["payload"]["movements"] == movements
            return
        assert time.monotonic() < deadline, "no event"
        time.sleep(0.5)


def test_evaluate_agrees_with_the_run(world: World, reference: Any) -> None:
    answer = world.run("evaluate", "--run", "reference", "--corpus", "test", "--json")
    counts = {"documents", "tokens", "certified", "by_solver", "max_gap", "token_accuracy"}
    assert set(answer) == counts | {"measures", "against"}
    assert list(answer["measures"]) == ["spans"]
    spans = answer["measures"]["spans"]
    assert (answer["documents"], answer["tokens"]) == (reference["documents"], reference["tokens"])
    assert answer["certified"] == reference["certified"]
    assert answer["by_solver"] == reference["by_solver"]
    assert answer["max_gap"] == reference["max_gap"]
    totals = json.loads((world.folder / "reference" / "manifest.json").read_text())["totals"]
    for name, row in spans["names"].items():
        assert {kind: row[kind] for kind in ("gold", "predicted", "correct")} == totals["measures"]["spans"][name]


def test_certificates_of_a_run_are_verified(world: World, trained: Any) -> None:
    assert trained["documents"] == 80
    options = ("--corpus", "test", "--model", "model", "--engine", "certify", "--certificates")
    run = world.run_on_ray("reprocess", *options, "--out", "proven", "--json")
    assert (run["documents"], run["certified"], run["by_solver"]) == (48, 1.0, 0.0)
    report = world.run("verify", "--run", "proven", "--json")
    assert (report["documents"], report["optimal"], report["failed"]) == (48, 48, [])
    assert (report["by_solver"], report["open"]) == (0, 0)


def test_a_damaged_row_group_fails_its_shard_and_the_rest_goes_on(world: World, trained: Any) -> None:
    assert trained["documents"] == 80
    damage_a_copy(world)
    answer = world.run_on_ray(
        *("reprocess", "--corpus", "hurt", "--model", "model", "--out", "hurt-out", "--engine", "viterbi", "--json"),
        code=4,
    )
    assert (answer["shards_failed"], answer["documents"]) == (1, 44)
    assert answer["shards_done"] > 0
    assert "row group 3 is damaged" in answer["errors"][0]
    assert not (world.folder / "hurt-out" / "manifest.json").exists()
    with closing(sqlite3.connect(world.folder / "home" / "mlflow.db")) as store:
        status = store.execute("select status from runs where run_uuid = ?", [answer["mlflow_run"]]).fetchone()
        tags = dict(store.execute("select key, value from tags where run_uuid = ?", [answer["mlflow_run"]]))
        metrics = dict(
            store.execute("select key, value from latest_metrics where run_uuid = ?", [answer["mlflow_run"]])
        )
    assert status == ("FAILED",)
    assert tags["failures"] == answer["errors"][0]
    assert (metrics["shards/done"], metrics["shards/failed"]) == (answer["shards_done"], 1)
    (run,) = (r for r in flow_runs(world) if r["id"] == tags["prefect.flow_run"])
    assert run["state_type"] == "FAILED"
    reason = visible(" ".join(answer["errors"][0].split()))
    assert run["state"]["message"] == f"1 of {answer['shards_done'] + 1} shards failed: {reason}"
    assert run["tags"] == ["concord", "failed", "failed shards"]
    said = [line["message"] for line in asked(world, "logs", run["id"])]
    assert run["state"]["message"] in said
    assert not any("Traceback" in line for line in said), said
