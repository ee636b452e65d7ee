"""A package of other authors on a real cluster: its reader, model, engine and template do a run, whose key has it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import PYTHON, World
from tests.support.foreign_package import PACKAGE, installed

MADE = """
import concord
from pathlib import Path

lines = "\\n".join("Ann|B-PER\\nmet|O\\nAda|B-PER\\n.|O\\n" for _ in range(40))
Path("a.txt").write_text(lines)
Path("rules.yaml").write_text("constraints:\\n  - template: ends_with\\n    labels: [PER]\\n    weight: hard\\n")
concord.ingest("pipes", "a.txt", out="corpus")
concord.train("corpus", out="model", trainer="word-counts", consistency=False)
"""

RUN = """
import concord, json
report = concord.reprocess(
    "corpus", model="model", out="out", engine="restarts", options={"restarts": 1}, constraints=["rules.yaml"],
    workers=1,
)
run = concord.read_predictions("out")
last = sorted({document.labels[-1] for document in run})
print(json.dumps([report.documents, report.rejected, report.shards_skipped, last, report.shards_done]))
"""


def python(script: str, env: dict[str, str], cwd: Path) -> str:
    run = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, env=env, cwd=cwd, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip().splitlines()[-1] if run.stdout.strip() else ""


@pytest.mark.slow
@pytest.mark.about("tests/foreign/", "concord/workers/parts.py", "concord/parts.py")
def test_a_run_with_parts_of_another_package_and_again_after_it_changed(world: World, tmp_path: Path) -> None:
    env = world.unwatched().env | {"PYTHONPATH": installed(PACKAGE, tmp_path)["PYTHONPATH"]}
    python(MADE, env, tmp_path)
    documents, rejected, skipped, last, done = json.loads(python(RUN, env, tmp_path))
    assert (documents, rejected, skipped) == (40, 0, 0)
    assert last in (["B-PER"], ["I-PER"])
    assert python("import concord; print(concord.verify('out').failed)", env, tmp_path) == "()"
    assert json.loads(python(RUN, env, tmp_path))[2:] == [done, last, 0]  # nothing is left to do
    engine = Path(env["PYTHONPATH"].split(os.pathsep)[0]) / "spare_parts" / "engine.py"
    engine.write_text(engine.read_text() + "\n# Another version.\n")
    assert json.loads(python(RUN, env, tmp_path))[2:] == [0, last, done]
