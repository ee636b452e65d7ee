"""Learning under constraints: every step against enumeration, the plain perceptron as its limit, and what is saved."""

from __future__ import annotations

import math
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from concord.schemas.arrays import Floats, Mask
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import row_weights, with_weights
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import Template
from concord.workers.inference.registry import Decoder, EngineError
from concord.workers.learning.estimation.chains import FeatureClasses, TrainingChains
from concord.workers.learning.estimation.constrained import ConstrainedPerceptron, Point, grounded
from concord.workers.learning.estimation.perceptron import run_passes
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.folder import CONSTRAINTS_FILE, ModelError
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import PerceptronSettings
from tests.support.made_chains import EVERYTHING, chains_of

NAMES = ["L", "O", "P"]
LABELS = LabelSet.infer(NAMES)
FEATURES = ["finkel-nopos", "finkel-nopos+pairs:fields"]
FILE = """constraints:
  - {template: adjacency, name: after P no P, first: P, second: [O, L], weight: 1.5}
  - {template: starts_with, name: P first, labels: P, weight: 2}
  - {template: lexicon, name: of, words: [of], labels: O, weight: hard}
"""
SENTENCES = [
    [(["Ada", "of", "Ems"], ["P", "O", "L"]), (["Ada"], ["P"])],
    [(["Ems", "won"], ["L", "O"])],
    [(["Ada", "Ems"], ["P", "P"])],
    [(["of"], ["O"]), (["Ems", "Ada", "won"], ["L", "P", "O"])],
    [(["of", "of"], ["O", "L"])],
]


def _documents() -> list[Document]:
    return [
        Document.build(str(i), [words for words, _ in rows], labels=[gold for _, gold in rows])
        for i, rows in enumerate(SENTENCES)
    ]


@pytest.fixture
def constraints(tmp_path: Path) -> DeclaredConstraints:
    (tmp_path / "c.yaml").write_text(FILE)
    return load_constraints(tmp_path / "c.yaml").bind(LABELS)


def _learner(
    chains: TrainingChains,
    documents: list[Document],
    constraints: DeclaredConstraints,
    learned: list[bool],
    engine: str,
) -> ConstrainedPerceptron:
    order = np.arange(3, dtype=np.int32)
    decoder = Decoder.of(engine)
    found = grounded(Batch.of(documents), constraints, LABELS)
    return ConstrainedPerceptron(chains, LABELS, order, found, np.array(learned), decoder, 50.0)


HARD = 1e9
"""What a hard constraint costs where all labellings are tried."""
FREE = ("after P no P", "P first")


class Plain:
    """The same by trying all labellings of a document; scores from dense arrays of features."""

    def __init__(self, chains: TrainingChains, documents: list[Document], constraints: DeclaredConstraints) -> None:
        self.features, self.of_pairs = _dense(chains), _dense(chains.pairs)
        self.batch, self.gold = Batch.of(documents), chains.gold.labels
        self.rows = [ground.rows for ground in constraints.ground(self.batch, LABELS)]
        self.names = len(constraints.names)

    def degrees(self, d: int, labels: Labels) -> Floats:
        found: Floats = np.bincount(self.rows[d].constraint, self.rows[d].degree(labels), self.names).astype(np.float64)
        return found

    def pairs(self, d: int, labels: Labels) -> list[tuple[int, int, int]]:
        """Token of the batch, label before and label of each pair."""
        document, first = self.batch.document(d), int(self.batch.doc_starts[d])
        starts = set(document.sentence_starts.tolist())
        return [(first + t, *labels[t - 1 : t + 1].tolist()) for t in range(len(labels)) if t not in starts]

    def score(self, d: int, labels: Labels, point: Point) -> float:
        own = self.features[self.batch.doc_starts[d] : self.batch.doc_starts[d + 1]] @ point.states
        local = own[np.arange(len(labels)), labels].sum()
        for t, x, y in self.pairs(d, labels):
            local += point.transitions[x, y] + self.of_pairs[t] @ point.pairs[:, 3 * x + y]
        return float(local - (point.penalty * self.degrees(d, labels)).sum())

    def step(self, d: int, point: Point, learned: Mask) -> None:
        a, b = self.batch.doc_starts[d], self.batch.doc_starts[d + 1]
        ways = [np.array(way, np.int32) for way in product(range(3), repeat=int(b - a))]
        found, gold = max(ways, key=lambda way: self.score(d, way, point)), self.gold[a:b]
        moved = np.maximum(0.0, point.penalty + self.degrees(d, found) - self.degrees(d, gold))
        for sign, labels in ((1.0, gold), (-1.0, found)):
            for t, y in enumerate(labels.tolist()):
                point.states[:, y] += sign * self.features[a + t]
            for t, x, y in self.pairs(d, labels):
                point.transitions[x, y] += sign
                point.pairs[:, 3 * x + y] += sign * self.of_pairs[t]
        point.penalty[learned] = moved[learned]


def _dense(classes: FeatureClasses) -> Floats:
    """(N, C) feature values of each token."""
    start, ids = classes.flat
    dense = np.zeros((len(start) - 1, len(classes.value)))
    for t, (a, b) in enumerate(pairwise(start.tolist())):
        dense[t, ids[a:b]] = classes.value[ids[a:b]]
    return dense


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize(("engine", "learned"), [("certify", [True, True, False]), ("astar", [False, False, False])])
def test_every_step_is_that_of_enumeration(
    constraints: DeclaredConstraints, engine: str, learned: list[bool], features: str
) -> None:
    """From random weights, so that no two labellings score the same."""
    documents, passes = _documents(), 4
    chains = chains_of(documents, EVERYTHING, features)
    weights = np.random.default_rng(1).normal(size=chains.size)
    point = Point(*chains.parts(weights), np.where(learned, 0.0, [1.5, 2.0, HARD]))
    plain = Point(*(part.copy() for part in point))
    met = list(_learner(chains, documents, constraints, learned, engine).run(point, passes, np.random.default_rng(3)))
    referee, rng = Plain(chains, documents, constraints), np.random.default_rng(3)
    sums = Point(*(np.zeros_like(part) for part in plain))
    for _ in range(passes):
        for d in rng.permutation(len(documents)).tolist():
            referee.step(d, plain, np.array(learned))
            for total, part in zip(sums, plain, strict=True):
                total += part
    assert met[0].wrong > 0
    assert point.penalty[0] > 0
    for found, total in zip(point, sums, strict=True):
        np.testing.assert_allclose(found, total / (passes * len(documents)), atol=1e-9)


@pytest.mark.parametrize("features", FEATURES)
def test_constraints_that_cost_nothing_leave_the_plain_perceptron(
    constraints: DeclaredConstraints, features: str
) -> None:
    documents = [
        Document.build(f"{i}-{s}", [words], labels=[gold])
        for i, rows in enumerate(SENTENCES)
        for s, (words, gold) in enumerate(rows)
    ]
    chains = chains_of(documents, EVERYTHING, features)
    free = with_weights(constraints.without("of"), dict.fromkeys(FREE, 0.0))
    weights, plain = (np.random.default_rng(2).normal(size=chains.size) for _ in range(2))
    learner = _learner(chains, documents, free, [False, False], "viterbi")
    met = list(learner.run(Point(*chains.parts(weights), np.zeros(2)), 3, np.random.default_rng(5)))
    assert [done.wrong for done in met] == list(run_passes(chains, plain, 3, np.random.default_rng(5)))
    np.testing.assert_allclose(weights, plain, atol=1e-9)


def test_what_cannot_be_kept_is_relaxed_and_counted(constraints: DeclaredConstraints) -> None:
    impossible = DeclaredConstraints(
        tuple(t.model_copy(update={"weight": math.inf}) for t in (*constraints.templates, _never("of")))
    )
    documents = _documents()
    chains = chains_of(documents, EVERYTHING)
    learner = _learner(chains, documents, impossible, [False] * 4, "certify")
    (met,) = learner.run(Point(*chains.parts(np.zeros(chains.size)), np.zeros(4)), 1, np.random.default_rng(0))
    assert met.relaxed == sum("of" in words for rows in SENTENCES for words, _ in rows)


def _never(word: str) -> Template:
    return TEMPLATES["lexicon"].model_validate({"name": "never", "words": [word], "labels": ["P"], "weight": "hard"})


def test_a_model_keeps_its_constraints_as_they_were_learned(constraints: DeclaredConstraints, tmp_path: Path) -> None:
    del constraints
    chosen = {"features": "core", "constraints": str(tmp_path / "c.yaml"), "passes": 3}
    trainer = TRAINERS["perceptron"]
    for name in "ab":
        trainer.train(_documents(), settings=PerceptronSettings.model_validate(chosen), out=tmp_path / name)
    assert load_model(tmp_path / "a").digest == load_model(tmp_path / "b").digest
    written = load_constraints(tmp_path / "a" / CONSTRAINTS_FILE)
    assert written.titles == ("after P no P", "P first", "of")
    assert dict(row_weights(written))["of"] == math.inf
    kept = PerceptronSettings.model_validate(chosen | {"learn": "cibt"})
    trainer.train(_documents(), settings=kept, out=tmp_path / "c")
    same = load_constraints(tmp_path / "c" / CONSTRAINTS_FILE)
    assert [weight for _, weight in row_weights(same)] == [1.5, 2.0, math.inf]
    (tmp_path / "a" / CONSTRAINTS_FILE).write_text("constraints: []")
    with pytest.raises(ModelError, match="SHA-256 differs"):
        load_model(tmp_path / "a")


def test_an_engine_that_is_not_there_is_one_message(constraints: DeclaredConstraints, tmp_path: Path) -> None:
    del constraints
    chosen = PerceptronSettings(features="core", constraints=str(tmp_path / "c.yaml"), engine="none")
    with pytest.raises(EngineError, match="no engine"):
        TRAINERS["perceptron"].train(_documents(), settings=chosen, out=tmp_path / "m")
