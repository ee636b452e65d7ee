"""A registered model is one of MLflow's own: it loads it, and serves it, without a pickle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import PYTHON, World
from tests.integration.servers import free_port, wait_for

TEXT = "Police met Ada Lovelace. Lovelace told reporters."
LOAD = """
import json, sys, warnings
import mlflow, mlflow.pyfunc.model, pandas
warnings.simplefilter("error")
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model("models:/news@champion")
rows = model.predict(pandas.DataFrame({"tokens": [[["Ada", "wrote", "."]]], "pos": [[["NNP", "VBD", "."]]]}))
print(json.dumps([list(rows.columns), list(rows["labels"][0])]))
"""


def sqlite(world: World) -> str:
    return f"sqlite:///{world.folder / 'home' / 'mlflow.db'}"


def test_mlflow_loads_a_registered_model_by_its_alias(world: World, trained: Any) -> None:
    """That of the tests reads parts of speech, so it is asked sentences."""
    assert trained["registered"] == "models:/news@champion"
    script = [PYTHON, "-c", LOAD, sqlite(world)]
    done = subprocess.run(script, env=world.env, cwd=world.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    columns, labels = json.loads(done.stdout)
    assert columns == ["tokens", "labels", "score", "gap", "status", "entities"]
    assert len(labels) == 3
    (file,) = world.folder.glob(f"home/artifacts/**/{trained['mlflow_run']}/artifacts/model/MLmodel")
    described = yaml.safe_load(file.read_text())
    assert [column["name"] for column in json.loads(described["signature"]["inputs"])] == ["pos", "tokens"]
    assert [path for path in file.parent.rglob("*") if path.suffix == ".pkl"] == []
    assert "concord-nlp==" in (file.parent / "requirements.txt").read_text()


@pytest.mark.slow
def test_mlflow_serves_a_registered_model(world: World, trained: Any, tmp_path: Path) -> None:
    """Of words alone: it is asked texts. A text that cannot be labelled is the asker's mistake (400)."""
    assert trained["documents"] == 80
    given = ("--features", "core+mentions+entities", "--out", "plain", "--register", "plain")
    world.run("train", "--corpus", "train", *given, "--no-consistency", "--json")
    port = free_port()
    there = {"MLFLOW_TRACKING_URI": sqlite(world), "PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}"}
    command = [PYTHON, "-m", "mlflow", "models", "serve", "-m", "models:/plain@champion", "--env-manager", "local"]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "-p", str(port)],
            env=world.env | there,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/ping", server)
        (answer,) = asked(port, TEXT)["predictions"]
        assert "".join(answer["tokens"]) == TEXT.replace(" ", "")
        assert len(answer["labels"]) == len(answer["tokens"])
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked(port, "  ")
        assert refused.value.code == 400
        refused.value.close()
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(30)


def asked(port: int, text: str) -> Any:
    body = json.dumps({"dataframe_records": [{"text": text}]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/invocations", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as found:
        return json.load(found)
