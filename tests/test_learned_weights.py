"""Penalties learned from a model's errors: every step against enumeration, and what gets weight and what does not."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from concord.flows.cli.constraints_cli import app
from concord.flows.commands.learning import as_trained
from concord.schemas.arrays import Floats
from concord.schemas.audit import WeighReport
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.schemas.run_context import RunContext
from concord.testing.problems import all_labellings, local_scores
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.features import TokenFeature
from concord.workers.constraints.templates.order import Adjacency
from concord.workers.constraints.templates.presence import MustAppear, StartsWith
from concord.workers.constraints.templates.runs import AppearsOnce
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.inference.registry import Decoder
from concord.workers.learning.estimation.constrained import degrees
from concord.workers.learning.trainers import sgd
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import Progress
from concord.workers.learning.weights.learned_weights import PassDone, PenaltyPerceptron, learn_weights
from concord.workers.learning.weights.penalties import LearnedSettings, PenaltyError
from concord.workers.learning.weights.unseen import Unseen, UnseenAnswers
from concord.workers.models.folder import write_manifest
from concord.workers.models.settings import SgdSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.seeds import over_seeds

LABELS = LabelSet(("A", "B"), Scheme.PLAIN)
RULES = DeclaredConstraints(
    (
        AppearsOnce(name="once", labels=("A",), weight=9.0),
        Adjacency(name="after", first=("A",), second=("B",), weight=9.0),
        StartsWith(name="hard", labels=("A", "B"), weight=math.inf),
        MustAppear(name="kept", labels=("B",), weight=9.0),
    )
)
LEARNED = np.array([True, True, False, True])


def unseen_of(texts: list[list[str]], rng: np.random.Generator) -> Unseen:
    documents = [Document.build(str(i), [["w"] * len(text)], labels=[text]) for i, text in enumerate(texts)]
    potentials = [
        Potentials(rng.normal(size=(len(text), 2)), rng.normal(size=(2, 2)), np.zeros(1, np.int64)) for text in texts
    ]
    return Unseen(documents, potentials, LABELS)


def by_enumeration(unseen: Unseen, order: list[int], rate: float, penalty: Floats, seen: list[Floats]) -> None:
    """One pass: the best of all labellings under the penalties, and the step that its degrees say."""
    for i in order:
        problem = problem_of(unseen.documents[i])
        every = all_labellings(len(unseen.documents[i]), 2)
        broken = np.array([degrees(problem, labels) for labels in every])
        found = int((local_scores(unseen.potentials[i], every) - broken @ np.where(LEARNED, penalty, 0.0)).argmax())
        moved = penalty + rate * (broken[found] - degrees(problem, unseen.gold(i)))
        penalty[LEARNED] = np.maximum(0.0, moved)[LEARNED]
        seen.append(penalty.copy())


def problem_of(document: Document) -> Problem:
    nothing = Potentials(np.zeros((len(document), 2)), np.zeros((2, 2)), np.zeros(1, np.int64))
    (problem,) = build_problems(Batch.of([document]), nothing, LABELS, RULES)
    return problem


@over_seeds(stay=1, many=12)
def test_every_step_is_that_of_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unseen = unseen_of([rng.choice(["A", "B"], size=rng.integers(1, 6)).tolist() for _ in range(12)], rng)
    learner = PenaltyPerceptron(
        UnseenAnswers(unseen, RULES.bind(LABELS), LEARNED, Decoder.of("certify")).excess, LEARNED
    )
    chosen = np.arange(2, 12)
    found = list(itertools.islice(learner.run(chosen, 0.3, np.random.default_rng(seed)), 3))
    penalty, seen, draws = np.zeros(4), list[Floats](), np.random.default_rng(seed)
    for mean in found:
        by_enumeration(unseen, draws.permutation(chosen).tolist(), 0.3, penalty, seen)
        np.testing.assert_allclose(mean, np.mean(seen, axis=0), atol=1e-9)
    assert found[-1].any() or seed  # one draw in thirty gives no penalty; the first always runs


def test_what_errors_break_gets_weight_and_what_they_keep_none() -> None:
    """The model says A A B B where gold has A B B B: `once` says nothing, `after` what is wrong."""
    texts = [["A", "B", "B", "B"]] * 8
    documents = [Document.build(str(i), [["w"] * 4], labels=[text]) for i, text in enumerate(texts)]
    likes = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    potentials = [Potentials(likes, np.zeros((2, 2)), np.zeros(1, np.int64))] * 8
    told: list[PassDone] = []
    chosen = LearnedSettings(rates=(0.01, 0.5), passes=3, measure="labels", figure="accuracy")
    found = learn_weights(Unseen(documents, potentials, LABELS), RULES.bind(LABELS), chosen, progress=told.append)
    assert found.weights.keys() == {"once", "after", "kept"}
    assert found.weights["after"] > 1.0
    assert found.weights["once"] == found.weights["kept"] == 0.0
    assert (found.rate, found.before, found.after) == (0.5, 0.75, 1.0)
    assert [one.rate for one in told[:6]] == [0.01] * 3 + [0.5] * 3
    assert [one.figure for one in told[6:]] == [None] * found.passes


def test_halves_learn_for_each_other() -> None:
    """Penalties of one half are measured on the other: what one half says wrongly of itself does not show."""
    documents = [Document.build(str(i), [["w"] * 2], labels=[["A", "B"] if i % 2 else ["A", "A"]]) for i in range(40)]
    potentials = [Potentials(np.array([[2.0, 0.0], [1.0, 0.0]]), np.zeros((2, 2)), np.zeros(1, np.int64))] * 40
    chosen = LearnedSettings(rates=(0.5,), passes=1, measure="labels", figure="accuracy")
    found = learn_weights(Unseen(documents, potentials, LABELS), RULES.bind(LABELS), chosen)
    assert found.before == 0.75
    assert found.after <= 0.75


def test_each_document_is_scored_by_a_model_of_the_others() -> None:
    given = list(synthesize(12, seed=1, kind="citations"))
    trained: list[set[str]] = []

    def train(documents: Iterable[Document], *, settings: Any, out: Path, progress: Progress | None = None) -> Any:
        trained.append({document.doc_id for document in documents})
        return sgd.train(documents, settings=settings, out=out, progress=progress)

    unseen = Unseen.of(given, train, SgdSettings(features="fields", passes=1), 3)
    assert [len(seen) for seen in trained] == [8, 8, 8]
    assert all(sum(document.doc_id in seen for seen in trained) == 2 for document in given)
    assert [len(scores.unary) for scores in unseen.potentials] == [len(document) for document in given]


FILE = """
constraints:
  - {template: appears_once, name: one title, labels: title, weight: 1}
  - {template: must_appear, name: idle, labels: [author, title, date], weight: 1}
  - {template: starts_with, name: start, labels: [author, editor], weight: hard}
  - {template: token_feature, name: local, tokens: [in], labels: title, weight: -0.1}
"""


def test_the_command_writes_what_has_a_weight(tmp_path: Path) -> None:
    documents = list(synthesize(30, seed=3, kind="citations"))
    write_corpus(documents, tmp_path / "corpus", source="made up", layout=IngestSettings())
    model, file, out = tmp_path / "model", tmp_path / "rules.yaml", tmp_path / "learned.yaml"
    sgd.train(documents, settings=SgdSettings(features="fields", passes=1), out=model)
    file.write_text(FILE)
    options = [word for one in ("folds=2", "passes=1", "rates=0.1") for word in ("--set", one)]
    given = ["weigh", file, "--corpus", tmp_path / "corpus", "--penalty", "learned", "--model", model, *options]
    done = CliRunner().invoke(app, [*map(str, given), "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    report = WeighReport.model_validate(json.loads(done.stdout))
    learning = report.learning
    assert learning is not None
    assert (learning.rate, learning.passes) == (0.1, 1)
    kept = load_constraints(out)
    assert "idle" not in kept.titles
    assert {"start", "local"} <= set(kept.titles)
    assert learning.dropped == 4 - len(kept.titles)
    weights = {row.name: row.weight for row in report.constraints}
    assert weights["start"] == math.inf
    assert isinstance(kept.templates[-1], TokenFeature)
    said = CliRunner().invoke(app, [*map(str, given)])
    assert "learned in 1 passes at rate 0.1" in said.output


def test_learning_goes_on_until_the_other_half_no_longer_gains() -> None:
    """At a low rate four passes are too few; a scale then does what more passes would."""
    texts = [["A", "B", "B", "B"]] * 40
    documents = [Document.build(str(i), [["w"] * 4], labels=[text]) for i, text in enumerate(texts)]
    potentials = []
    for i in range(40):
        # How much a second A is worth differs, so that each pass mends some more.
        likes = np.array([[2.0, 0.0], [0.1 * i, 0.0], [0.0, 9.0], [0.0, 9.0]])
        potentials.append(Potentials(likes, np.zeros((2, 2)), np.zeros(1, np.int64)))
    unseen, rules = Unseen(documents, potentials, LABELS), RULES.only(["after"]).bind(LABELS)
    chosen = LearnedSettings(rates=(0.01,), passes=200, patience=3, scales=(), measure="labels", figure="accuracy")
    told: list[PassDone] = []
    found = learn_weights(unseen, rules, chosen, progress=told.append)
    assert found.passes > 4
    assert found.stopped
    figures = [one.figure for one in told if one.figure is not None]
    assert found.after == max(figures)
    assert figures.index(max(figures)) == len(figures) - 1 - chosen.patience
    few = learn_weights(unseen, rules, chosen.model_copy(update={"passes": 4}))
    assert not few.stopped
    assert few.after < found.after
    scaled = learn_weights(unseen, rules, chosen.model_copy(update={"passes": 4, "scales": (2.0, 4.0)}))
    assert scaled.scale > 1.0
    assert scaled.after > few.after
    assert scaled.weights["after"] == pytest.approx(scaled.scale * few.weights["after"])


def test_where_no_constraint_helps_the_command_writes_an_empty_list(tmp_path: Path) -> None:
    documents = list(synthesize(30, seed=3, kind="citations"))
    write_corpus(documents, tmp_path / "corpus", source="made up", layout=IngestSettings())
    model, file, out = tmp_path / "model", tmp_path / "rules.yaml", tmp_path / "learned.yaml"
    sgd.train(documents, settings=SgdSettings(features="fields", passes=1), out=model)
    file.write_text("constraints:\n- {template: must_appear, name: idle, labels: [author, title, date], weight: 1}\n")
    given = ["weigh", file, "--corpus", tmp_path / "corpus", "--penalty", "learned", "--model", model, "--out", out]
    done = CliRunner().invoke(app, [*map(str, given), "--set", "folds=2", "--set", "passes=1"])
    assert done.exit_code == 0, done.output
    assert "no constraint helps: the list in" in done.output.replace("\n", " ")
    assert load_constraints(out).templates == ()
    used = CliRunner().invoke(app, ["check", str(out), "--corpus", str(tmp_path / "corpus"), "--model", str(model)])
    assert used.exit_code == 0, used.output


@pytest.mark.parametrize(("value", "message"), [(None, None), ("corpora/all", "no longer has pool; train again")])
def test_a_model_of_an_option_that_was_removed_is_trained_as_it_was_or_says_so(
    value: str | None, message: str | None, tmp_path: Path
) -> None:
    """Manifests have all options of their trainer; those that were not given change no training."""
    settings = SgdSettings(features="fields", passes=1)
    model = sgd.train(synthesize(6, seed=3, kind="citations"), settings=settings, out=tmp_path / "model")
    older = model.manifest.model_copy(update={"settings": model.manifest.settings | {"pool": value}})
    write_manifest(tmp_path / "model", older)
    if message is None:
        assert as_trained(str(tmp_path / "model"), RunContext(), why="this").settings == settings
        return
    with pytest.raises(PenaltyError, match=message):
        as_trained(str(tmp_path / "model"), RunContext(), why="this")


def test_a_model_whose_scores_are_no_potentials_says_so_before_the_corpus_is_read(tmp_path: Path) -> None:
    documents = synthesize(6, seed=3, kind="citations")
    TRAINERS["trigram"].train(documents, settings=TRAINERS["trigram"].settings(), out=tmp_path / "model")
    with pytest.raises(TrainingError, match=r"trainer trigram's, .* --penalty odds or tuned"):
        as_trained(str(tmp_path / "model"), RunContext(), why="this")


def test_a_model_whose_resource_is_gone_says_so_before_the_corpus_is_read(tmp_path: Path) -> None:
    settings = SgdSettings(features="fields", passes=1)
    model = sgd.train(synthesize(6, seed=3, kind="citations"), settings=settings, out=tmp_path / "model")
    gone = model.manifest.model_copy(update={"settings": model.manifest.settings | {"vectors": "mine"}})
    write_manifest(tmp_path / "model", gone)
    with pytest.raises(TrainingError, match=r"model: this trains by its settings, .* mine: .* `concord resources add`"):
        as_trained(str(tmp_path / "model"), RunContext(), why="this")
