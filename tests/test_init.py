"""`concord init`: files that the commands take, and nothing written over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import concord.flows.reprocess
from concord.flows import deployed
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.starting import FILES, write_start
from concord.schemas.requests import LabelRequest
from concord.workers.constraints.consistency import CONSISTENCY_FAMILIES
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.labelling.labelled import check_settings
from concord.workers.synthesis.made_up import synthesize
from tests.support.kills import killed_before

ROOT = Path(__file__).parents[1]
NAMES = {"prefect.yaml", "constraints.yaml", "constraints.schema.json", "night.yaml"}


def init(out: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["init", "--out", str(out), *options])


def test_the_files_are_what_prefect_and_the_commands_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "nights"
    done = init(out)
    assert done.exit_code == Exit.OK, done.output
    assert {path.name for path in out.iterdir()} == NAMES
    assert "`concord reprocess --config night.yaml`" in " ".join(done.stderr.split())
    assert load_constraints(out / "constraints.yaml").names
    nightly = yaml.safe_load((out / "prefect.yaml").read_text())["deployments"][0]["parameters"]
    assert nightly["constraints"] == ["constraints.yaml"]
    given = deployed.reprocess.validate_parameters(nightly)
    by_hand = yaml.safe_load((out / "night.yaml").read_text())
    for name in ("corpus", "model", "out", "constraints"):
        assert by_hand[name] == nightly[name]
    assert check_settings(given["settings"]).engine == by_hand["engine"]
    # All that the command misses is the corpus that the file names.
    monkeypatch.chdir(out)
    told = CliRunner().invoke(app, ["reprocess", "--config", "night.yaml"])
    assert told.exit_code == Exit.INPUT
    assert told.stderr.startswith("concord: corpora/news: no such file or folder")


def test_nothing_is_written_over(tmp_path: Path) -> None:
    assert json.loads(init(tmp_path / "a", "--json").stdout)["written"] == [
        str(tmp_path / "a" / name) for name in FILES
    ]
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in NAMES:  # each of the files, whatever is in its place
        (tmp_path / f"{name} mine").mkdir()
        (tmp_path / f"{name} mine" / name).write_text("mine")
        (tmp_path / f"{name} folder" / name).mkdir(parents=True)
        (tmp_path / f"{name} link").mkdir()
        (tmp_path / f"{name} link" / name).symlink_to(tmp_path / "nowhere")
        (tmp_path / f"{name} to").mkdir()
        (tmp_path / f"{name} to" / name).symlink_to(tmp_path / "a" / name)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    for folder in sorted(tmp_path.iterdir()):
        if folder.name != "a":
            told = init(folder)
            assert told.exit_code == Exit.INPUT, folder
            assert "nothing is written over" in " ".join(told.stderr.split())
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert init(tmp_path / "a").exit_code == Exit.OK


def test_the_files_go_beside_others_in_the_folder_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpora").mkdir()
    (tmp_path / ".mine").write_text("mine")
    monkeypatch.chdir(tmp_path)
    done = init(Path())
    assert done.exit_code == Exit.OK, done.output
    assert {path.name for path in tmp_path.iterdir()} == {*NAMES, "corpora", ".mine"}
    assert (tmp_path / ".mine").read_text() == "mine"


def test_the_same_command_ends_what_a_killed_one_has_begun(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    write_start(whole)
    wanted = {path.name: path.read_bytes() for path in whole.iterdir()}
    step = 0
    killed = True
    while killed:
        step += 1
        out = tmp_path / f"killed-{step}"
        killed = killed_before(step, lambda out=out: write_start(out))  # type: ignore[misc]
        assert init(out).exit_code == Exit.OK
        assert {path.name: path.read_bytes() for path in out.iterdir()} == wanted
    assert step > len(wanted)


def test_a_run_by_hand_a_night_and_the_weekly_judge_label_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each would label the corpus anew after the other, and a model would be judged by other answers."""
    init(tmp_path / "nights")
    monkeypatch.chdir(tmp_path / "nights")
    write_corpus(list(synthesize(2, seed=1, kind="news")), Path("corpora/news"), source="made up")
    asked = list[LabelRequest]()
    monkeypatch.setattr(concord.flows.reprocess, "reprocess", asked.append)
    CliRunner().invoke(app, ["reprocess", "--config", "night.yaml"])
    (by_hand,) = asked
    assert by_hand.consistency
    nightly, weekly, _ = (one["parameters"] for one in yaml.safe_load(Path("prefect.yaml").read_text())["deployments"])
    wanted = check_settings(by_hand.settings), [Path(name).name for name in by_hand.constraints]
    for flow, given in ((deployed.reprocess, nightly), (deployed.challenge, weekly)):
        parameters = flow.validate_parameters(given)
        assert (check_settings(parameters["settings"]), list(parameters["constraints"])) == wanted
        assert "consistency" not in given


def test_what_a_model_learns_is_not_among_the_constraints_to_start_with(tmp_path: Path) -> None:
    """They would replace it, at prices that nobody has fitted to the corpus."""
    write_start(tmp_path / "nights")
    declared = load_constraints(tmp_path / "nights" / "constraints.yaml")
    kinds = {TEMPLATES.name_of(type(template)) for template in declared.templates}
    assert kinds
    assert not kinds & set(CONSISTENCY_FAMILIES)


@pytest.mark.slow
@pytest.mark.about("concord/flows/starting/", "concord/workers/constraints/shipped/")
def test_the_constraints_to_start_with_cost_the_default_model_nothing(tmp_path: Path) -> None:
    """By F1 of entities, on documents that the model has not seen."""
    write_start(tmp_path / "nights")
    for name, documents, seed in (("train", 120, 0), ("rest", 80, 1)):
        write_corpus(list(synthesize(documents, seed=seed, kind="news")), tmp_path / name, source="made up")
    typed("train", "--corpus", "train", "--out", "model", folder=tmp_path)
    rules = "nights/constraints.yaml"
    told = typed("constraints", "check", rules, "--corpus", "rest", "--model", "model", "--json", folder=tmp_path)
    (figure,) = json.loads(told)["effect"]["figures"]
    assert figure["measure"] == "spans"
    assert figure["after"] >= figure["before"] - 0.001


def typed(*words: str, folder: Path) -> str:
    """What a command prints, in a process of its own: MLflow warns as it is imported."""
    command = [sys.executable, "-c", "from concord.flows.cli.app import app; app()", *words]
    env = os.environ | {"CONCORD_HOME": str(folder / "home")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True).stdout
