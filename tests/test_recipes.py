"""The recipes of CONTRIBUTING.md, followed in a copy of the tree: which files they touch, and that they do."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from concord.workers.compiling.code import ROOT
from tests.support.copied import copied

OF_ENGINES, OF_READERS, OF_TRAINERS = (
    f"concord/workers/{room}/settings.py" for room in ("inference", "corpus", "models")
)
"""Where the options of each kind stand."""


class Recipe(NamedTuple):
    """A new file, what is added to files that are there (file, before which line, text), and a use of it."""

    file: str
    code: str
    lines: tuple[tuple[str, str, str], ...]
    use: str


ENGINE = Recipe(
    "concord/workers/inference/chains/best_token.py",
    '''
"""The best label of each token, whatever stands beside it."""
from concord.schemas.decoded import Status
from concord.workers.inference.core.engine import UNLIMITED

def solve(problem, *, config, rng, budget=UNLIMITED, incumbent=None):
    """Labels every token by itself, shifted by ``config.shift``."""
    labels = (problem.potentials.unary.argmax(axis=1) + config.shift).astype("int32")
    return problem.decoded(labels, bound=float("inf"), status=Status.FEASIBLE)
''',
    (
        (
            OF_ENGINES,
            "class CpSatSettings(EngineSettings):",
            "class BestTokenSettings(EngineSettings):\n"
            '    """The best token."""\n\n    shift: int = Field(0, ge=0, description="Labels to shift by.")\n\n\n',
        ),
        (
            "concord/workers/inference/registry.py",
            '    "cpsat": Solver(',
            '    "best-token": Solver(best_token.solve, BestTokenSettings, "each best", exact=False),\n',
        ),
        (
            "concord/workers/inference/registry.py",
            "OWN: dict",
            "from concord.workers.inference.settings import BestTokenSettings\n"
            "from concord.workers.inference.chains import best_token\n",
        ),
    ),
    """
from concord.testing.problems import (random_problem)
from concord.workers.inference.registry import Decoder
import numpy as np
problem = random_problem(np.random.default_rng(0))
assert Decoder.of("best-token")(problem, "d").labels.shape == (len(problem),)
from concord.flows.cli.catalogue import engines
assert any(entry.name == "best-token" and "shift" in str(entry) for entry in engines())
""",
)

TEMPLATE = Recipe(
    "concord/workers/constraints/templates/ends_with.py",
    '''
"""Which labels a document ends with."""
from concord.workers.constraints.rows import Draft, forbidden_labels
from concord.workers.constraints.templates.template import Names, RowTemplate, Scope, Site

class EndsWith(RowTemplate):
    """The last token has one of the labels. Degree: 0 or 1 a document."""

    labels: Names

    def rows(self, site: Site) -> Draft:
        """One row a document."""
        return forbidden_labels(site.bounds(Scope.DOCUMENT)[1] - 1, ~site.mask_of(self.labels))
''',
    (
        ("concord/workers/constraints/templates/registry.py", '    "linear": Linear,', '    "ends_with": EndsWith,\n'),
        (
            "concord/workers/constraints/templates/registry.py",
            "OWN: dict",
            "from concord.workers.constraints.templates.ends_with import EndsWith\n",
        ),
    ),
    """
import pathlib
from concord.workers.constraints.constraint_file import load_constraints
file = pathlib.Path("rules.yaml")
file.write_text("constraints:\\n  - template: ends_with\\n    labels: [O]\\n    weight: 2.5\\n")
assert [type(t).__name__ for t in load_constraints(file).templates if type(t).__name__ == "EndsWith"]
""",
)

READER = Recipe(
    "concord/workers/corpus/readers/words.py",
    '''
"""A document a file, words apart by spaces."""
from concord.schemas.document import Document
from concord.workers.corpus.readers.reader import source_files

def read_words(source, settings):
    """Each file is a document of one sentence."""
    for path, name in source_files(source):
        words = path.read_text().split()
        yield Document.build(name, [[w.lower() for w in words] if settings.lower else words])
''',
    (
        (
            OF_READERS,
            "class IngestSettings(Settings):",
            "class WordsSettings(ReaderSettings):\n"
            '    """Words."""\n\n    lower: bool = Field(False, description="whether words are made lower case")\n\n\n',
        ),
        (
            "concord/workers/corpus/readers/registry.py",
            '    "text": TEXT_READER,',
            '    "words": ReaderEntry(read_words, WordsSettings, "words apart by spaces"),\n',
        ),
        (
            "concord/workers/corpus/readers/registry.py",
            "OWN: dict",
            "from concord.workers.corpus.settings import WordsSettings\n"
            "from concord.workers.corpus.readers.words import read_words\n",
        ),
    ),
    """
import pathlib
from concord.flows.cli.app import app
from typer.testing import CliRunner
pathlib.Path("source").mkdir()
pathlib.Path("source/a.txt").write_text("Ada Lovelace wrote")
done = CliRunner().invoke(app, ["ingest", "words", "source", "--out", "corpus", "--set", "lower=true", "--json"])
assert done.exit_code == 0, done.output
assert '"written": 1' in done.output
assert "words" in CliRunner().invoke(app, ["list", "readers", "--json"]).output
""",
)

MODEL = Recipe(
    "concord/workers/models/flat.py",
    '''
"""Every label is as good as every other."""
import json
import numpy as np
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.models.folder import MANIFEST, Manifest

KIND = "flat"

class Flat:
    """Scores of zero."""

    def __init__(self, manifest):
        self.labels, self.digest, self.columns = manifest.label_set, manifest.digest, ()

    def potentials(self, batch):
        """Zeros."""
        width = len(self.labels)
        return Potentials(np.zeros((batch.token_count, width)), np.zeros((width, width)), batch.sentence_starts)

def load(folder):
    """The model in the folder."""
    return Flat(Manifest.model_validate_json((folder / MANIFEST).read_bytes()))
''',
    (("pyproject.toml", 'onnx = "concord.workers.models.onnx:load"', 'flat = "concord.workers.models.flat:load"\n'),),
    """
import pathlib
from concord.schemas.document import Batch, Document
from concord.workers.models.folder import Manifest
from concord.workers.models.loaders import load_model
folder = pathlib.Path("flat"); folder.mkdir()
names = ("O", "B-PER", "I-PER")
manifest = Manifest(kind="flat", labels=names, scheme="bio", settings={}, versions={}, training={}, files={})
(folder / "manifest.json").write_text(manifest.model_dump_json())
batch = Batch.of([Document.build("d", [["Ada", "wrote"]])])
assert load_model(folder).potentials(batch).unary.shape == (2, 3)
""",
)

TRAINER = Recipe(
    "concord/workers/learning/trainers/transitions.py",
    '''
"""A CRF that knows which labels follow each other, and nothing of words."""
from itertools import pairwise
import numpy as np
from concord.schemas.labels import LabelSet
from concord.workers.features.scorer import compile_weights
from concord.workers.features.templates import feature_set
from concord.workers.learning.trainers.trainer import TrainingCounts
from concord.workers.models.crf import LearnedCrf, save
from concord.workers.models.folder import begin

NAME = "transitions"

def train(documents, *, settings, out, progress=None):
    """Log odds of each pair of labels."""
    read, features = TrainingCounts(("tokens",)), feature_set("finkel-nopos")
    gold = [read.gold(document) for document in documents]
    training = read.training(NAME, settings)
    labels = LabelSet.infer(read.names)
    counts = np.full((len(labels), len(labels)), settings.prior)
    for names in gold:
        for a, b in pairwise(labels.encode(names).tolist()):
            counts[a, b] += 1
    nothing = np.zeros(0, np.int32)
    weights = compile_weights(features, [], nothing, nothing, np.zeros(0))
    transition = np.log(counts / counts.sum(axis=1, keepdims=True))
    begin(out)
    missing = np.zeros(len(labels), np.bool_)
    return save(out, LearnedCrf(labels, features, weights, transition, missing), settings=settings, training=training)
''',
    (
        (
            OF_TRAINERS,
            "class ScoresSettings(Settings):",
            "class TransitionsSettings(TrainerSettings):\n"
            '    """Transitions."""\n\n    prior: float = Field(1.0, gt=0, description="Of each pair.")\n\n\n',
        ),
        (
            "concord/workers/learning/trainers/registry.py",
            "    crfsuite.NAME: Trainer(",
            "    transitions.NAME: Trainer(transitions.train, TransitionsSettings),\n",
        ),
        (
            "concord/workers/learning/trainers/registry.py",
            "DEFAULT = ",
            "from concord.workers.models.settings import TransitionsSettings\n"
            "from concord.workers.learning.trainers import transitions\n\n",
        ),
    ),
    """
import pathlib
from concord.flows.cli.catalogue import trainers
from tests.support.made_corpora import corpus
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.loaders import load_model
trainer = TRAINERS["transitions"]
model = trainer.train(corpus(0, 8), settings=trainer.settings(prior=0.5), out=pathlib.Path("made"))
assert load_model(pathlib.Path("made")).digest == model.digest
assert model.transition[0, 1] > model.transition[0, 2]  # O, B-LOC, I-LOC
assert any(entry.name == "transitions" and "prior" in str(entry) for entry in trainers())
""",
)

RECIPES = {
    "engine": (ENGINE, {OF_ENGINES, "concord/workers/inference/registry.py"}),
    "template": (TEMPLATE, {"concord/workers/constraints/templates/registry.py"}),
    "reader": (READER, {OF_READERS, "concord/workers/corpus/readers/registry.py"}),
    "model": (MODEL, {"pyproject.toml"}),
    "trainer": (TRAINER, {OF_TRAINERS, "concord/workers/learning/trainers/registry.py"}),
}
"""Each with the files it touches beside the new one: settings, and what names it."""


def make_known(checkout: Path) -> None:
    """Leaves there what `make` installs of a checkout that all code is imported from: its name and entry points."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    info = checkout / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, parts in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in parts.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_and_touches_no_other_file(name: str, tmp_path: Path) -> None:
    recipe, expected = RECIPES[name]
    copied(tmp_path, "tests")
    shutil.copy(ROOT.parent / "pyproject.toml", tmp_path)
    assert not (tmp_path / recipe.file).exists()
    (tmp_path / recipe.file).write_text(recipe.code)
    for file, before, text in recipe.lines:
        path = tmp_path / file
        code = path.read_text()
        assert code.count(before) == 1, f"{before!r} in {file}"
        path.write_text(code.replace(before, text + before))
    assert {file for file, _, _ in recipe.lines} == expected
    make_known(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", recipe.use], cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
