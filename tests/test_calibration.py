"""Temperature and transitions of another tagger's scores, and the scales of consistency, learned on documents."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.schemas.columns import table_from_documents
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelError, LabelSet
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers.calibration import calibrate
from concord.workers.learning.trainers.calibration_choice import WAYS, choose_fit
from concord.workers.learning.trainers.sgd import train
from concord.workers.models.folder import MANIFEST, parse_manifest, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.saved_consistency import EXTRA, consistency_extra, saved_consistency
from concord.workers.models.scores import ScoresModel, label_set, save, unary
from concord.workers.models.settings import CalibrationSettings, Fit, ScoresSettings, SgdSettings
from tests.support.made_corpora import corpus
from tests.support.scored import scored, written

BIO = ("O", "B-X", "I-X")
SENTENCES = [["O", "B-X"], ["B-X", "I-X", "O"], ["O"], ["B-X", "B-X", "I-X"]]
BIOES = ("S-X", "O", "E-X", "B-X", "I-X")
Table = NDArray[np.float64]


def made(names: tuple[str, ...], seed: int, *, documents: int = 6, steepness: float = 1.0) -> list[Document]:
    """Short documents with scores that lean to their gold labels."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(documents):
        gold = [SENTENCES[int(rng.integers(len(SENTENCES)))] for _ in range(2)]
        flat = [label for sentence in gold for label in sentence]
        lean = np.array([[float(name == label) for name in names] for label in flat])
        words = [[f"w{t}" for t in range(len(sentence))] for sentence in gold]
        document = Document.build(f"d{i}", words, labels=gold)
        found.append(replace(document, scores=log_softmax(steepness * (lean + rng.normal(size=lean.shape)), axis=1)))
    return found


def model_of(names: tuple[str, ...], folder: Path, **settings: Any) -> ScoresModel:
    folder.mkdir(exist_ok=True)
    size = len(label_set(ScoresSettings(labels=names, **settings)))
    return save(folder, ScoresSettings(labels=names, **settings), np.zeros((size, size)))


def brute_loss(documents: list[Document], labels: LabelSet, source: ScoresSettings, transition: Table) -> float:
    """−log p(gold) over all legal labellings of each sentence, by enumeration."""
    total = 0.0
    for document in documents:
        assert document.labels is not None
        assert document.scores is not None
        table = unary(document.scores, labels, source)
        gold = labels.encode(document.labels.strings())
        bounds = [*document.sentence_starts.tolist(), len(document)]
        for first, last in itertools.pairwise(bounds):
            scores = {}
            for path in itertools.product(range(len(labels)), repeat=last - first):
                legal = labels.legal_start[path[0]] and all(
                    labels.legal_transition[a, b] for a, b in itertools.pairwise(path)
                )
                local = sum(table[first + t, y] for t, y in enumerate(path))
                scores[path] = (
                    local + sum(transition[a, b] for a, b in itertools.pairwise(path)) if legal else -math.inf
                )
            total += float(logsumexp(list(scores.values()))) - scores[tuple(gold[first:last].tolist())]
    return total


@pytest.mark.parametrize("names", [BIO, BIOES], ids=["bio", "bioes"])
@pytest.mark.parametrize("form", ["log-probabilities", "logits"])
def test_the_loss_is_that_of_all_labellings_and_nothing_beside_its_minimum_is_better(
    names: tuple[str, ...], form: str, tmp_path: Path
) -> None:
    documents = made(names, 0, documents=24)
    model = model_of(names, tmp_path, form=form, temperature=2.0)
    found = calibrate(documents, model, CalibrationSettings(c2=0.1))
    tokens = sum(map(len, documents))
    assert (found.tokens, found.sentences, found.left_out) == (tokens, 48, 0)

    def penalised(source: ScoresSettings, transition: Table) -> float:
        return brute_loss(documents, model.labels, source, transition) + 0.1 * float((transition**2).sum())

    assert found.before * tokens == pytest.approx(brute_loss(documents, model.labels, model.source, model.transition))
    assert found.after * tokens == pytest.approx(brute_loss(documents, model.labels, found.source, found.transition))
    best = penalised(found.source, found.transition)
    rng = np.random.default_rng(1)
    for _ in range(20):
        step = 1e-2 * rng.normal(size=found.transition.shape)
        warmer = found.source.model_copy(update={"temperature": found.source.temperature * math.exp(step[0, 0])})
        assert penalised(warmer, found.transition + step) >= best
        assert penalised(warmer, found.transition) >= best - 1e-7


@pytest.mark.parametrize("fit", ["auto", "temperature", "both"])
def test_a_tagger_without_errors_is_not_made_surer(fit: Fit, tmp_path: Path) -> None:
    documents = made(BIO, 0)
    golds = [document.labels.strings() for document in documents if document.labels is not None]
    leans = [np.array([[float(name == label) for name in BIO] for label in gold]) for gold in golds]
    right = [replace(one, scores=log_softmax(2.0 * lean, axis=1)) for one, lean in zip(documents, leans, strict=True)]
    found = calibrate(right, model_of(BIO, tmp_path), CalibrationSettings(fit=fit))
    assert found.source.temperature == 1.0
    assert found.transition.any() == (fit != "temperature")


def test_what_is_kept_stays_and_the_temperature_alone_is_that_of_a_search(tmp_path: Path) -> None:
    documents = made(BIO, 3, steepness=5.0)
    model = model_of(BIO, tmp_path)
    alone = calibrate(documents, model, CalibrationSettings(fit="temperature"))
    np.testing.assert_array_equal(alone.transition, model.transition)

    def loss(logarithm: Table) -> float:
        source = model.source.model_copy(update={"temperature": math.exp(float(logarithm[0]))})
        return brute_loss(documents, model.labels, source, model.transition)

    assert alone.source.temperature == pytest.approx(math.exp(minimize(loss, [0.0]).x[0]), rel=1e-3)
    assert alone.source.temperature > 2.0
    chain = calibrate(documents, model, CalibrationSettings(fit="transitions"))
    assert chain.source.temperature == 1.0
    assert chain.transition[model.labels.legal_transition].any()
    assert not chain.transition[~model.labels.legal_transition].any()
    nothing = calibrate(documents, model, CalibrationSettings(fit="neither"))
    assert nothing.before == nothing.after


def test_sentences_whose_labels_are_forbidden_are_left_out_and_counted(tmp_path: Path) -> None:
    documents = made(BIO, 4)
    model = model_of(BIO, tmp_path, form="logits")
    without = calibrate(documents, model, CalibrationSettings())
    odd = Document.build("odd", [["a"], ["b", "c"], ["d"]], labels=[["B-X"], ["O", "I-X"], ["O"]])
    scores = np.array([[0.0, -math.inf, 0.0], [0.0] * 3, [0.0] * 3, [-math.inf, 0.0, 0.0]])
    found = calibrate([*documents, replace(odd, scores=scores)], model, CalibrationSettings())
    assert found.left_out == 3  # one by its transition, two by their scores
    assert (found.source, found.after) == (without.source, without.after)
    with pytest.raises(TrainingError, match="forbid the gold labels of every sentence"):
        calibrate([replace(odd, scores=scores)], model, CalibrationSettings())


def test_scores_that_say_nothing_and_documents_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    model = model_of(BIO, tmp_path, form="logits")
    documents = made(BIO, 5)
    turned = [replace(d, scores=-3.0 * d.scores) for d in documents if d.scores is not None]
    with pytest.raises(TrainingError, match="the scores say nothing of the gold labels"):
        calibrate(turned, model, CalibrationSettings(fit="temperature"))
    with pytest.raises(TrainingError, match="no labelled documents"):
        calibrate([replace(documents[0], labels=None)], model, CalibrationSettings())
    other = Document.build("d", [["a"]], labels=[["B-Y"]])
    with pytest.raises(LabelError, match="unknown label 'B-Y'"):
        calibrate([replace(other, scores=np.zeros((1, 3)))], model, CalibrationSettings())


@pytest.mark.parametrize("noise", [0.2, 3.0])
def test_the_choice_is_the_best_of_all_ways_on_documents_that_were_not_learned_from(
    noise: float, tmp_path: Path
) -> None:
    documents = made(BIO, 11, documents=12, steepness=noise)
    model = model_of(BIO, tmp_path)
    found = choose_fit(documents, model, CalibrationSettings())
    assert [trial.setting for trial in found.trials] == ["neither", "temperature", "transitions", "both"]
    best = max(trial.value for trial in found.trials)
    assert best == dict(zip(WAYS, (trial.value for trial in found.trials), strict=True))[found.fit]
    batch = Batch.of(documents)
    assert batch.labels is not None
    as_imported = viterbi(model.potentials(batch).legal(model.labels))
    gold = model.labels.encode(batch.labels.strings())
    assert found.trials[0].value == pytest.approx(plain_f1(batch, model.labels, gold, as_imported))
    assert batch.scores is not None
    assert found.tagger == pytest.approx(plain_f1(batch, model.labels, gold, batch.scores.argmax(axis=1)))
    asked = choose_fit(documents, model, CalibrationSettings(fit="both"))
    assert (asked.fit, [trial.setting for trial in asked.trials]) == ("both", ["neither", "both"])
    with pytest.raises(TrainingError, match="one document cannot be judged by another"):
        choose_fit(documents[:1], model, CalibrationSettings())


def test_the_command_chooses_what_it_learns_and_says_what_it_is_worth(tmp_path: Path) -> None:
    documents = made(BIO, 7, documents=20, steepness=3.0)
    written(tmp_path / "corpus", scored(documents, [d.scores for d in documents if d.scores is not None]))
    model_of(BIO, tmp_path / "model")
    words = ("calibrate", "--model", str(tmp_path / "model"), "--corpus", str(tmp_path / "corpus"), "--no-consistency")
    report = json.loads(call(*words, "--out", str(tmp_path / "fitted"), "--json").stdout)
    found = report["held_out_f1"]
    assert [*found] == [*WAYS]
    assert found[report["fit"]] == max(found.values())
    metrics = parse_manifest(tmp_path / "fitted" / MANIFEST).metrics
    assert metrics["cross_validated/tagger"] == report["tagger_f1"]
    assert metrics["cross_validated/neither"] == found["neither"]


def plain_f1(batch: Batch, labels: LabelSet, gold: NDArray[Any], mine: NDArray[Any]) -> float:
    found = [
        {(a, b, k) for a, b, k in zip(spans.start, spans.end, spans.type, strict=True)}
        for spans in (labels.spans(ids.astype(np.int32), batch.sentence_starts) for ids in (gold, mine))
    ]
    return 2 * len(found[0] & found[1]) / (len(found[0]) + len(found[1]))


# The command


def call(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == code, done.output
    return done


def test_a_model_of_scores_is_fitted_into_a_new_folder(tmp_path: Path) -> None:
    documents = made(BIO, 7, documents=20, steepness=3.0)
    scores = [d.scores for d in documents if d.scores is not None]
    folder = written(tmp_path / "corpus", scored(documents, scores))
    model = model_of(BIO, tmp_path / "model")
    words = (
        "calibrate",
        "--model",
        str(tmp_path / "model"),
        "--corpus",
        str(folder),
        "--out",
        str(tmp_path / "fitted"),
    )
    report = json.loads(call(*words, "--fit", "both", "--json").stdout)
    assert report["loss"] < report["loss_before"]
    assert (report["fit"], [*report["held_out_f1"]]) == ("both", ["neither", "both"])
    assert 0 <= report["consistency_f1"] <= 1
    tuned = report["consistency"]
    assert tuned["f1"] >= tuned["f1_without"]
    fitted = load_model(tmp_path / "fitted")
    assert isinstance(fitted, ScoresModel)
    assert fitted.source.temperature == report["temperature"] != 1.0
    assert fitted.digest == report["model_digest"] != model.digest
    assert load_model(tmp_path / "model").digest == model.digest
    assert saved_consistency(tmp_path / "fitted") is not None
    assert parse_manifest(tmp_path / "fitted" / MANIFEST).metrics["held_out/f1"] == tuned["f1"]
    again = json.loads(call(*words, "--no-consistency", "--fit", "transitions", "--json").stdout)
    assert (again["temperature"], again["consistency"]) == (1.0, None)
    assert saved_consistency(tmp_path / "fitted") is None
    told = " ".join(call(*words, "--fit", "both").stdout.split())
    assert "temperature" in told
    assert "held-out F1: the tagger itself" in told
    assert "as imported" in told
    assert f"and {tuned['unlabelled_scale']:g} (unlabelled); F1 {tuned['f1_without']:.2%} → {tuned['f1']:.2%}" in told


def test_of_a_crf_too_few_documents_fit_the_scales_alone_and_its_counts_stay(tmp_path: Path) -> None:
    documents = corpus(0, 12)
    crf = train(documents, settings=SgdSettings(features="finkel", passes=1), out=tmp_path / "model")
    written(tmp_path / "corpus", table_from_documents(corpus(1, 8)))
    words = ("calibrate", "--model", str(tmp_path / "model"), "--corpus", str(tmp_path / "corpus"), "--out")
    for number, counts in enumerate((None, PairCounts.of(documents, crf.labels))):
        if counts is not None:
            extra = consistency_extra(LabelConsistency(counts))
            update_manifest(tmp_path / "model", kind="crf", extras={EXTRA: extra})
        out = tmp_path / str(number)
        report = json.loads(call(*words, str(out), "--json").stdout)
        assert (report["temperature"], report["loss"], report["model_digest"]) == (None, None, crf.digest)
        assert load_model(out).digest == crf.digest
        found = saved_consistency(out)
        assert found is not None
        wanted = counts or PairCounts.of(corpus(1, 8), crf.labels, fold_case=found.counts.fold_case)
        assert found.counts.exact.tolist() == wanted.exact.tolist()
    batch = Batch.of(documents)
    assert load_model(out).potentials(batch).unary.tobytes() == crf.potentials(batch).unary.tobytes()


def test_what_a_crf_cannot_be_fitted_to_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    train(corpus(0, 12), settings=SgdSettings(features="finkel", passes=1), out=tmp_path / "model")
    odd = Document.build("odd", [["a", "b"]], labels=[["O", "B-ODD"]], pos=[["N", "N"]])
    written(tmp_path / "corpus", table_from_documents([*corpus(1, 3), odd]))
    words = ("--model", "model", "--corpus", "corpus", "--out", "fitted")
    for fit in ("both", "transitions"):
        refused = call("calibrate", *words, "--fit", fit, code=Exit.USAGE)
        assert f"--fit {fit}: transitions are fitted to another tagger's scores" in refused.stderr
    message = (
        "corpus: 1 of 4 documents have labels that the model does not have, such as 'B-ODD' in document 'odd'; take"
    )
    assert message in call("calibrate", *words, code=Exit.INPUT).stderr
    Path("c.yaml").write_text("constraints:\n- {template: starts_with, name: s, labels: O, weight: 1}\n")
    tuned = ("c.yaml", "--corpus", "corpus", "--out", "w.yaml", "--penalty", "tuned", "--model", "model")
    assert message in call("constraints", "weigh", *tuned, "--held-out", "corpus", code=Exit.INPUT).stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [((), "column 'labels' is missing"), (("--out", "corpus"), "would overwrite what is read, corpus; give")],
)
def test_documents_that_nothing_can_be_learned_from_are_one_line(
    more: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    documents = [replace(d, labels=None) for d in made(BIO, 8)]
    written(tmp_path / "corpus", scored(documents, [d.scores for d in documents if d.scores is not None]))
    model_of(BIO, tmp_path / "model")
    done = call("calibrate", "--model", "model", "--corpus", "corpus", "--out", "fitted", *more, code=Exit.INPUT)
    assert done.stderr.splitlines()[-1].startswith("concord: ")
    assert message.split(".*")[-1] in done.stderr
    assert not (tmp_path / "fitted").exists()
