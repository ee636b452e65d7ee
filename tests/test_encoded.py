"""A CRF beside a frozen encoder: contexts and head against plain loops, the whole contract, bad folders."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

import concord.flows.cluster.cluster
from concord.flows.cli.trainer_flags import TrainerFlags, trainer_pairs
from concord.flows.inputs.options import OptionError
from concord.flows.work.in_process import InProcess
from concord.schemas.challenge import ChallengeReport
from concord.schemas.document import Batch, Column, Document
from concord.schemas.errors import TrainingError
from concord.testing.trainers import check_trainer, made_up
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.features.templates import FeatureSetError, feature_set
from concord.workers.learning.estimation.softmax import HeadWords, _HeadObjective, fit_head
from concord.workers.learning.search.folds import is_held_out
from concord.workers.learning.trainers import beside_encoder as beside
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import Iteration
from concord.workers.models import crf
from concord.workers.models.encoded import CRF_FOLDER, FLOOR, EncodedModel, Head
from concord.workers.models.encoder import COLUMNS_AT_ONCE, CONTEXT_PARTS, WordContext, encoder_at
from concord.workers.models.folder import ModelError
from concord.workers.models.loaders import load_model
from concord.workers.models.score_cache import FOLDER
from concord.workers.models.settings import LbfgsSettings, SgdSettings
from tests.support.networks import CALLS, VOCABULARY, network_folder, use_stubs
from tests.support.word_features import call

WIDTH = 5
STATES = np.random.default_rng(2).normal(size=(VOCABULARY, WIDTH)).astype(np.float32)
FEATURES = "core+entities"


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder, which is a table; states and scores are kept in a folder of the test's own."""
    use_stubs(monkeypatch)
    base = tmp_path_factory.mktemp("encoder")
    monkeypatch.setenv(FOLDER, str(base / "kept"))
    CALLS.clear()
    return network_folder(base / "net", (), STATES, around=True, room=32)


def settings(encoder: Path, **given: Any) -> SgdSettings:
    return SgdSettings(features=FEATURES, passes=3, encoder=str(encoder), head_iterations=8, **given)


def texts() -> list[Document]:
    return [
        Document.build("a", [["Mira", "met", "mira"], ["Mira", "left"]]),
        Document.build("b", [["mira"], ["x"]]),
        Document.build("c", [["left", "left", "Left", "x"]]),
    ]


def test_a_context_is_what_a_plain_loop_finds() -> None:
    batch = Batch.of(texts())
    rows = np.random.default_rng(0).normal(size=(len(batch.columns["tokens"].codes), 2 * COLUMNS_AT_ONCE + 3))
    found, first = WordContext.of(batch), 0
    elsewhere = found.elsewhere(rows)
    for document in texts():
        words = [word.lower() for word in document.tokens]
        for t, word in enumerate(words):
            others = [first + u for u, other in enumerate(words) if other == word and u != t]
            np.testing.assert_allclose(elsewhere[first + t], rows[others or [first + t]].mean(axis=0))
            begins = t in document.sentence_starts.tolist()
            ends = t + 1 == len(words) or t + 1 in document.sentence_starts.tolist()
            assert found.previous[first + t] == (-1 if begins else first + t - 1)
            assert found.next[first + t] == (-1 if ends else first + t + 1)
        first += len(words)


def test_nothing_has_no_context() -> None:
    found = WordContext.of(Batch.of([]))
    assert [len(part) for part in found] == [0, 0, 0]
    assert found.elsewhere(np.zeros((0, 3))).shape == (0, 3)


def test_a_head_gives_what_its_formula_says() -> None:
    batch, rng = Batch.of(texts()), np.random.default_rng(1)
    count = len(batch.columns["tokens"].codes)
    states = rng.normal(size=(count, WIDTH)).astype(np.float32)
    weights = rng.normal(size=(CONTEXT_PARTS, WIDTH, 4)).astype(np.float32)
    head = Head(np.full(WIDTH, 0.5, np.float32), np.full(WIDTH, 2.0, np.float32), weights, rng.normal(size=4))
    context = WordContext.of(batch)
    found = head.log_probabilities(head.parts(states), context)
    read = (states.astype(np.float64) - 0.5) * 2.0
    elsewhere = context.elsewhere(read)
    for t in range(count):
        around = (read[place] if place >= 0 else np.zeros(WIDTH) for place in (context.previous[t], context.next[t]))
        scores = sum(state @ part for state, part in zip((read[t], elsewhere[t], *around), weights, strict=True))
        np.testing.assert_allclose(found[t], np.maximum(log_softmax(scores + head.bias), FLOOR), atol=1e-4)


def head_words(count: int = 30) -> HeadWords:
    rng = np.random.default_rng(3)
    words = [[f"w{n}" for n in rng.integers(0, 9, count)]]
    context = WordContext.of(Batch.of([Document.build("d", words)]))
    states = rng.normal(size=(count, WIDTH)).astype(np.float32)
    gold = (states[:, 0] > 0).astype(np.int32) + (states[:, 1] > 1.0)
    return HeadWords(states, context, gold.astype(np.int32), 3)


def test_the_slope_of_the_loss_is_that_of_small_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    words = head_words()
    objective = _HeadObjective(words, words.states, c2=0.7)
    point = np.random.default_rng(4).normal(size=objective.size)
    slope = objective(point)[1]
    np.testing.assert_allclose(slope, approx_fprime(point, lambda p: objective(p)[0], 1e-3), rtol=0.02, atol=0.3)
    whole = objective(point)
    monkeypatch.setattr("concord.workers.learning.estimation.softmax.CONTEXTS_AT_ONCE", 7)
    assert objective(point)[0] == pytest.approx(whole[0])


def test_a_head_learns_and_a_stronger_prior_keeps_it_smaller() -> None:
    words = head_words(200)
    losses: list[float] = []
    loose = fit_head(words, c2=0.01, iterations=50, progress=lambda _, loss: losses.append(loss))
    strict = fit_head(words, c2=100.0, iterations=50)
    answers = loose.log_probabilities(loose.parts(words.states), words.context).argmax(axis=1)
    assert (answers == words.gold).mean() > 0.9
    assert losses[-1] < losses[0]
    assert np.abs(strict.weights).sum() < 0.3 * np.abs(loose.weights).sum()


@pytest.mark.parametrize(("name", "base"), [("sgd", SgdSettings), ("lbfgs", LbfgsSettings)])
def test_a_trainer_with_an_encoder_keeps_every_promise(name: str, base: Any, encoder: Path) -> None:
    few = {"passes": 3} if base is SgdSettings else {"max_iterations": 4}
    by_default = {"features": FEATURES, "encoder": str(encoder), "share": 0.4, "head_iterations": 5, **few}

    class WithEncoder(base):  # type: ignore[misc]
        def __init__(self, **given: Any) -> None:
            super().__init__(**{**by_default, **given})

    check_trainer(name, TRAINERS[name]._replace(settings=WithEncoder), load_model)


def test_scores_are_those_of_the_crf_and_a_share_of_the_head_s(encoder: Path, tmp_path: Path) -> None:
    documents = made_up(30, seed=0)
    model = TRAINERS["sgd"].train(documents, settings=settings(encoder, share=0.3), out=tmp_path / "model")
    assert isinstance(model, EncodedModel)
    batch = Batch.of(made_up(4, seed=1))
    inner = crf.load(tmp_path / "model" / CRF_FOLDER)
    states = encoder_at(encoder).states(batch)
    added = model.head.log_probabilities(model.head.parts(states), WordContext.of(batch))
    np.testing.assert_allclose(model.potentials(batch).unary, inner.potentials(batch).unary + 0.3 * added, atol=1e-4)
    alone = Batch.of([batch.document(2)])
    first = int(batch.doc_starts[2])
    part = model.potentials(batch).unary[first : first + len(alone.document(0))]
    assert model.potentials(alone).unary.tobytes() == part.tobytes()
    assert model.known(["of", "qqqq"]).tolist() == inner.known(["of", "qqqq"]).tolist()
    CALLS.clear()
    again = pickle.loads(pickle.dumps(model, protocol=5))
    assert again.potentials(batch).unary.tobytes() == model.potentials(batch).unary.tobytes()
    assert CALLS == [], "sentences are computed once"


def test_the_share_is_chosen_on_documents_that_were_held_out_and_may_be_none(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = made_up(40, seed=0)
    seen: list[Iteration] = []
    model = TRAINERS["sgd"].train(documents, settings=settings(encoder), out=tmp_path / "model", progress=seen.append)
    assert isinstance(model, EncodedModel)
    figures = model.manifest.training
    assert figures["share"] == model.share
    assert model.share in beside.SHARES
    assert figures["held_out_f1"] >= figures["held_out_f1_without_encoder"] > 0
    numbers = [iteration.number for iteration in seen]
    assert numbers == sorted(set(numbers))
    assert all(iteration.number <= iteration.total for iteration in seen)
    inside = [document for document in documents if not is_held_out(document.doc_id, 0.2)]
    assert len(inside) < len(documents)
    tuned = TRAINERS["sgd"].train(inside, settings=settings(encoder), out=tmp_path / "inside")
    assert isinstance(tuned, EncodedModel)
    assert tuned.manifest.training["held_out_f1"] > 0, "where others hold documents out by hashes, the last are judged"
    monkeypatch.setattr(beside, "SHARES", (0.0, 9.0))
    none = TRAINERS["sgd"].train(documents, settings=settings(encoder), out=tmp_path / "none")
    assert isinstance(none, EncodedModel)
    assert none.share == 0.0
    with pytest.raises(TrainingError, match="too few to choose the encoder's share; give --set share="):
        TRAINERS["sgd"].train(documents[:1], settings=settings(encoder), out=tmp_path / "few")


def without(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


def wrong(name: str, text: str) -> Any:
    return lambda folder: (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("model.onnx"), "has no file .onnx; export the network"),
        (without("tokenizer.json"), "has no tokenizer.json; an encoder is a network in ONNX and its tokenizer"),
        (wrong("config.json", "[1]"), "config.json: cannot be read"),
        (wrong("model.onnx", "{"), "model.onnx: cannot be read by onnxruntime"),
        (lambda folder: (folder / "model.onnx").rename(folder / "a.onnx") and wrong("b.onnx", "{}")(folder), "several"),
    ],
)
def test_a_folder_that_is_no_encoder_is_one_line(change: Any, message: str, encoder: Path, tmp_path: Path) -> None:
    change(encoder)
    with pytest.raises(ModelError) as raised:
        TRAINERS["sgd"].train(made_up(4, seed=0), settings=settings(encoder), out=tmp_path / "model")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_command_names_an_encoder_by_a_flag_that_trainers_without_one_refuse() -> None:
    flags = TrainerFlags(encoder="nets/minilm")
    assert trainer_pairs("sgd", flags, []) == ['encoder="nets/minilm"']
    with pytest.raises(OptionError, match=r"--encoder: trainer hmm has no such option; .* lbfgs, sgd, ensemble$"):
        trainer_pairs("hmm", flags, [])


def clustered(encoder: Path, out: Path, **more: Any) -> EncodedModel:
    model = TRAINERS["sgd"].train(
        made_up(40, seed=0), settings=settings(encoder, state_clusters=(3, 7), share=0.4, **more), out=out
    )
    assert isinstance(model, EncodedModel)
    return model


def test_features_read_the_cluster_of_each_state(encoder: Path, tmp_path: Path) -> None:
    """The CRF's scores are those of documents whose columns a plain loop over states has made."""
    model, documents = clustered(encoder, tmp_path / "model"), made_up(5, seed=1)
    assert model.clusters is not None
    assert model.clusters.sizes == (3, 7)
    assert not {"state-3", "state-7"} & set(model.columns)
    batch = Batch.of(documents)
    states = model.encoder.states(batch).astype(np.float64)
    columns = {}
    for size, centers in zip((3, 7), model.clusters.centers, strict=True):
        nearest = []
        for state in states:
            away = state - model.clusters.mean
            unit = away / (np.linalg.norm(away) + 1e-9)
            nearest.append(str(int(np.argmin(((centers - unit) ** 2).sum(axis=1)))))
        columns[f"state-{size}"] = Column.encode(nearest)
    inner = model.inner.potentials(replace(batch, columns={**batch.columns, **columns})).unary
    of_head = model.head.log_probabilities(model.head.parts(model.encoder.states(batch)), WordContext.of(batch))
    np.testing.assert_allclose(model.potentials(batch).unary, inner + 0.4 * of_head, atol=1e-5)
    assert len(set(columns["state-7"].strings())) > 2


def test_a_model_with_clusters_of_states_keeps_every_promise(encoder: Path) -> None:
    by_default = settings(encoder, state_clusters=(2, 5), share=0.3).model_dump(exclude_defaults=True)

    class Clustered(SgdSettings):
        def __init__(self, **given: Any) -> None:
            super().__init__(**{**by_default, **given})

    check_trainer("sgd", TRAINERS["sgd"]._replace(settings=Clustered), load_model)


@pytest.mark.filterwarnings("ignore")  # of what MLflow itself uses when it packs a model
def test_a_challenger_that_is_the_champion_again_is_told_as_such(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports have the digest by which the model is known when it is loaded, with the network's libraries in it."""
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(concord.flows.cluster.cluster, "cluster", lambda *_, **__: nullcontext(InProcess()))
    documents = made_up(40, seed=0)
    write_corpus(documents[:30], tmp_path / "corpus", source="test")
    write_corpus(documents[30:], tmp_path / "judges", source="test")
    words = ["challenge", "--corpus", "corpus", "--held-out", "judges", "--register", "news", "--out", "out", "--json"]
    words += ["--trainer", "sgd", "--features", FEATURES, "--encoder", str(encoder)]
    words += ["--engine", "viterbi", "--no-consistency", "--workers", "1"]
    first, again = (ChallengeReport.model_validate_json(call(*words).stdout) for _ in range(2))
    assert load_model(tmp_path / "out" / "model").digest == first.training.model_digest == again.training.model_digest
    assert (first.promoted, again.reason) == (True, "it is the same model as the champion, byte for byte")


def test_clusters_of_states_that_cannot_be_are_refused(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give an encoder, too"):
        SgdSettings(state_clusters=(5,))
    with pytest.raises(ValueError, match="different numbers of at least 2"):
        settings(encoder, state_clusters=(5, 5))
    with pytest.raises(TrainingError, match="too few for 99999 clusters of states"):
        TRAINERS["sgd"].train(
            made_up(3, seed=0), settings=settings(encoder, state_clusters=(99999,), share=0.4), out=tmp_path / "few"
        )
    with pytest.raises(FeatureSetError, match="want numbers of clusters"):
        feature_set("core+states:many")
