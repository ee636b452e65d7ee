"""Outside cost: found by F1 on documents that the model has not seen, kept in its folder, no part of probabilities."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from math import log
from pathlib import Path
from shutil import copytree
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import concord.flows.training.best_model
import concord.flows.training.train_model
import concord.workers.learning.trainers.selection
from concord.flows.cli.app import app
from concord.flows.training.train_model import TrainJob, train_model
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.train_report import TrainReport
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.span_marginals import span_marginals
from concord.workers.learning.trainers import sgd
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.outside_cost import OutsideCostFit, fit_outside_cost
from concord.workers.learning.trainers.temperature import LEAST_HELD_OUT, fit_temperature
from concord.workers.models.crf import CrfModel
from concord.workers.models.folder import MANIFEST, ModelError, parse_manifest, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import (
    LocalScores,
    Model,
    costing,
    local_scores,
    outside_cost_of,
    tempered,
    viterbi_labels,
)
from concord.workers.models.settings import SgdSettings
from tests.support.made_tracking import untracked

WORDS = tuple(f"w{i}" for i in range(40))


def rare(count: int, seed: int, share: float = 0.35) -> list[Document]:
    """Documents in which half of the words are an entity by chance, at less than every second place."""
    rng, found = np.random.default_rng(seed), []
    for i in range(count):
        words = [[str(rng.choice(WORDS)) for _ in range(6)] for _ in range(2)]
        labels = [["B-X" if int(w[1:]) % 2 and rng.random() < share else "O" for w in row] for row in words]
        found.append(Document.build(f"{seed}-{i}", words, labels=labels))
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> CrfModel:
    made = sgd.train(rare(100, 1), settings=SgdSettings(features="core"), out=tmp_path_factory.mktemp("made") / "model")
    assert isinstance(made, CrfModel)
    return made


def f1_of(model: Model, documents: list[Document]) -> float:
    return float(f1_of_counts(viterbi_counts(model, documents, model.labels).sum(axis=0)))


def test_the_cost_is_what_f1_asks_for_and_carries_over(model: CrfModel) -> None:
    held_out, unseen = rare(200, 2), rare(200, 3)
    warm = model.at(fit_temperature(held_out, model).temperature)
    fit = fit_outside_cost(held_out, warm)
    assert fit.f1 is not None
    assert fit.f1_without == f1_of(model, held_out)
    assert fit.f1 == f1_of(costing(model, fit.cost), held_out) > fit.f1_without + 0.1
    assert fit.cost == pytest.approx(warm.temperature * log(2.0 / fit.f1 - 1.0), rel=0.05)
    assert f1_of(costing(model, fit.cost), unseen) > f1_of(model, unseen) + 0.1
    assert fit_outside_cost(held_out, costing(warm, 3.0)) == fit, "the present cost has no part in it"


def test_none_is_learned_where_there_is_nothing_to_gain(model: CrfModel, tmp_path: Path) -> None:
    few = fit_outside_cost(rare(LEAST_HELD_OUT - 1, 2), model)
    assert few == OutsideCostFit(0.0, kept_for=f"{LEAST_HELD_OUT - 1} held-out documents are too few to learn one")
    none = [Document.build(str(i), [["w0", "w2"]], labels=[["O", "O"]]) for i in range(20)]
    assert fit_outside_cost(none, model).kept_for == "as many entities are named as there are"
    gold = [Document.build(str(i), [["a", "b"]], labels=[["B-A", "B-B"]]) for i in range(20)]
    fields = sgd.train(gold, settings=SgdSettings(features="core", passes=2), out=tmp_path / "fields")
    assert fit_outside_cost(gold, fields).kept_for in {"as many entities are named as there are", "none raises F1"}
    plain = [Document.build(str(i), [["a", "b"]], labels=[["A", "B"]]) for i in range(20)]
    without = sgd.train(plain, settings=SgdSettings(features="core", passes=2), out=tmp_path / "plain")
    assert fit_outside_cost(plain, without).kept_for == "no label is outside of entities"
    assert outside_cost_of(without) == 0.0


@pytest.mark.parametrize(("temperature", "cost"), [(1.0, 1.5), (2.5, 1.5), (0.4, 7.0)])
def test_scores_are_those_of_the_definition_and_probabilities_are_without_it(
    model: CrfModel, temperature: float, cost: float
) -> None:
    batch = Batch.of([Document.build("d", [["w1", "w2", "w7"]]), Document.build("one", [["w3"]])])
    own = costing(tempered(model, temperature), cost)
    found = local_scores(own, batch).problems(batch, model.labels, Unconstrained())
    likely = local_scores(tempered(model, temperature), batch).problems(batch, model.labels, Unconstrained())
    outside = model.labels.index["O"]
    for problem, plain in zip(map(Prepared.of, found), map(Prepared.of, likely), strict=True):
        every = [np.array(one, np.int32) for one in product(range(len(model.labels)), repeat=len(problem))]
        scores = [plain.score(one).objective - cost / temperature * (one == outside).sum() for one in every]
        np.testing.assert_allclose([problem.score(one).objective for one in every], scores, rtol=1e-12)
        np.testing.assert_array_equal(problem.viterbi, every[int(np.argmax(scores))])
        spans = model.labels.spans(every[-1], problem.potentials.sentence_starts)
        np.testing.assert_allclose(span_marginals(problem, spans), span_marginals(plain, spans), rtol=1e-9)
        relaxed = Prepared.of(problem.relaxed(2.0))
        assert span_marginals(relaxed, spans).tolist() == span_marginals(problem, spans).tolist()


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    "labels",
    [
        LabelSet.bio(["X", "Y"]),
        LabelSet(("O", "X", "Y"), Scheme.PLAIN),
        LabelSet(("B-X", "I-X", "O"), Scheme.LOOSE),
    ],
    ids=lambda labels: labels.scheme.value,
)
def test_every_scheme_has_it(labels: LabelSet, count: int) -> None:
    """Random scores, some of them −inf; the likeliest labels are those of enumeration."""
    rng, size = np.random.default_rng(count), len(labels)
    unary = rng.normal(size=(count, size))
    unary[0, labels.index["O"]] = unary[-1, -1] = -np.inf
    plain = Potentials(unary, rng.normal(size=(size, size)), np.array([0]))
    batch = Batch.of([Document.build("d", [["w"] * count])])
    (problem,) = LocalScores(plain).costing(2.0, labels).at(0.5).problems(batch, labels, Unconstrained())
    legal = plain.legal(labels)
    every = [np.array(one, np.int32) for one in product(range(size), repeat=count)]
    scores = [2.0 * (legal.score(one) - 2.0 * (one == labels.index["O"]).sum()) for one in every]
    np.testing.assert_allclose([problem.score(one).objective for one in every], scores)
    np.testing.assert_array_equal(Prepared.of(problem).viterbi, every[int(np.argmax(scores))])
    np.testing.assert_allclose(
        [problem.likelihoods.score(one) for one in every], [2.0 * legal.score(one) for one in every]
    )


def test_no_temperature_changes_an_answer(model: CrfModel) -> None:
    batch = Batch.of(rare(5, 4))
    own = costing(model, 1.2)
    wanted = viterbi_labels(own, batch)
    assert wanted.tolist() != viterbi_labels(model, batch).tolist()
    for temperature in (0.3, 1.0, 4.0):
        warm = tempered(own, temperature)
        assert outside_cost_of(warm) == 1.2
        (problem,) = local_scores(warm, batch.part(0, 1)).problems(batch.part(0, 1), model.labels, Unconstrained())
        assert Prepared.of(problem).viterbi.tolist() == wanted[: len(problem)].tolist()
    assert fit_temperature(rare(50, 5), own) == fit_temperature(rare(50, 5), model), "it is one of probabilities"


# Folders and commands


def call(*words: str | Path) -> Any:
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


class Made(NamedTuple):
    """A training that has learned a cost, and its model's folder."""

    report: TrainReport
    folder: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    place = tmp_path_factory.mktemp("trained")
    write_corpus(rare(150, 1), place / "corpus", source="test")
    request = TrainJob(
        corpus=str(place / "corpus"), out=str(place / "model"), trainer="sgd", settings=SgdSettings(features="core")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
        return Made(train_model(request), place / "model")


def test_training_keeps_it_tells_it_and_every_answer_has_it(made: Made) -> None:
    cost, manifest, model = (
        made.report.outside_cost,
        parse_manifest(made.folder / MANIFEST),
        load_model(made.folder),
    )
    assert (cost.kept_for, manifest.outside_cost, outside_cost_of(model)) == (None, cost.cost, cost.cost)
    assert cost.f1 is not None
    assert cost.f1_without is not None
    assert cost.f1 > cost.f1_without
    assert f"outside cost {cost.cost:.4g} nats, so that more entities are named: held-out F1" in cost.line
    assert manifest.metrics["outside_cost/f1"] == cost.f1
    assert made.report.model_digest == model.digest != costing(model, 0.0).digest
    batch = Batch.of([Document.build("d", [["w1", "w2", "w3"], ["w5"]])])
    want = [name[2:] for name in model.labels.decode(viterbi_labels(model, batch)) if name != "O"]
    told = call("label", "--model", made.folder, "w1 w2 w3")
    assert [one["type"] for one in told["entities"]] == want[: len(told["entities"])]
    assert told["entities"]


def test_best_keeps_the_cost_that_its_rules_were_judged_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing else is tuned, and where other documents are held out for that."""
    monkeypatch.setattr(concord.flows.training.train_model, "Tracking", untracked([]))
    monkeypatch.setattr(concord.workers.learning.trainers.selection, "RUNGS", {})
    judged_at = list[float]()

    def seen(documents: Any, chosen: Any, model: Model, *more: Any, **given: Any) -> None:
        judged_at.append(outside_cost_of(model))

    monkeypatch.setattr(concord.flows.training.best_model, "rules_that_help", seen)
    write_corpus(rare(120, 5), tmp_path / "corpus", source="test")
    options = {"corpus": str(tmp_path / "corpus"), "trainer": "sgd", "settings": SgdSettings(features="core")}
    variants: tuple[dict[str, object], ...] = ({}, {"consistency": False}, {"held_out_share": 0.4})
    for number, more in enumerate(variants):
        out = tmp_path / str(number)
        train_model(TrainJob.model_validate({**options, **more, "effort": "best", "out": str(out)}))
        assert parse_manifest(out / MANIFEST).outside_cost == judged_at[number] > 0.0


def test_what_a_run_says_of_itself_is_verified(made: Made, tmp_path: Path) -> None:
    assert made.report.outside_cost.cost > 0.0
    write_corpus([replace(one, labels=None) for one in rare(20, 7)], tmp_path / "new", source="test")
    given = ("--corpus", tmp_path / "new", "--model", made.folder, "--out", tmp_path / "run")
    call("reprocess", *given, "--confidence", "margin", "--certificates")
    verified = call("verify", "--run", tmp_path / "run")
    assert (verified["failed"], verified["documents"]) == ([], 20)


def test_calibration_leaves_it(made: Made, tmp_path: Path) -> None:
    write_corpus(rare(60, 8), tmp_path / "more", source="test")
    call("calibrate", "--corpus", tmp_path / "more", "--model", made.folder, "--out", tmp_path / "fitted")
    assert parse_manifest(tmp_path / "fitted" / MANIFEST).outside_cost == made.report.outside_cost.cost


def test_an_export_that_cannot_have_it_says_so(made: Made, tmp_path: Path) -> None:
    words = ("export", "crfsuite", "--model", made.folder, "--out", tmp_path / "plain.crfsuite")
    assert call(*words)["without_cost"] == made.report.outside_cost.cost
    told = CliRunner().invoke(app, list(map(str, words)))
    assert "CRFsuite has no outside cost" in told.output


def test_a_folder_that_cannot_have_it_is_refused(made: Made, tmp_path: Path) -> None:
    copytree(made.folder, tmp_path / "model")
    path = tmp_path / "model" / MANIFEST
    manifest = json.loads(path.read_text())
    assert manifest["outside_cost"] == made.report.outside_cost.cost
    for change, fault in (
        ({"labels": ["A", "B"], "scheme": "plain"}, "and no label is O"),
        ({"outside_cost": -1.0}, "outside_cost"),
    ):
        path.write_text(json.dumps(manifest | change))
        with pytest.raises(ModelError, match=fault):
            parse_manifest(path)
    path.write_text(json.dumps(manifest))
    update_manifest(tmp_path / "model", kind="crf", outside_cost=0.0)
    assert "outside_cost" not in json.loads(path.read_text())
    assert load_model(tmp_path / "model").digest == costing(load_model(made.folder), 0.0).digest
