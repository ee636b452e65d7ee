"""A package that adds a part of each kind, installed beside a concord that knows nothing of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from concord.flows.cli.failures import Exit
from concord.schemas.distribution import DISTRIBUTION
from tests.support.foreign_package import PACKAGE, installed

KINDS = {
    "commands": "longest",
    "engines": "restarts",
    "features": "ends",
    "measures": "sentences",
    "methods": "last-label",
    "models": "word-counts",
    "penalties": "doubled",
    "readers": "pipes",
    "templates": "ends_with",
    "tokenizers": "commas",
    "trainers": "word-counts",
    "writers": "bars",
}

LISTING = """
import json
from tests.support.registries import REGISTRIES
print(json.dumps({
    group.partition(".")[2]: {name: registry.distribution(name) for name in registry if registry[name]}
    for group, registry in REGISTRIES.items()
}))
"""


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return installed(PACKAGE, tmp_path_factory.mktemp("spare"))


def concord(env: dict[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from concord.flows.cli.app import app; app()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd, check=False)


def python(script: str, env: dict[str, str], cwd: Path) -> str:
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, cwd=cwd, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_part_of_each_kind_is_listed_with_its_package(env: dict[str, str], tmp_path: Path) -> None:
    found = json.loads(python(LISTING, env, tmp_path))
    # A task or a page of another package would need a flow of its own, which hands it out.
    assert set(found) - {"tasks", "pages"} == set(KINDS)
    for kind, name in KINDS.items():
        assert {other for other, origin in found[kind].items() if origin != DISTRIBUTION} == {name}
        assert found[kind][name] == "spare-parts"
        assert list(found[kind])[-1] == name


def test_a_form_of_its_own_is_known_to_all_readers(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ada|B-PER\nran|O\n")
    refused = concord(env, tmp_path, "ingest", "addresses", "a.txt", "--out", "corpus")
    assert refused.returncode == Exit.INPUT
    said = "a.txt: this is lines of a word, a bar and its label, which the reader 'addresses' does not take; "
    assert said + "`concord ingest pipes a.txt --out FOLDER` does" in refused.stderr
    assert concord(env, tmp_path, "ingest", "pipes", "a.txt", "--out", "corpus").returncode == 0
    (tmp_path / "b.txt").write_text("<author> B. </author> <title> Rain </title>\n")
    refused = concord(env, tmp_path, "ingest", "pipes", "b.txt", "--out", "corpus", "--overwrite")
    assert "b.txt: this is lines of fields in inline tags, which the reader 'pipes' does not take; " in refused.stderr


LISTED = """
from typer.testing import CliRunner
from concord.flows.cli.app import app
for kind in {kinds}:
    print(CliRunner().invoke(app, ["list", kind, "--json"]).stdout.strip())
"""


def test_the_command_lists_them_all(env: dict[str, str], tmp_path: Path) -> None:
    kinds = sorted(KINDS.keys() - {"models", "commands"})
    found = python(LISTED.format(kinds=kinds), env, tmp_path).splitlines()
    for kind, line in zip(kinds, found, strict=True):
        (shown,) = json.loads(line).values()
        assert KINDS[kind] in [entry["name"] for entry in shown]
        assert all(entry["summary"] for entry in shown)


def test_the_page_for_authors_shows_this_package_and_names_every_kind() -> None:
    page = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    blocks = re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
    pieces = [block for block in blocks if "def test_" not in block]
    tests = [function for block in blocks if "def test_" in block for function in block.split("\n\n\n")]
    assert len(pieces) == len(KINDS)
    assert len(tests) == 10
    for piece in (*pieces, *tests):
        assert any(piece in source for source in sources), piece
    (registration,) = re.findall(r"```toml\n(.*?)\n```", page, re.DOTALL)
    assert registration in (PACKAGE / "pyproject.toml").read_text()
    assert all(f"| `concord.{kind}` |" in page for kind in KINDS)


def test_its_own_tests_pass(env: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(PACKAGE / "tests", tmp_path / "tests")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout
    assert "11 passed" in run.stdout


USED = """
import concord
from concord.flows.cli.app import app
from pathlib import Path
from typer.testing import CliRunner

Path("a.txt").write_text("\\n".join("Ann|B-PER\\nmet|O\\nAda|B-PER\\n.|O\\n" for _ in range(12)))
Path("rules.yaml").write_text("constraints:\\n  - template: ends_with\\n    labels: [PER]\\n    weight: hard\\n")
assert concord.ingest("pipes", "a.txt", out="corpus").written == 12
report = concord.train("corpus", out="model", trainer="word-counts", consistency=False)
assert report.figures["documents"] == 12, report
concord.train("corpus", out="crf", trainer="lbfgs", features="ends", consistency=False)
model = concord.load("model", engine="restarts", options={"restarts": 2}, constraints=["rules.yaml"])
answer = model.label_tokens([["Ann", "met", "Ada"], ["."]])
print(answer.labels[-1], [name for name in model.constraints])
concord.reprocess("corpus", model="crf", out="out", workers=0)
print(CliRunner().invoke(app, ["longest", "--run", "out"]).output)
assert concord.load("crf").label_tokens([["Ann", "met", "Ada", "."]]).labels[0] == "B-PER"
"""


def test_its_command_is_listed_and_tells_errors_in_a_line(env: dict[str, str], tmp_path: Path) -> None:
    assert re.search(r"longest +Show the document of a run", concord(env, tmp_path, "--help").stdout)
    assert "Folder of a finished run." in concord(env, tmp_path, "longest", "--help").stdout
    ended = concord(env, tmp_path, "longest", "--run", "nowhere")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (Exit.INPUT, "", 1)


def test_without_a_cluster_its_reader_trainer_model_features_engine_and_template_do_their_work(
    env: dict[str, str], tmp_path: Path
) -> None:
    answer, longest = python(USED, env, tmp_path).strip().splitlines()[-2:]
    assert re.fullmatch(r"\S+: 4 tokens", longest)
    label, names = answer.split(" ", 1)
    assert label in ("B-PER", "I-PER")
    assert names == "['ends_with(PER)']"


LABEL = ["label", "--model", "nowhere", "--engine", "restarts", "Ann met Ada."]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "from __future__ import annotations\n",
            "from __future__ import annotations\nimport nowhere_to_be_found\n",
            "package spare-parts 0.3, entry point concord.engines 'restarts' = spare_parts.engine:RESTARTS: cannot be "
            "imported: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        (
            "RESTARTS = Solver(",
            "RESTARTS = dict(x=",
            "package spare-parts 0.3, entry point concord.engines 'restarts' = spare_parts.engine:RESTARTS: cannot be "
            "imported: SyntaxError: positional argument follows keyword argument",
        ),
        (
            "RESTARTS = Solver(solve, ",
            "RESTARTS = (solve, Solver)[0:1]\nOTHER = Solver(solve, ",
            "package spare-parts 0.3, entry point concord.engines 'restarts' = spare_parts.engine:RESTARTS: want a "
            "Solver, not a tuple",
        ),
        (
            "restarts = ",
            "gibbs = ",
            "package spare-parts 0.3, entry point concord.engines 'gibbs' = spare_parts.engine:RESTARTS: concord has a "
            "part of that name itself; give yours another one",
        ),
    ],
    ids=["import", "syntax", "type", "name"],
)
def test_a_broken_one_is_one_clear_line(env: dict[str, str], old: str, new: str, said: str, tmp_path: Path) -> None:
    good, rest = env["PYTHONPATH"].split(os.pathsep)
    site = shutil.copytree(good, tmp_path / "broken", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (site / "spare_parts" / "engine.py", *site.glob("*.dist-info/entry_points.txt")):
        file.write_text(file.read_text().replace(old, new, 1))
    env = env | {"PYTHONPATH": os.pathsep.join((str(site), rest))}
    for arguments in (LABEL, ["list", "engines"]):
        run = concord(env, tmp_path, *arguments)
        assert run.returncode == 3
        assert " ".join(run.stderr.split()).startswith(f"concord: {said}")
        assert "Traceback" not in run.stderr
    assert run.stdout == ""
