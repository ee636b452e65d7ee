"""Lists of phrases: matches against plain loops, what a document is told while it is learned from, files, models."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.workers.features.attributes import AttributeMaker
from concord.workers.features.gazetteer_files import GazetteerFileError, read_entries, read_gazetteer, write_gazetteer
from concord.workers.features.gazetteers import (
    CASES,
    ENTITIES,
    GAZETTEER,
    LONGEST,
    SEEN_WORDS,
    Gazetteer,
    PhraseEntry,
    column_names,
)
from concord.workers.features.incidence import incidence
from concord.workers.features.scorer import Scorer, compile_weights
from concord.workers.features.templates import FeatureSetError, feature_set
from concord.workers.learning.trainers import crfsuite
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.feature_files import LIST_FILES
from concord.workers.models.folder import ModelError
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import CrfSettings, FeatureSettings
from concord.workers.synthesis.layered import with_layer
from tests.support.made_features import rows_of

Said = list[tuple[PhraseEntry, str | None]]

words = st.sampled_from(["a", "A", "b", "B", "ß", ""])
entries = st.tuples(
    st.tuples(st.lists(words, min_size=1, max_size=4).map(tuple), st.sampled_from(["X", "Y"])),
    st.sampled_from(["0", "1", "elsewhere", None]),
)
documents = st.lists(st.lists(st.lists(words, min_size=1, max_size=7), max_size=3), min_size=1, max_size=3)


def plain(said: Said, doc_id: str, sentence: list[str], fold: Callable[[str], str]) -> list[list[str]]:
    """The columns of a sentence, a phrase at a time: whole matches, then a role each."""
    told = {(tuple(map(fold, phrase)), kind) for (phrase, kind), only in said if only is None or only != doc_id}
    folded, whole, t = list(map(fold, sentence)), list[str](), 0
    while t < len(folded):
        for size in range(len(folded) - t, 0, -1):
            kinds = ",".join(sorted(kind for phrase, kind in told if phrase == tuple(folded[t : t + size])))
            if kinds:
                whole += [f"B-{kinds}", *[f"I-{kinds}"] * (size - 1)]
                break
        else:
            whole.append("")
        t = len(whole)
    roles: tuple[Callable[[tuple[str, ...]], tuple[str, ...]], ...] = (
        lambda phrase: phrase if len(phrase) == 1 else (),
        lambda phrase: phrase[:1] if len(phrase) > 1 else (),
        lambda phrase: phrase[1:-1],
        lambda phrase: phrase[-1:] if len(phrase) > 1 else (),
    )
    parts = [[",".join(sorted({k for p, k in told if word in role(p)})) for word in folded] for role in roles]
    return [whole, *parts]


@settings(max_examples=200, deadline=None)
@given(said=st.lists(entries, max_size=8), nested=documents)
def test_columns_are_those_of_plain_loops(said: Said, nested: list[list[list[str]]]) -> None:
    batch = Batch.of([Document.build(str(i), sentences) for i, sentences in enumerate(nested)])
    gazetteer = Gazetteer.of(said)
    for case, fold in CASES.items():
        found = gazetteer.columns(batch, ENTITIES + case)
        expected = [plain(said, str(i), s, fold) for i, sentences in enumerate(nested) for s in sentences]
        for place, name in enumerate(column_names(ENTITIES + case)):
            assert found[name].strings() == [value for columns in expected for value in columns[place]], (case, name)


@settings(max_examples=50, deadline=None)
@given(said=st.lists(entries, max_size=8), nested=documents, chance=st.randoms())
def test_a_list_is_the_same_in_any_order_and_a_document_alone_or_not(
    said: Said, nested: list[list[list[str]]], chance: random.Random
) -> None:
    made = [Document.build(str(i), sentences) for i, sentences in enumerate(nested)]
    gazetteer = Gazetteer.of(said)
    other = Gazetteer.of(chance.sample(said, len(said)))
    assert all(getattr(gazetteer, name).equals(getattr(other, name)) for name in ("phrases", "types", "only_in"))
    together = gazetteer.columns(Batch.of(made), "gazetteer-cased")
    alone = [pickle.loads(pickle.dumps(other)).columns(Batch.of([d]), "gazetteer-cased") for d in made]
    for name, column in together.items():
        assert column.strings() == [value for columns in alone for value in columns[name].strings()]


ANN, BOB, LONG = (["Ann"], ["B-PER"]), (["Bob", "Lee"], ["B-PER", "I-PER"]), (["x"] * (LONGEST + 1), ["B-ORG"])


def _document(doc_id: str, *parts: tuple[list[str], list[str]]) -> Document:
    labels = [tags + ["I-ORG"] * (len(text) - len(tags)) for text, tags in parts]
    return Document.build(doc_id, [text for text, _ in parts], labels=labels)


CORPUS = [
    _document("first", ANN, BOB),
    _document("second", BOB, LONG),
    _document("third", (["Ann", "Bob"], ["O", "O"])),
]


def _told(features: CrfSettings, corpus: list[Document]) -> dict[str, list[list[str]]]:
    """The attributes of the lists for each token of each document."""
    maker = AttributeMaker(features_of(features, corpus))
    return {d.doc_id: [[a for a in row if a.startswith("entities[0]")] for row in maker(d)] for d in corpus}


def test_a_document_that_is_learned_from_is_not_told_what_it_alone_has_said() -> None:
    told = _told(CrfSettings(features="entities"), CORPUS)
    ann, bob, lee = (["entities[0]=B-PER"], ["entities[0]=B-PER"], ["entities[0]=I-PER"])
    assert told["first"] == [["entities[0]="], bob, lee]
    assert told["second"][:2] == [bob, lee]
    assert told["second"][2:] == [["entities[0]="]] * (LONGEST + 1)  # nobody says what is so long
    assert told["third"] == [ann, ["entities[0]="]]


def test_a_model_tells_every_document_all_that_it_has_learned(tmp_path: Path) -> None:
    chosen = CrfSettings(features="core+entities", max_iterations=3)
    trained = crfsuite.train(CORPUS, settings=chosen, out=tmp_path / "model")
    batch = Batch.of(CORPUS)
    for model in (trained, load_model(tmp_path / "model")):
        assert trained.features.lists.keys() == {ENTITIES}
        assert model.potentials(batch).unary.tobytes() == trained.potentials(batch).unary.tobytes()
    rows = AttributeMaker(trained.features)(CORPUS[0])
    assert "entities[0]=B-PER" in rows[0]


def _lists() -> dict[str, Gazetteer]:
    said: Said = [((("Bob", "Lee"), "PER"), None), ((("bob",), "X=\x1f|"), None), ((("Lee",), "PER"), "first")]
    return {GAZETTEER: Gazetteer.of(said), ENTITIES: Gazetteer.of(said[2:])}


def test_attributes_scorer_and_incidence_agree_on_lists() -> None:
    features = feature_set("core+gazetteer+gazetteer-cased+entities", lists=_lists())
    batch = Batch.of(CORPUS)
    rows = [row for document in batch for row in AttributeMaker(features)(document)]
    assert [sorted(row) for row in rows_of(incidence(batch, features))] == [sorted(row) for row in rows]
    names = sorted({a for row in rows for a in row})
    weight, ids = np.random.default_rng(0).normal(size=len(names)), np.arange(len(names), dtype=np.int32)
    expected = np.zeros((len(rows), 3))
    place = {name: i for i, name in enumerate(names)}
    for t, row in enumerate(rows):
        for attribute in row:
            expected[t, place[attribute] % 3] += weight[place[attribute]]
    scorer = Scorer(pickle.loads(pickle.dumps(features)), compile_weights(features, names, ids, ids % 3, weight), 3)
    np.testing.assert_allclose(scorer.unary(batch), expected, atol=1e-12)


def test_lists_and_feature_sets_go_together(tmp_path: Path) -> None:
    for name, lists in (("core", _lists()), ("core+entities", None), ("gazetteer", {ENTITIES: _lists()[ENTITIES]})):
        with pytest.raises(FeatureSetError, match="go together"):
            feature_set(name, lists=lists)
    (tmp_path / "l.tsv").write_text("Ann\tPER\n")
    for features in ("core", "core+gazetteer"):
        with_file = features_of(FeatureSettings(features=features, gazetteers=(str(tmp_path / "l.tsv"),)), CORPUS)
        assert with_file.name == "core+gazetteer"
    with pytest.raises(FeatureSetError, match="'gazetteer' and its list of phrases go together"):
        features_of(FeatureSettings(features="core+gazetteer"), CORPUS)
    with pytest.raises(TrainingError, match="'d' has no gold labels"):
        features_of(FeatureSettings(features="core+entities"), [Document.build("d", [["a"]])])


@pytest.mark.parametrize(
    "name", [n for n, trainer in TRAINERS.items() if "gazetteers" in trainer.settings.model_fields]
)
def test_every_trainer_takes_lists(name: str, tmp_path: Path) -> None:
    (tmp_path / "l.tsv").write_text("Ann Lee\tPER\nLee\tPER\n")
    given = {"features": "core+gazetteer+entities", "gazetteers": (str(tmp_path / "l.tsv"),)}
    chosen = TRAINERS[name].settings.model_validate(given)
    documents = with_layer(CORPUS)
    trained = TRAINERS[name].train(documents, settings=chosen, out=tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert model.digest == trained.digest
    assert TRAINERS[name].train(documents[::-1][::-1], settings=chosen, out=tmp_path / "again").digest == model.digest
    batch = Batch.of(documents)
    whole = model.potentials(batch).unary
    assert whole.tobytes() == trained.potentials(batch).unary.tobytes()
    assert whole.tobytes() == b"".join(model.potentials(Batch.of([d])).unary.tobytes() for d in documents)


def test_a_model_keeps_its_lists_and_notices_when_they_change(tmp_path: Path) -> None:
    (tmp_path / "l.tsv").write_text("Ann Lee\tPER\n")
    chosen = CrfSettings(features="core+gazetteer", gazetteers=(str(tmp_path / "l.tsv"),), max_iterations=3)
    crfsuite.train(CORPUS, settings=chosen, out=tmp_path / "model")
    (tmp_path / "l.tsv").unlink()
    load_model(tmp_path / "model")
    write_gazetteer(tmp_path / "model" / LIST_FILES[GAZETTEER], Gazetteer.of([((("Ann",), "PER"), None)]))
    with pytest.raises(ModelError, match=r"gazetteer\.parquet"):
        load_model(tmp_path / "model")


def test_text_and_parquet_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "l.tsv").write_bytes(b"\xef\xbb\xbfNew  York\tLOC\r\n\nNew York\tTEAM\r\nAnn\tPER")
    expected = [(("New", "York"), "LOC"), (("New", "York"), "TEAM"), (("Ann",), "PER")]
    assert list(read_entries(tmp_path / "l.tsv")) == expected
    phrases = [["New", "York"], ["New", "York"], ["Ann"]]
    for column in (pa.array([" ".join(p) for p in phrases]), pa.array(phrases)):
        table = pa.table({"type": ["LOC", "TEAM", "PER"], "more": [1, 2, 3], "phrase": column})
        pq.write_table(table, tmp_path / "l.parquet")
        assert list(read_entries(tmp_path / "l.parquet")) == expected
    write_gazetteer(tmp_path / "m.parquet", read_gazetteer(tmp_path / "l.parquet"))
    write_gazetteer(tmp_path / "n.parquet", read_gazetteer(tmp_path / "m.parquet"))
    assert (tmp_path / "m.parquet").read_bytes() == (tmp_path / "n.parquet").read_bytes()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"Ann\tPER\nBob\n", "line 2: want a phrase, a tab and its type, found 0 tabs"),
        (b"a\tb\tc\n", "line 1: .* found 2 tabs"),
        (b"Ann\tPER\n  \tPER\n", "line 2: the phrase is missing"),
        (b"Ann Lee\t \n", "line 1: the type of 'Ann Lee' is missing"),
        (b"a\tb\n\xff\tPER\n", "line 2: not UTF-8"),
        (b"a " * 65 + b"\tX", "line 1: the phrase has 65 words, at most 64"),
    ],
)
def test_bad_text_names_file_line_and_field(tmp_path: Path, text: bytes, fault: str) -> None:
    (tmp_path / "l.tsv").write_bytes(text)
    with pytest.raises(GazetteerFileError, match=r"l\.tsv: " + fault):
        list(read_entries(tmp_path / "l.tsv"))


PARQUET: dict[str, dict[str, list[object]]] = {
    "row 2: the phrase is missing": {"phrase": ["a", None], "type": ["X", "X"]},
    "row 1: the phrase is missing": {"phrase": [["a", None]], "type": ["X"]},
    "row 2: the type of 'b' is missing": {"phrase": ["a", "b"], "type": ["X", None]},
    "wants a column 'phrase' .* has 'name'": {"name": ["a"], "type": ["X"]},
    "wants a column 'phrase' .* has 'phrase' .int64": {"phrase": [1], "type": ["X"]},
    "wants .* has 'phrase' .string., 'type' .int64": {"phrase": ["a"], "type": [1]},
}


@pytest.mark.parametrize("fault", PARQUET)
def test_bad_parquet_names_file_row_and_field(tmp_path: Path, fault: str) -> None:
    pq.write_table(pa.table(PARQUET[fault]), tmp_path / "l.parquet")
    with pytest.raises(GazetteerFileError, match=r"l\.parquet: " + fault):
        list(read_entries(tmp_path / "l.parquet"))


def test_a_missing_a_foreign_and_an_empty_file_are_one_message(tmp_path: Path) -> None:
    with pytest.raises(GazetteerFileError, match="no such file"):
        list(read_entries(tmp_path / "l.parquet"))
    (tmp_path / "l.parquet").write_bytes(b"nothing")
    with pytest.raises(GazetteerFileError, match="not a Parquet file"):
        list(read_entries(tmp_path / "l.parquet"))
    (tmp_path / "l.tsv").write_text("\n")
    with pytest.raises(GazetteerFileError, match=r"l\.tsv: there are no phrases in it"):
        features_of(FeatureSettings(features="gazetteer", gazetteers=(str(tmp_path / "l.tsv"),)), CORPUS)


def test_words_are_told_with_their_labels_and_not_what_a_document_alone_has_said() -> None:
    corpus = [
        Document.build("a", [["x", "y", "x", "z"]], labels=[["A", "B", "A", "A"]]),
        Document.build("b", [["x", "y", "u"]], labels=[["A", "A", "B"]]),
    ]
    features = features_of(FeatureSettings(features="fersini"), corpus)
    told = [[a.partition("=")[2] for row in AttributeMaker(features)(d) for a in row if "seen" in a] for d in corpus]
    assert told == [["A:3+", "A:1", "A:3+", ""], ["A:3+", "B:1", ""]]
    finished = feature_set("fersini", lists={SEEN_WORDS: features.lists[SEEN_WORDS].for_all})
    plain = Document.build("c", [["y", "u", "X"]])
    assert [row[-1] for row in AttributeMaker(finished)(plain)] == [
        "seen-only[0]=A:1,B:1",
        "seen-only[0]=B:1",
        "seen-only[0]=",
    ]
