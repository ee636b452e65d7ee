"""Folders for temporary files: those of killed processes go, all others stay."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import concord.flows.training.train_model
from concord.flows.cli.app import app
from concord.flows.cluster import ray_folder
from concord.flows.runfolder.runfolder import run_output
from concord.flows.training.train_model import TrainJob, train_model
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.models.settings import SgdSettings
from concord.workers.storage.scratch import STALE_SECONDS, remove_abandoned, scratch_folder
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_tracking import untracked
from tests.support.memory_store import memory_store


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files lie."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def killed(work: Callable[[], object]) -> None:
    """Does it in a process of its own that ends itself by SIGKILL."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def names(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_inside() -> None:
    with scratch_folder() as folder:
        (folder / "model").mkdir()
        dies()


def test_what_a_killed_process_left_goes_with_the_next_folder_that_is_made(place: Path) -> None:
    killed(dies_inside)
    (left,) = names(place)
    with scratch_folder() as folder:
        assert list(place.iterdir()) == [folder]
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(place.iterdir()) == []
    assert left != folder.name


def test_folders_of_others_stay(place: Path) -> None:
    (place / "concord-fold-of-an-older-version").mkdir()
    with scratch_folder() as mine, scratch_folder(prefix="another-") as other:
        killed(dies_inside)
        assert len(names(place)) == 4
        with scratch_folder() as last:
            assert set(place.iterdir()) == {mine, other, last, place / "concord-fold-of-an-older-version"}


def test_a_folder_that_is_not_locked_yet_is_left_for_a_minute(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies_before_the_lock() -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(fcntl, "flock", lambda *_: dies())
            with scratch_folder():
                raise AssertionError

    killed(dies_before_the_lock)
    (left,) = place.iterdir()
    remove_abandoned()
    assert left.exists()
    then = time.time() - STALE_SECONDS - 5.0
    os.utime(left, (then, then))
    remove_abandoned()
    assert names(place) == set()


def test_any_command_takes_away_what_a_killed_one_left(place: Path, tmp_path: Path) -> None:
    killed(dies_inside)
    with scratch_folder() as mine:
        killed(dies_inside)
        assert len(names(place)) == 2
        done = CliRunner().invoke(app, ["synthesize", "--documents", "1", "--out", str(tmp_path / "corpus")])
        assert done.exit_code == 0
        assert names(place) == {mine.name}


def test_a_night_and_a_rollback_take_away_what_a_killed_one_left(place: Path, tmp_path: Path) -> None:
    """Also where no command is given, as in a served flow: both begin by clearing their output."""
    with memory_store() as uri:
        for output in (str(tmp_path / "out"), uri("out")):
            killed(dies_inside)
            assert len(names(place)) == 1
            run_output(output).tidy()
            assert names(place) == set()


def test_what_a_killed_training_left_goes_with_the_next_one(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    write_corpus(list(synthesize(30, seed=0, kind="news")), tmp_path / "corpus", source="test")
    request = TrainJob(
        corpus=str(tmp_path / "corpus"),
        out=str(tmp_path / "model"),
        trainer="sgd",
        settings=SgdSettings(features="finkel", passes=1),
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(concord.flows.training.train_model, "tune_consistency", lambda *_, **__: dies())
        killed(lambda: train_model(request))
    assert len(names(place)) == 1
    train_model(request)
    assert list(place.iterdir()) == []


def test_rays_folders_go_the_same_way(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_folder, "temporary_place", lambda: place)

    def inside() -> None:
        with ray_folder.ray_folder():
            dies()

    killed(inside)
    (left,) = names(place)
    assert left.startswith(ray_folder.PREFIX)
    with scratch_folder():
        assert left in {path.name for path in place.iterdir()}, "each takes away its own kind"
    with ray_folder.ray_folder() as folder:
        assert left not in {path.name for path in place.iterdir()}
        assert folder.token.stat().st_mode & 0o777 == 0o600
    assert list(place.iterdir()) == []
