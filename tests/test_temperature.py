"""Temperature of a model's scores: learned on documents that it has not seen, kept in its folder, read by all."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import concord.flows.training.train_model
from concord.flows.cli.app import app
from concord.flows.training.train_model import TrainJob, train_model
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.train_report import TrainReport
from concord.workers.constraints.consistency import LabelConsistency
from concord.workers.constraints.constraint_file import load_constraints, parse_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared_weights import row_weights
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.evaluation.surety import LEAST, Surety, surety
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.registry import Decoder
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.temperature import (
    LEAST_HELD_OUT,
    TEMPERATURES,
    GoldScores,
    best_temperature,
    fit_temperature,
    fit_to,
)
from concord.workers.learning.weights.unseen import Unseen, scores_among
from concord.workers.models.folder import CONSTRAINTS_FILE, MANIFEST, parse_manifest, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import costing, local_scores, temperature_of, tempered
from concord.workers.models.saved_consistency import EXTRA, consistency_extra, saved_consistency
from concord.workers.models.settings import SgdSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_tracking import untracked

LABELS = LabelSet.bio(["X"])
WORDS = ("Basel", "Delft", "the", "said", "of", "x")


def every(labels: LabelSet, count: int) -> Labels:
    return np.array(list(product(range(len(labels)), repeat=count)), np.int32)


def scores_of(potentials: Potentials, labellings: Labels) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([potentials.score(one) for one in labellings])


def drawn(count: int, *, sure: float, seed: int) -> GoldScores:
    """Documents whose gold labels are drawn from chains, and these chains' scores times ``sure``."""
    rng = np.random.default_rng(seed)
    potentials, gold = list[Potentials](), list[Labels]()
    labellings = every(LABELS, 4)
    for _ in range(count):
        own = Potentials(2.0 * rng.normal(size=(4, 3)), rng.normal(size=(3, 3)), np.array([0])).legal(LABELS)
        scores = scores_of(own, labellings)
        shares = np.exp(scores - scores.max())
        gold.append(labellings[rng.choice(len(labellings), p=shares / shares.sum())])
        potentials.append(own.at(1.0 / sure))
    return GoldScores(LABELS, potentials, gold)


@pytest.mark.parametrize("errors", [0, 1, 9, 10])
def test_without_errors_a_model_is_not_made_surer(errors: int) -> None:
    chains = drawn(400, sure=1.0, seed=2)
    wrong = [i for i in range(len(chains)) if (viterbi(chains.potentials[i]) != chains.gold[i]).any()]
    right = [i for i in range(len(chains)) if i not in wrong]
    rare = [i for i in wrong if replace(chains, potentials=[chains.potentials[i]], gold=[chains.gold[i]]).errors == 1]
    chosen = [*right[:100], *rare[:errors]]
    few = replace(chains, potentials=[chains.potentials[i] for i in chosen], gold=[chains.gold[i] for i in chosen])
    assert few.errors == errors
    assert (best_temperature(few) < 1.0) == (errors == 10)


@pytest.mark.parametrize("sure", [0.5, 1.0, 3.0])
def test_what_labels_are_drawn_at_is_learned(sure: float) -> None:
    chains = drawn(800, sure=sure, seed=1)
    assert best_temperature(chains) == pytest.approx(sure, rel=0.2)
    fit = fit_to(chains)
    assert fit.before is not None
    if sure == 1.0:
        assert (fit.temperature, fit.after) == (1.0, None)
        assert "beyond chance" in fit.kept_for
        return
    assert fit.after is not None
    assert (fit.temperature, fit.kept_for) == (best_temperature(chains), "")
    assert fit.after.log_loss < fit.before.log_loss
    assert fit.after.calibration_error < 0.04 < fit.before.calibration_error


def test_losses_and_surety_are_those_of_enumeration() -> None:
    chains = drawn(12, sure=2.0, seed=2)
    labellings = every(LABELS, 4)
    probabilities, right = list[float](), list[bool]()
    for i, (own, gold) in enumerate(zip(chains.potentials, chains.gold, strict=True)):
        scores = scores_of(own, labellings) / 1.4142
        total = float(np.logaddexp.reduce(scores))
        assert chains.losses(1.4142)[i] == pytest.approx(total - own.score(gold) / 1.4142)
        spans = [set(spans_of(one, own)) for one in labellings]
        for span in spans[int(scores.argmax())]:
            mass = [score for score, there in zip(scores, spans, strict=True) if span in there]
            probabilities.append(float(np.exp(np.logaddexp.reduce(mass) - total)))
            right.append(span in spans_of(gold, own))
    assert True in right
    assert False in right
    found = chains.surety(np.full(len(chains), 1.4142))
    wanted = plain_surety(probabilities, right)
    assert found == pytest.approx(wanted)
    assert surety(np.array(probabilities), np.array(right)) == pytest.approx(wanted)


def spans_of(labels: Labels, own: Potentials) -> list[tuple[int, int, int]]:
    spans = LABELS.spans(labels, own.sentence_starts)
    return list(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True))


def plain_surety(probabilities: list[float], right: list[bool]) -> Surety:
    error = loss = 0.0
    for low in range(10):
        own = [(p, r) for p, r in zip(probabilities, right, strict=True) if min(int(10 * p), 9) == low]
        if own:
            sure, share = (sum(values) / len(own) for values in zip(*own, strict=True))
            error += abs(sure - share) * len(own) / len(right)
    for p, r in zip(probabilities, right, strict=True):
        loss -= np.log(max(LEAST, p if r else 1 - p)) / len(right)
    return Surety(error, loss)


def test_a_sentence_whose_gold_labels_are_forbidden_is_left_out() -> None:
    chains = drawn(3, sure=1.0, seed=3)
    own, gold = chains.potentials[0], chains.gold[0]
    unary = np.concatenate([own.unary, own.unary])
    unary[5, gold[1]] = -np.inf
    both = Potentials(unary, own.transition, np.array([0, 4]))
    twice = GoldScores(LABELS, [both], [np.concatenate([gold, gold])])
    assert twice.losses(2.0)[0] == pytest.approx(chains.losses(2.0)[0])


@pytest.mark.parametrize("count", [0, 1, LEAST_HELD_OUT - 1])
def test_few_documents_leave_scores_as_they_are(count: int) -> None:
    fit = fit_to(drawn(count, sure=8.0, seed=4))
    assert (fit.temperature, fit.documents, fit.before, fit.after) == (1.0, count, None, None)
    assert fit.kept_for == f"{count} held-out documents are too few to learn one"


def test_temperatures_are_steps_around_one() -> None:
    assert 1.0 in TEMPERATURES
    assert list(TEMPERATURES) == sorted(set(TEMPERATURES))


# Models and commands


def noisy(count: int, seed: int) -> list[Document]:
    """Documents whose labels depend on their words by chance, so that what learns them by heart is too sure."""
    rng, found = np.random.default_rng(seed), []
    for i in range(count):
        words = [[str(rng.choice(WORDS)) for _ in range(6)] for _ in range(2)]
        labels = [["B-X" if rng.random() < (0.6 if word[0].isupper() else 0.1) else "O" for word in s] for s in words]
        found.append(Document.build(f"{seed}-{i}", words, labels=labels))
    return found


def call(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _untracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))


def trained(out: Path, documents: list[Document], **options: Any) -> TrainReport:
    corpus = out.with_name(f"{out.name} corpus")
    write_corpus(documents, corpus, source="test")
    settings = SgdSettings(features="core", passes=60, c2=0.0001)
    return train_model(TrainJob(corpus=str(corpus), out=str(out), trainer="sgd", settings=settings, **options))


def test_training_keeps_a_temperature_that_all_scores_are_divided_by(tmp_path: Path) -> None:
    report = trained(tmp_path / "model", noisy(120, 1), held_out_share=0.75)
    calibration = report.calibration
    assert calibration.kept_for is None
    assert calibration.temperature > 1.0
    assert calibration.loss_before is not None
    assert calibration.loss is not None
    assert calibration.loss < calibration.loss_before
    manifest, model = parse_manifest(tmp_path / "model" / MANIFEST), load_model(tmp_path / "model")
    assert (manifest.temperature, temperature_of(model)) == (calibration.temperature, calibration.temperature)
    assert report.model_digest == model.digest
    assert manifest.metrics["calibration/loss"] == calibration.loss
    assert f"temperature {calibration.temperature:.4g}; held-out" in calibration.line
    batch = Batch.of(noisy(4, 9))
    wanted = model.potentials(batch).at(calibration.temperature)
    assert local_scores(costing(model, 0.0), batch).potentials.unary.tobytes() == wanted.unary.tobytes()
    assert trained(tmp_path / "again", noisy(120, 1), held_out_share=0.75).model_digest == report.model_digest


def test_a_small_corpus_and_none_held_out_train_as_before_with_a_line_that_says_so(tmp_path: Path) -> None:
    few = trained(tmp_path / "few", noisy(20, 1)).calibration
    none = trained(tmp_path / "none", noisy(20, 1), consistency=False).calibration
    assert (few.temperature, none.temperature) == (1.0, 1.0)
    assert "held-out documents are too few to learn one" in few.line
    assert none.line == "temperature 1 (no documents with gold labels are held out to learn one)"
    for name in ("few", "none"):
        assert "temperature" not in json.loads((tmp_path / name / MANIFEST).read_text())


def test_a_model_that_is_there_gets_a_temperature_and_its_answers_stay(tmp_path: Path) -> None:
    trained(tmp_path / "model", noisy(40, 1))
    saved = saved_consistency(tmp_path / "model")
    assert saved is not None
    scales = saved.scales._replace(exact=1.0, unlabelled=0.5)
    consistency = LabelConsistency(saved.counts, scales)
    update_manifest(tmp_path / "model", kind="crf", extras={EXTRA: consistency_extra(consistency)})
    write_corpus(noisy(80, 2), tmp_path / "held-out", source="test")
    words = ("calibrate", "--corpus", str(tmp_path / "held-out"), "--no-consistency", "--model")
    report = call(*words, str(tmp_path / "model"), "--out", str(tmp_path / "fitted"))
    temperature = report["calibration"]["temperature"]
    assert temperature > 1.0
    assert report["temperature"] is None
    before, after = load_model(tmp_path / "model"), load_model(tmp_path / "fitted")
    assert (temperature_of(after), after.digest) == (temperature, report["model_digest"])
    assert before.digest != after.digest
    assert fit_temperature(noisy(80, 2), before).temperature == temperature
    batch, decoder = Batch.of(noisy(20, 5)), Decoder.of("certify", {}, seed=0)
    answers = []
    for model, name in ((before, "model"), (after, "fitted")):
        own = saved_consistency(tmp_path / name)
        assert own is not None
        problems = local_scores(model, batch).problems(batch, model.labels, own)
        answers.append([decoder(p, i) for p, i in zip(problems, batch.doc_ids, strict=True)])
    for one, other in zip(*answers, strict=True):
        assert one.labels.tolist() == other.labels.tolist()
        assert one.objective == pytest.approx(other.objective * temperature / temperature_of(before), rel=1e-9)
    again = call(*words, str(tmp_path / "fitted"), "--out", str(tmp_path / "again"))
    assert again["calibration"]["temperature"] == temperature
    assert again["model_digest"] == report["model_digest"]
    left = call(*words, str(tmp_path / "fitted"), "--out", str(tmp_path / "left"), "--fit", "neither")
    assert (left["calibration"], left["model_digest"]) == (None, report["model_digest"])


RULES = parse_constraints(
    """constraints:
- {template: appears_once, name: one X, labels: X, weight: 1.25}
- {template: starts_with, name: never first, labels: O, weight: hard}
""",
    file="rules",
)


def test_rules_in_the_folder_are_divided_along_and_told_where_they_are_not_used(tmp_path: Path) -> None:
    trained(tmp_path / "model", noisy(40, 1))
    rules = tmp_path / "model" / CONSTRAINTS_FILE
    rules.write_text(constraints_text(RULES, {"one X": "helps by 0.3 points"}))
    update_manifest(tmp_path / "model", kind="crf", files=(CONSTRAINTS_FILE,))
    write_corpus(noisy(80, 2), tmp_path / "held-out", source="test")
    given = ("--corpus", str(tmp_path / "held-out"), "--no-consistency", "--model", str(tmp_path / "model"))
    report = call("calibrate", *given, "--out", str(tmp_path / "fitted"))
    before, after = (load_constraints(tmp_path / name / CONSTRAINTS_FILE) for name in ("model", "fitted"))
    share = report["calibration"]["temperature"] / temperature_of(load_model(tmp_path / "model"))
    assert share != 1.0
    assert dict(row_weights(after)) == pytest.approx({"one X": 1.25 / share, "never first": np.inf}, rel=1e-5)
    assert dict(row_weights(before)) == {"one X": 1.25, "never first": np.inf}
    assert (tmp_path / "fitted" / CONSTRAINTS_FILE).read_text().count("# helps by 0.3 points\n") == 1
    again = call(
        "calibrate", *given[:-1], str(tmp_path / "fitted"), "--out", str(tmp_path / "again"), "--fit", "neither"
    )
    assert again["model_digest"] == report["model_digest"]
    for options, is_told in (((), True), (("--constraints", str(rules)), False)):
        done = CliRunner().invoke(app, ["label", "--model", str(tmp_path / "model"), *options, "Basel said"])
        assert done.exit_code == 0, done.output
        assert (f"not used: --constraints {rules} takes them" in done.stderr.replace("\n", "")) == is_told


def test_weights_are_learned_beside_scores_at_the_temperature_of_their_model() -> None:
    chains = drawn(10, sure=4.0, seed=6)
    documents = [
        Document.build(str(i), [["w"] * 4], labels=[list(LABELS.decode(gold))]) for i, gold in enumerate(chains.gold)
    ]
    unseen = Unseen(documents, chains.potentials, LABELS)
    for temperature in (1.0, 2.5):
        for own, plain in zip(unseen.at(temperature, 0.0).potentials, chains.potentials, strict=True):
            assert own.unary.tobytes() == plain.at(temperature).unary.tobytes()


def test_rules_are_judged_beside_scores_at_temperature_and_outside_cost_of_their_model(tmp_path: Path) -> None:
    documents = list(synthesize(8, seed=0, kind="news"))
    model = TRAINERS["sgd"].train(documents, settings=SgdSettings(features="kinds", passes=1), out=tmp_path / "model")
    plain = Unseen(documents, scores_among(model, documents, model.labels), model.labels)
    learned = scores_among(costing(tempered(model, 2.5), 0.7), documents, model.labels)
    for one, other, raw in zip(plain.at(2.5, 0.7).potentials, learned, plain.potentials, strict=True):
        assert one.unary.tobytes() == other.unary.tobytes() != raw.unary.tobytes()
        assert one.transition.tobytes() == other.transition.tobytes() != raw.transition.tobytes()
