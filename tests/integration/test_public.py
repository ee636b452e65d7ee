"""`import concord` as its users see it: every example of its docstrings runs, on real Ray, Prefect and MLflow."""

from __future__ import annotations

import inspect
import subprocess

import pytest

import concord
from tests.integration.conftest import PYTHON, World

EXAMPLES = """
import doctest, json, sys
from importlib import import_module
from itertools import accumulate
from pathlib import Path
import concord

concord.synthesize("corpora/train", documents=60)
concord.synthesize("corpora/test", documents=20, seed=1)
concord.train("corpora/train", out="models/news")
concord.reprocess("corpora/test", model="models/news", out="proven", confidence="marginal", certificates=True,
                  workers=1)
answers = []
for one in concord.read_predictions("proven"):
    places = [0, *accumulate(len(token) + 1 for token in one.tokens)]
    spans = [{"start": places[e["start"]], "end": places[e["end"]] - 1, "label": e["type"]} for e in one.entities]
    answers.append({"id": one.doc_id, "text": " ".join(one.tokens), "spans": spans})
Path("answers.jsonl").write_text("".join(json.dumps(one) + "\\n" for one in answers))
Path("chunks.txt").write_text("Ada NNP B-PER\\nwrote VBD O\\n\\n")
Path("rules.yaml").write_text('''
constraints:
  - {template: only_in, name: numbers are unlabelled, tokens: {pattern: '[0-9.,]+'}, labels: [O], weight: 3}
''')
Path("sweep.yaml").write_text('''
corpora: {news: {train: corpora/train, test: corpora/test}}
models: {crf: {trainer: sgd, options: {features: core}}}
constraints: {none: [], rules: [rules.yaml]}
engines: {viterbi: {}, certify: {}}
''')
known = {"concord": concord, "model": concord.load("models/news")}
flags = doctest.NORMALIZE_WHITESPACE
tried = failed = 0
for name in ("corpora", "rules", "labelling", "problems", "models", "runs", "reviews", "predictions", "sweeps"):
    if name == "predictions":
        known["found"] = concord.read_predictions("out")
    if name == "sweeps":
        concord.sweep("sweep.yaml", out="sweep", workers=1)
        known["found"] = concord.read_sweep("sweep")
    result = doctest.testmod(import_module(f"concord.{name}"), extraglobs=known, optionflags=flags)
    tried, failed = tried + result.attempted, failed + result.failed
print(tried, "examples")
sys.exit(failed)
"""


@pytest.mark.slow
@pytest.mark.about(
    *(f"concord/{name}.py" for name in ("__init__", "labelling", "models", "predictions", "reviews", "runs", "sweeps"))
)
def test_every_example_of_the_public_package_gives_what_it_says(world: World) -> None:
    folder = world.folder / "public"
    folder.mkdir()
    for name in ("flows", "workers", "schemas"):
        # A user's own packages, of the names that ours have inside of concord: nothing here may import them.
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('the folder of a user was imported')")
    typed = [PYTHON, "-W", "error::DeprecationWarning:concord", "-c", EXAMPLES]
    run = subprocess.run(
        typed, cwd=folder, env=world.shared().env, capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(run.stdout.split()[-2]) > 20


def test_every_public_function_has_an_example() -> None:
    for name in concord.PLACES:
        value = getattr(concord, name)
        if not value.__module__.startswith("concord.schemas.") and value is not concord.PredictedDocument:
            assert ">>>" in (inspect.getdoc(value) or ""), name
