"""Training, as far as it needs neither Prefect nor MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest

import flows.train
from flows.runfolder.runfolder import RunFolderError, locked
from flows.train import Request, train_model
from schemas.settings import CrfSettings
from tests.test_paths_cli import NoTracking
from workers.corpus.parquet import CorpusError


def train(out: Path, corpus: Path) -> None:
    train_model.fn(Request(corpus=str(corpus), out=str(out), settings=CrfSettings()))


def test_two_trainings_into_one_folder_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows.train, "Tracking", NoTracking)
    model, nowhere = tmp_path / "model", tmp_path / "nowhere"
    link = tmp_path / "link"
    model.mkdir()
    link.symlink_to(model)
    with locked(tmp_path / ".model.lock", model):
        for out in (model, link):
            with pytest.raises(RunFolderError, match=f"^{out}: another run is writing there; wait for its end"):
                train(out, nowhere)
        with pytest.raises(CorpusError):  # another folder is free
            train(tmp_path / "other", nowhere)
    with pytest.raises(CorpusError):  # and so is this one now
        train(model, nowhere)
