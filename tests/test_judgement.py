"""Which mined rules help: exact answers by enumeration, planted rules, luck, and the command that writes a file."""

from __future__ import annotations

import itertools
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import concord.flows.commands.mining
import concord.workers.learning.weights.unseen as unseen_module
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.schemas.audit import MineReport
from concord.schemas.document import Batch
from concord.schemas.potentials import Potentials
from concord.testing.problems import all_labellings, local_scores
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import build_problems
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.features import TokenFeature
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.settings import IngestSettings
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.named_counts import Counts
from concord.workers.evaluation.randomization import chances_of_best
from concord.workers.inference.registry import Decoder
from concord.workers.learning.estimation.constrained import answer, degrees
from concord.workers.learning.mining.judgement import JudgedSettings, Judgement, WeightSource, judged
from concord.workers.learning.mining.pools import Pools
from concord.workers.learning.trainers import sgd
from concord.workers.learning.weights.lasting import Answer, LastingAnswers
from concord.workers.learning.weights.unseen import Unseen, UnseenAnswers
from concord.workers.models.settings import SgdSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.in_process import Here
from tests.support.made_fields import COUNTED, LABELS, RULES, unseen_of

LOCAL = TokenFeature(name="local", tokens=("w",), labels=("B",), weight=0.7)


def random_unseen(rng: np.random.Generator, documents: int) -> Unseen:
    texts = [rng.choice(["A", "B"], size=rng.integers(1, 6)).tolist() for _ in range(documents)]
    return unseen_of(texts, [rng.normal(size=(len(text), 2)) for text in texts])


def answers_of(unseen: Unseen, rules: DeclaredConstraints) -> UnseenAnswers:
    return UnseenAnswers(unseen, rules, np.ones(len(rules.names), np.bool_), Decoder.of("certify"))


def test_answers_are_those_of_enumeration_and_idle_rules_change_none() -> None:
    rng, active, idle = np.random.default_rng(0), 0, 0
    rules = DeclaredConstraints((*RULES.templates, LOCAL)).bind(LABELS)
    unseen = random_unseen(rng, 60)
    answers = answers_of(unseen, rules)
    for i, document in enumerate(unseen.documents):
        nothing = Potentials(np.zeros((len(document), 2)), np.zeros((2, 2)), np.zeros(1, np.int64))
        (problem,) = build_problems(Batch.of([document]), nothing, LABELS, RULES)
        every = all_labellings(len(document), 2)
        broken = np.array([degrees(problem, labels) for labels in every])
        local = local_scores(unseen.potentials[i], every) + 0.7 * (every == 1).sum(axis=1)
        weights = rng.exponential(2.0, size=5) * rng.integers(0, 2, size=5)
        found = answers.under(i, weights)
        best = int((local - broken @ weights).argmax())
        np.testing.assert_array_equal(found.labels, every[best])
        np.testing.assert_array_equal(found.degrees, broken[best])
        assert not (found.active & (weights == 0)).any()
        without = np.where(found.active, weights, 0.0)
        np.testing.assert_array_equal(found.labels, every[int((local - broken @ without).argmax())])
        active, idle = active + int(found.active.sum()), idle + int(((weights > 0) & ~found.active).sum())
    assert active > 10
    assert idle > 10


@pytest.mark.parametrize("room", [10**9, 0])
def test_answers_that_last_are_those_of_enumeration_and_save_searches(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that rise and fall a little, as learning moves them; with and without room for the rows of searches."""
    monkeypatch.setattr(unseen_module, "HELD_ENTRIES", room)
    rng, searches, asked = np.random.default_rng(2), 0, 0

    def counted(*given: Any, **more: Any) -> Any:
        nonlocal searches
        searches += 1
        return answer(*given, **more)

    monkeypatch.setattr(unseen_module, "answer", counted)
    unseen = random_unseen(rng, 20)
    answers = answers_of(unseen, RULES.bind(LABELS))
    assert all(answers.alone(i).labels.size for i in range(20))
    searches = 0
    for i, document in enumerate(unseen.documents):
        nothing = Potentials(np.zeros((len(document), 2)), np.zeros((2, 2)), np.zeros(1, np.int64))
        (problem,) = build_problems(Batch.of([document]), nothing, LABELS, RULES)
        every = all_labellings(len(document), 2)
        broken = np.array([degrees(problem, labels) for labels in every])
        local = local_scores(unseen.potentials[i], every)
        weights = np.full(len(RULES.names), 0.2)
        for _ in range(30):
            weights = np.maximum(
                0.0, weights + 0.1 * rng.integers(-1, 3, size=len(weights)) * rng.integers(0, 2, size=len(weights))
            )
            found = answers.under(i, weights)
            scores = local - broken @ weights
            own = int(np.flatnonzero((every == found.labels).all(axis=1))[0])
            assert scores[own] == pytest.approx(scores.max(), abs=1e-9)
            np.testing.assert_array_equal(found.degrees, broken[own])
            asked += bool((answers.alone(i).degrees > 0).any())
    assert asked > 200
    assert 0 < searches < 0.7 * asked


def test_an_answer_does_not_last_where_what_it_breaks_has_another_weight() -> None:
    lasting = LastingAnswers()
    kept = lasting.add(np.array([1.0, 2.0]), Answer(np.zeros(1, np.int32), np.array([0.0, 3.0]), np.ones(2, np.bool_)))
    assert lasting.under(np.array([1.5, 2.0])) is kept
    assert lasting.under(np.array([0.9, 2.0])) is None
    assert lasting.under(np.array([1.0, 2.1])) is None
    assert lasting.under(np.array([1.0, 1.9])) is None


def test_pools_answer_exactly_under_weights_that_they_were_grown_by() -> None:
    rng = np.random.default_rng(1)
    answers = answers_of(random_unseen(rng, 40), RULES)
    pools = Pools.of(answers, "labels")
    tried = [rng.exponential(1.5, size=5) for _ in range(4)]
    new = [pools.grown(np.tile(weights, (40, 1))) for weights in tried]
    assert new[0] > 0
    assert [pools.grown(np.tile(weights, (40, 1))) for weights in tried] == [0] * 4
    for weights in tried:
        rows = pools.chosen(np.tile(weights, (40, 1)))
        exact = [answers.under(i, weights).labels for i in range(40)]
        assert all((pools.labels[row] == own).all() for row, own in zip(rows.tolist(), exact, strict=True))
        np.testing.assert_array_equal(pools.counts(rows), answers.counts(range(40), exact, "labels"))
    silent = set(range(40)) - set(pools.spoken_of(0).tolist())
    assert silent
    assert all(pools.degrees(row)[0] == 0 for i in silent for row in pools.places[i])


def test_chances_of_the_best_are_those_of_all_swaps() -> None:
    rng = np.random.default_rng(2)
    base = rng.integers(1, 5, size=(7, 1, 3))
    right = np.array([0, 0, 1], np.int64)
    others: list[Counts] = [base + right * rng.integers(-1, 2, size=(7, 1, 1)) for _ in range(3)]
    figure = FIGURES["f1"]
    most, swaps = list[float](), list(itertools.product((0, 1), repeat=7))
    for swap in swaps:
        kept = np.array(swap)[:, None, None] == 0
        pairs = [(np.where(kept, base, o).sum(axis=0), np.where(kept, o, base).sum(axis=0)) for o in others]
        most.append(max(float(figure(after) - figure(before)) for before, after in pairs))
    gains = [float(figure(o.sum(axis=0)) - figure(base.sum(axis=0))) for o in others]
    wanted = [np.mean(np.array(most) >= gain - 1e-12) for gain in gains]
    found = chances_of_best(base, others, figure, rng=np.random.default_rng(0), draws=40_000)
    np.testing.assert_allclose(found, wanted, atol=0.01)
    assert min(chances_of_best(base, [base + right], figure, rng=rng, draws=10)) >= 1 / 11
    with pytest.raises(ValueError, match="a draw at least"):
        chances_of_best(base, others, figure, rng=rng, draws=0)


def planted() -> Unseen:
    """Of 60 documents the model writes a second A into 24; 6 have no A, which it knows, if not very surely."""
    texts = [["B"] * 4 if i % 10 == 0 else ["A", "B", "B", "B"] for i in range(60)]
    likes = []
    for i, text in enumerate(texts):
        own = np.array([[2.0, 0.0] if name == "A" else [0.0, 2.0] for name in text])
        if i % 10 == 0:
            own[0] = [0.0, 0.4]
        elif i % 5 in (1, 2):
            own[3] = [0.5, 0.0]
        likes.append(own)
    return unseen_of(texts, likes)


def judge(unseen: Unseen, rules: DeclaredConstraints, **options: object) -> Judgement:
    folds = [i % 5 for i in range(len(unseen.documents))]
    settings = JudgedSettings.model_validate({"measure": "labels", "figure": "accuracy", **options})
    return judged(unseen, folds, rules, [rules] * 5, settings)


@pytest.mark.parametrize("sources", [(source,) for source in WeightSource] + [tuple(WeightSource)])
def test_a_rule_that_mends_stays_and_one_that_the_model_knows_goes(sources: tuple[WeightSource, ...]) -> None:
    unseen = planted()
    found = judge(unseen, COUNTED, sources=sources)
    # Each does what the other does; learned weights may be shared out among both.
    assert 0 < len(found.weights) <= (2 if found.source is WeightSource.LEARNED else 1)
    assert set(found.weights) <= {"one A", "no A after B"}
    assert 0.5 < sum(found.weights.values()) < 7.0
    for name in found.weights:
        assert found.gains[name].documents == 24
        assert found.gains[name].gain.low > 0.05
    assert (found.before, found.after) == (0.9, 1.0)
    assert found.p < 0.001
    assert found.tried >= 2


def test_all_rules_as_counted_cost_what_they_know_twice() -> None:
    unseen = planted()
    answers = answers_of(unseen, COUNTED)
    nats = np.array([template.weight for template in COUNTED.templates])  # type: ignore[attr-defined]
    labels = [answers.under(i, nats).labels for i in range(60)]
    assert sum((own != unseen.gold(i)).any() for i, own in enumerate(labels)) == 6, "an A where there is none"


def test_luck_helps_no_more_often_than_the_level_says() -> None:
    """Gold that has nothing to do with the model: rules gain on some documents what they lose on others."""
    helped = 0
    for seed in range(30):
        found = judge(
            random_unseen(np.random.default_rng(seed), 30), COUNTED, sources=tuple(WeightSource), rounds=2, level=0.05
        )
        helped += bool(found.weights)
        assert bool(found.weights) == (found.p <= 0.05 and found.after > found.before)
    assert helped <= 5, "1.5 are expected, more than 5 in less than one of a hundred times"


def test_rules_that_a_part_does_not_have_are_not_used_there() -> None:
    unseen, folds = planted(), [i % 5 for i in range(60)]
    settings = JudgedSettings(measure="labels", figure="accuracy")
    nothing = RULES.only([])
    found = judged(unseen, folds, COUNTED, [nothing] * 5, settings)
    assert (found.weights, found.after) == ({}, found.before)
    assert judged(unseen, folds, nothing, [nothing] * 5, settings).weights == {}
    only = COUNTED.only(["one A"])
    assert set(judged(unseen, folds, COUNTED, [only] * 5, settings).weights) == {"one A"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    documents = list(synthesize(60, seed=0, kind="citations"))
    write_corpus(documents, folder / "corpus", source="made up", layout=IngestSettings())
    sgd.train(documents[:30], settings=SgdSettings(features="fields", passes=1), out=folder / "model")
    return folder


@pytest.fixture(autouse=True)
def counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's part is that of every count, and tested there."""
    monkeypatch.setattr(concord.flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(None)))


def run(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["constraints", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.stdout if "--json" in words else done.output


def beside(place: Path) -> list[str | Path]:
    return ["--corpus", place / "corpus", "--model", place / "model"]


QUICK = [word for one in ("folds=3", "kinds=once,there,starts,order") for word in ("--set", one)]


def test_the_command_writes_what_helps_or_all_that_holds(place: Path, tmp_path: Path) -> None:
    out, every = tmp_path / "helps.yaml", tmp_path / "holds.yaml"
    assert "--model FOLDER" in run("mine", "--corpus", place / "corpus", "--out", out, code=Exit.USAGE)
    given: list[str | Path] = ["mine", *beside(place), *QUICK, "--set", "level=1"]
    report = MineReport.model_validate(json.loads(run(*given, "--out", out, "--json")))
    judgement = report.judgement
    assert judgement is not None
    assert (judgement.trainer, judgement.features, judgement.folds) == ("sgd", "fields", 3)
    helping = {rule.name: rule.weight for rule in judgement.rules}
    assert helping
    kept = load_constraints(out)
    assert set(kept.titles) == set(helping) < {rule.name for rule in report.rules}
    assert [template.weight for template in kept.templates] == [helping[name] for name in kept.titles]  # type: ignore[attr-defined]
    assert out.read_text().count("; helps: changes ") == report.written == len(helping)
    said = run(*given, "--all", "--out", every)
    assert set(load_constraints(every).titles) == {rule.name for rule in report.rules}
    assert "rule that helps" in said
    assert "beside models of sgd, features fields, by 3 folds" in said.replace("\n", " ")


def test_where_no_rule_helps_the_list_is_empty_and_can_be_used(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "helps.yaml"
    given: list[str | Path] = ["mine", *beside(place), *QUICK, "--set", "level=1e-9"]
    said = run(*given, "--out", out).replace("\n", " ")
    assert "no rule helps: the list in" in said
    assert load_constraints(out).templates == ()
    assert "no rule helps beside models of sgd" in out.read_text().splitlines()[0]
    run("check", out, *beside(place))
