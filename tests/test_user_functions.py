"""Functions that users bring with a CRFsuite model: what is told at the import, and what becomes of a bad one."""

from __future__ import annotations

import io
import json
import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite
import pytest

from concord.flows.cli.failures import Exit
from concord.schemas.columns import table_from_documents
from concord.schemas.document import Batch, Document
from concord.schemas.errors import DocumentError
from concord.schemas.labels import Scheme, to_bio
from concord.schemas.run import RunSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.features.derived import ColumnError
from concord.workers.inference.core.chain import viterbi
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.models.attribute_trial import try_function
from concord.workers.models.crfsuite import KNOWN_SHARE, TRUST, CrfsuiteModel
from concord.workers.models.folder import MANIFEST, parse_manifest
from concord.workers.models.loaders import load_model
from tests.support import user_functions as users
from tests.support.scored import written
from tests.support.word_features import call

WORDS = [["Mira", "Tolvan", "came", "to", "Larvik"], ["Larvik", "won"], ["Mira", "came"], ["Ada", "Tolvan", "won"]]
BILOU = [
    ["B-PER", "L-PER", "O", "O", "U-LOC"],
    ["U-LOC", "O"],
    ["U-PER", "O"],
    ["B-PER", "L-PER", "O"],
]
TAGS = {"pos": [["N" if word[0].isupper() else "V" for word in words] for words in WORDS]}
TAGS["chunk"] = [["C" for _ in words] for words in WORDS]


def trained(path: Path, labels: list[list[str]], function: Any, **columns: list[list[str]]) -> Path:
    trainer = pycrfsuite.Trainer(verbose=False, params={"max_iterations": 30, "feature.possible_transitions": True})
    for number, (words, names) in enumerate(zip(WORDS, labels, strict=True)):
        trainer.append(function(words, **{name: rows[number] for name, rows in columns.items()}), names)
    trainer.train(str(path))
    return path


def imported(file: Path, function: str, out: Path, *more: str) -> Any:
    words = ("import", "crfsuite", str(file), "--feature-function", f"{users.MODULE}:{function}", "--out", str(out))
    return call(*words, *more)


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name in dir(users) if not name.startswith("_")]
    monkeypatch.setenv(TRUST, ",".join(f"{users.MODULE}:{name}" for name in names))


# Labels of other schemes


def test_the_scores_of_a_model_of_bilou_are_the_probabilities_of_bio_labels(tmp_path: Path) -> None:
    """By enumeration of all BILOU sequences that the scheme allows, under python-crfsuite's own tagger."""
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    assert (
        "labels of BIOES or BILOU: scores are log-probabilities of BIO labels"
        in imported(file, "words_alone", tmp_path / "model").stdout
    )
    model = load_model(tmp_path / "model")
    assert model.labels.scheme is Scheme.BIO
    assert set(model.labels.types) == {"LOC", "PER"}
    tagger = pycrfsuite.Tagger()
    tagger.open(str(file))
    names = tagger.labels()
    for words in (["Mira", "Tolvan", "came"], ["Larvik"], ["Ada", "Mira", "Larvik"]):
        tagger.set(users.words_alone(words))
        wanted, total = np.zeros((len(words), len(model.labels))), 0.0
        for path in product(names, repeat=len(words)):
            if not allowed(path):
                continue
            chance = tagger.probability(list(path))
            total += chance
            for token, label in enumerate(to_bio(path)):
                wanted[token, model.labels.index[label]] += chance
        found = model.potentials(Batch.of([Document.build("d", [words])]))
        np.testing.assert_allclose(np.exp(found.unary), wanted / total, atol=1e-9)
        assert not found.transition.any()
    together = model.potentials(Batch.of([Document.build("d", [["Larvik"], ["Ada", "Mira"]])]))
    alone = model.potentials(Batch.of([Document.build("d", [["Ada", "Mira"]])]))
    np.testing.assert_allclose(together.unary[1:], alone.unary, atol=1e-9)


def allowed(path: tuple[str, ...]) -> bool:
    """BILOU by its words: a span is U, or B I* L, of one type."""
    open_type = ""
    for name in path:
        if name[0] in "IL" and name[2:] != open_type:
            return False
        if name[0] in "OBU" and open_type:
            return False
        open_type = name[2:] if name[0] in "BI" else ""
    return not open_type


def test_a_model_of_bilou_labels_the_sentences_of_its_training_right(tmp_path: Path) -> None:
    imported(trained(tmp_path / "a.crfsuite", BILOU, users.words_alone), "words_alone", tmp_path / "model")
    model = load_model(tmp_path / "model")
    batch = Batch.of([Document.build(f"d{i}", [words]) for i, words in enumerate(WORDS)])
    settings = check_settings(RunSettings(engine="viterbi"))
    labelled = label_batch(batch, model=model, constraints=Unconstrained(), settings=settings)
    assert [model.labels.decode(one.labels) for one in labelled.decoded] == [to_bio(names) for names in BILOU]


def test_padding_is_forbidden_and_another_odd_label_is_refused_unless_all_are_plain(tmp_path: Path) -> None:
    bio = [to_bio(names) for names in BILOU]
    padded = [*bio[:3], ["B-PER", "I-PER", "<pad>"]]
    said = imported(trained(tmp_path / "a", padded, users.words_alone), "words_alone", tmp_path / "model").stdout
    assert "<pad>: padding, which no token gets as its label" in said
    model = load_model(tmp_path / "model")
    assert "<pad>" not in model.labels.names
    assert model.labels.scheme is Scheme.BIO
    scores = model.potentials(Batch.of([Document.build("d", [WORDS[3]])]))
    assert scores.unary.shape == (3, len(model.labels))
    mixed = trained(tmp_path / "b", [*bio[:3], ["B-PER", "I-PER", "X"]], users.words_alone)
    words = ("import", "crfsuite", str(mixed), "--feature-function", f"{users.MODULE}:words_alone")
    said = call(*words, "--out", str(tmp_path / "b-model"), code=Exit.INPUT).stderr
    assert "label 'X' beside 'B-PER' is of no scheme of spans: write 'B-X'" in said.replace("'B-LOC'", "'B-PER'")
    call(*words, "--scheme", "plain", "--out", str(tmp_path / "b-model"))
    assert load_model(tmp_path / "b-model").labels.scheme is Scheme.PLAIN


# What the function makes


def test_the_share_of_known_attributes_is_told_by_family_and_kept(tmp_path: Path) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.with_tags, **TAGS)
    done = json.loads(imported(file, "other_tags", tmp_path / "model", "--json").stdout)
    assert 0 < done["attributes_known"] < 0.5
    assert {family["name"] for family in done["weak_families"]} == {"pos", "other"}
    assert all(family["known"] == 0 for family in done["weak_families"])
    assert parse_manifest(tmp_path / "model" / MANIFEST).training[KNOWN_SHARE] == done["attributes_known"]
    said = imported(file, "other_tags", tmp_path / "model2").stdout
    assert "is it the function that the model was trained with?" in said
    assert f"pos: 0 of {done['weak_families'][0]['values']} values known" in said


def test_a_trial_counts_what_a_plain_loop_counts() -> None:
    made = {"a": [("w=a", 1.0), ("bias", 1.0), ("p:x", 0.0)], "b": [("w=b", 1.0), ("bias", 1.0)], "c:": [("w=c:", 2.0)]}

    def make(sentence: Any) -> Any:
        if "refused" in sentence["tokens"]:
            raise DocumentError("refused")
        return [made[word] for word in sentence["tokens"]]

    known = {"w=a": 0, "bias": 1}
    trial = try_function(make, known, [{"tokens": s} for s in (["a", "b"], ["refused"], ["a", "c:"])])
    assert (trial.sentences, trial.failed, trial.fault) == (3, 1, "refused")
    assert (trial.made, trial.known) == (7, 5)
    assert trial.share == pytest.approx(5 / 7)
    assert {(f.name, f.values, f.known) for f in trial.families} == {("w", 3, 1), ("features without a value", 1, 1)}
    assert [family.name for family in trial.weak] == ["w"]


def test_a_function_may_ask_for_columns(tmp_path: Path) -> None:
    bio = [to_bio(names) for names in BILOU]
    file = trained(tmp_path / "a.crfsuite", bio, users.with_tags, **TAGS)
    done = json.loads(imported(file, "with_tags", tmp_path / "model", "--json").stdout)
    assert done["columns"] == ["pos", "chunk"]
    assert done["attributes_known"] > 0.8
    assert not done["word_tables"]
    model = load_model(tmp_path / "model")
    assert model.columns == ("tokens", "pos", "chunk")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(file))
    batch = Batch.of([Document.build("d", WORDS, labels=None, **TAGS)])
    found = model.labels.decode(viterbi(model.potentials(batch).legal(model.labels)))
    wanted = []
    for number, words in enumerate(WORDS):
        wanted += tagger.tag(users.with_tags(words, TAGS["pos"][number], TAGS["chunk"][number]))
    assert found == wanted
    message = "there is no column 'pos', which tests.support.user_functions:with_tags asks for"
    with pytest.raises(ColumnError, match=message):
        model.potentials(Batch.of([Document.build("d", WORDS)]))


def plain_corpus(folder: Path) -> Path:
    return written(folder / "corpus", table_from_documents([Document.build(f"d{i}", [w]) for i, w in enumerate(WORDS)]))


def test_a_corpus_may_be_the_trial(tmp_path: Path) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    done = imported(file, "sometimes", tmp_path / "model", "--corpus", str(plain_corpus(tmp_path)), "--json")
    report = json.loads(done.stdout)
    assert (report["trial_sentences"], report["failed_sentences"]) == (4, 2)
    assert report["fault"] == f"{users.MODULE}:sometimes cannot take it: RuntimeError: no came"
    assert report["attributes_known"] == 1.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("unknown", "of the attributes that it makes, such as 'in_no_model', the model knows none; it has 'w="),
        ("no_attributes", "makes no attributes of 200 trial sentences"),
        ("nothing", "fails on all 200 trial sentences, the first time so: cannot take it: TypeError"),
        ("one_token", "gave the features of one token; let it return a list, an item for each"),
        ("runtime", "cannot take it: RuntimeError: model not loaded"),
        ("told_in_lines", "cannot take it: OSError: no dictionary; download it: by this"),
        ("missing_file", "cannot take it: OSError: no dictionary file"),
        ("missing_package", "cannot take it: ImportError: no package"),
        ("leaves", "cannot take it: SystemExit: 3"),
        ("own_error", "cannot take it: OwnError: no such state"),
    ],
)
def test_a_function_that_cannot_be_right_is_refused_at_the_import(function: str, message: str, tmp_path: Path) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    words = ("import", "crfsuite", str(file), "--feature-function", f"{users.MODULE}:{function}")
    said = call(*words, "--out", str(tmp_path / "model"), code=Exit.INPUT).stderr
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_a_module_that_its_module_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    (tmp_path / "wants_more.py").write_text("import nowhere_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    words = ("import", "crfsuite", str(file), "--feature-function", "wants_more:features")
    said = call(*words, "--out", str(tmp_path / "model"), code=Exit.INPUT).stderr
    assert "wants_more:features: needs the module 'nowhere_at_all', which is not there; install that, too" in said


def test_what_a_function_prints_is_no_part_of_the_answer(tmp_path: Path) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    done = imported(file, "loud", tmp_path / "model", "--json")
    assert json.loads(done.stdout)["attributes_known"] == 1.0


def test_any_error_of_a_function_is_the_reject_of_its_document(tmp_path: Path) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    imported(file, "sometimes", tmp_path / "model", "--no-word-tables")
    model = load_model(tmp_path / "model")
    batch = Batch.of([Document.build(f"d{i}", [words]) for i, words in enumerate(WORDS)])
    settings = check_settings(RunSettings(engine="viterbi"))
    labelled = label_batch(batch, model=model, constraints=Unconstrained(), settings=settings)
    reason = f"{users.MODULE}:sometimes cannot take it: RuntimeError: no came"
    assert labelled.refused == {0: reason, 2: reason}


def test_a_run_warns_where_the_model_knows_less_than_at_its_import(tmp_path: Path) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    imported(file, "words_alone", tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert isinstance(model, CrfsuiteModel)
    known = [Document.build("d", WORDS)]
    foreign = [Document.build("d", [["quite", "other", "words", "than", "Mira"]])]
    assert model.misfit(known) == ""
    assert model.misfit(foreign) == (
        f"of the attributes that {users.MODULE}:words_alone makes of the first 1 documents, the model knows 20% "
        "(100% at its import; w: 1 of 5 values): its labels mean little there"
    )


def test_a_pickle_is_told_what_it_is(tmp_path: Path) -> None:
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        data = io.BytesIO()
        pickle.dump({"modelfile": "x" * 100}, data, protocol=protocol)
        (tmp_path / "crf.pkl").write_bytes(data.getvalue())
        words = ("import", "crfsuite", str(tmp_path / "crf.pkl"), "--feature-function", f"{users.MODULE}:words_alone")
        said = call(*words, "--out", str(tmp_path / "model"), code=Exit.INPUT).stderr
        assert "is a pickle of Python objects, not CRFsuite's model file" in said
        assert "crf.modelfile.name" in said


# Tokenizers


def cut(function: Any, text: str) -> list[tuple[str, str]]:
    """Words of a text, and what stands in the text where each is placed."""
    found = OwnTokenizer("f", function)([text])
    places = zip(found.start.tolist(), found.end.tolist(), strict=True)
    return [(word, text[a:b]) for word, (a, b) in zip(found.tokens.strings(), places, strict=True)]


def test_words_that_a_tokenizer_changes_stand_where_they_came_from() -> None:
    assert cut(users.lower, "Mira  CAME to Larvik") == [
        ("mira", "Mira"),
        ("came", "CAME"),
        ("to", "to"),
        ("larvik", "Larvik"),
    ]
    assert cut(users.joined, "to New York now") == [("to", "to"), ("NewYork", "New York"), ("now", "now")]
    assert cut(users.written_out, "12 Main St, Soldotna & Elm") == [
        ("12", "12"),
        ("main", "Main"),
        ("street", "St"),
        ("soldotna", "Soldotna"),
        ("and", "&"),
        ("elm", "Elm"),
    ]
    assert cut(str.split, "İstanbul Straße") == [("İstanbul", "İstanbul"), ("Straße", "Straße")]
    assert cut(lambda text: text.upper().split(), "Straße é") == [("STRASSE", "Straße"), ("É", "é")]
    assert cut(users.with_places, "ab cd") == [("BA", "ab"), ("DC", "cd")]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda text: ["zebra", *text.split()], "gave 'zebra', which stands nowhere in the text; let it return"),
        (users.wrong_places, "gave starts and ends that do not rise inside the text"),
        (users.some_places, "gave .word, start, end. for some words and not for others"),
        (users.leaves, "cannot take it: SystemExit: 3"),
        (users.missing_file, "cannot take it: OSError: no dictionary file"),
    ],
)
def test_a_word_that_stands_nowhere_is_told(function: Any, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        cut(function, "Mira came")


def test_a_tokenizer_is_tried_at_the_import(tmp_path: Path) -> None:
    file = trained(tmp_path / "a.crfsuite", BILOU, users.words_alone)
    tokenizer = ("--tokenizer-function", f"{users.MODULE}:lower")
    said = imported(file, "words_alone", tmp_path / "model", *tokenizer).stdout
    assert "it changes words, as '" in said
    words = ("import", "crfsuite", str(file), "--feature-function", f"{users.MODULE}:words_alone")
    more = ("--tokenizer-function", f"{users.MODULE}:runtime", "--out", str(tmp_path / "other"))
    said = call(*words, *more, code=Exit.INPUT).stderr
    assert f"{users.MODULE}:runtime: fails on all 60 trial texts, the first time so: cannot take it: Runtime" in said
