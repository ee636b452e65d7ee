"""How a tracked run ends in MLflow."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flows.tracking import Tracking


# MLflow itself uses what SQLAlchemy gives up.
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
def test_a_run_ends_as_what_ended_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path))
    tracking = Tracking(f"sqlite:///{tmp_path / 'runs.db'}")
    with tracking.run("well", tags={}):
        pass
    with pytest.raises(ValueError, match="a bug"), tracking.run("badly", tags={}):
        raise ValueError("a bug")
    with pytest.raises(KeyboardInterrupt), tracking.run("early", tags={}):
        raise KeyboardInterrupt
    with closing(sqlite3.connect(tmp_path / "runs.db")) as store:
        found = dict(store.execute("select name, status from runs").fetchall())
    assert found == {"well": "FINISHED", "badly": "FAILED", "early": "KILLED"}
