"""Layers: a tagger's answers beside a corpus, and models that learn what its labels mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.commands.layering import import_entities
from concord.flows.options import OptionError
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet
from concord.schemas.layers import LayerError, check_layer_name, grade_of, layer_columns, layer_labels
from concord.schemas.reports import EntitiesReport
from concord.workers.corpus.ingestion import IngestError, ingest, write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.corpus.taggers import EMPTY, HIDDEN, INSIDE, LOST, OTHER_TEXT, SEVERAL, UNKNOWN
from concord.workers.features.templates import FeatureSetError, feature_set
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.trainers import lbfgs, sgd
from concord.workers.learning.trainers.layers import answering, choose_layers, copied, own_labels
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import LbfgsSettings, SgdSettings

TEXT = "Mira Tolvan works at Acme Corp in Oslo. Tolvan lives there."


def corpus(folder: Path, texts: dict[str, str]) -> Path:
    source = folder / "texts.jsonl"
    source.write_text("".join(json.dumps({"id": doc_id, "text": text}) + "\n" for doc_id, text in texts.items()))
    ingest("text", source, folder / "corpus")
    return folder / "corpus"


def answers(folder: Path, *records: Any) -> str:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def imported(folder: Path, *records: Any, texts: dict[str, str] | None = None, **given: Any) -> EntitiesReport:
    place = corpus(folder, {"a": TEXT} if texts is None else texts)
    return import_entities(
        answers(folder, *records), folder / "out", form="spans", name="ner", corpus=str(place), **given
    )


def layer(folder: Path, doc_id: str = "a", name: str = "ner") -> dict[str, Any]:
    rows = pq.read_table(folder / "out").to_pylist()
    (row,) = [row for row in rows if row["doc_id"] == doc_id]
    return {column: row[column] for column in ("tokens", *layer_columns(name))}


def marked(row: dict[str, Any], name: str = "ner") -> list[tuple[str, str, str]]:
    return [
        (word, label, grade)
        for word, label, grade in zip(row["tokens"], row[name], row[f"{name}_grade"], strict=True)
        if label != "O"
    ]


def test_answers_that_say_nothing_of_entities_are_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    from spacy.tokens import DocBin

    unset, empty = spacy.blank("en")(TEXT), spacy.blank("en")(TEXT)
    empty.ents = []
    place, path = str(corpus(tmp_path, {"a": TEXT})), tmp_path / "a.spacy"
    DocBin(docs=[unset]).to_disk(path)
    with pytest.raises(LayerError, match="none of its 1 records has entities, set or empty"):
        import_entities(str(path), tmp_path / "out", form="spans", name="ner", corpus=place)
    DocBin(docs=[unset, empty]).to_disk(path)
    report = import_entities(str(path), tmp_path / "out", form="spans", name="ner", corpus=place)
    assert (report.answered, report.spans) == (1, 0)
    assert report.unused == {"records that say nothing of entities, not even that there are none": 1}
    assert "the tagger marks nothing in any document" in report.notices[0]


def test_spans_come_with_labels_scores_and_tokens(tmp_path: Path) -> None:
    report = imported(
        tmp_path,
        {"id": "a", "text": TEXT, "entities": [
            {"start": 0, "end": 11, "label": "PERSON", "score": 0.97},
            {"start": 21, "end": 30, "label": "COMPANY"},
        ]},
        names=["COMPANY=ORG"],
    )  # fmt: skip
    row = layer(tmp_path)
    assert marked(row) == [
        ("Mira", "B-PERSON", "0.9"),
        ("Tolvan", "I-PERSON", "0.9"),
        ("Acme", "B-ORG", "-"),
        ("Corp", "I-ORG", "-"),
    ]
    whole = {"label": "COMPANY", "char_start": 21, "char_end": 30, "score": None, "alignment": None}
    assert row["ner_spans"][1] == whole | {"start": 4, "end": 6}
    assert (report.answered, report.spans, report.labels) == (1, 2, {"PERSON": 1, "COMPANY": 1})
    assert not report.unplaced
    assert not report.unused


def test_words_without_a_place_stand_everywhere_and_alignment_is_a_grade(tmp_path: Path) -> None:
    imported(
        tmp_path,
        {"document_id": "a", "text": TEXT, "extractions": [
            {"extraction_class": "person", "extraction_text": "Tolvan", "char_interval": None},
            {"extraction_class": "org", "extraction_text": "Acme", "alignment_status": "match_fuzzy",
             "char_interval": {"start_pos": 21, "end_pos": 30}},
        ]},
    )  # fmt: skip
    assert marked(layer(tmp_path)) == [
        ("Tolvan", "B-person", "-"),
        ("Acme", "B-org", "match_fuzzy"),
        ("Corp", "I-org", "match_fuzzy"),
        ("Tolvan", "B-person", "-"),
    ]


def test_what_has_no_place_is_counted_by_its_reason(tmp_path: Path) -> None:
    texts = {"a": TEXT, "b": "Nothing here.", "c": "Other words.", "d": "Twice said.", "e": "No answer."}
    report = imported(
        tmp_path,
        {"id": "a", "text": TEXT, "entities": [[5, 11, "X"], [0, 11, "X"], [34, 36, "X"], [4, 5, "X"]]},
        {"id": "y", "text": "Nothing  here.", "entities": {"x": ["nowhere"]}},
        {"id": "c", "text": "Another text.", "entities": []},
        {"id": "d1", "text": "Twice said.", "entities": []},
        {"id": "d2", "text": "Twice said.", "entities": [[0, 5, "X"]]},
        {"id": "z", "text": "Unknown.", "entities": []},
        texts=texts,
    )
    assert report.unplaced == {INSIDE: 1, HIDDEN: 1, EMPTY: 1, LOST: 1}
    assert report.unused == {OTHER_TEXT: 1, SEVERAL: 1, UNKNOWN: 1, "documents of the corpus without an answer": 3}
    assert (report.documents, report.answered) == (5, 2)
    assert layer(tmp_path, "b")["ner"] == ["O"] * 3
    assert layer(tmp_path, "e")["ner"] == ["?"] * 3
    assert layer(tmp_path, "e")["ner_spans"] is None
    inside = next(span for span in layer(tmp_path)["ner_spans"] if span["char_start"] == 34)
    assert (inside["start"], inside["end"]) == (None, None)


@pytest.mark.parametrize("form", ["columns", "pubtator"])
def test_other_readers_give_spans_too(form: str, tmp_path: Path) -> None:
    place, source = corpus(tmp_path, {"a": "Mira Tolvan works. In Oslo."}), tmp_path / "source.txt"
    if form == "columns":
        source.write_text("Mira B-PER\nTolvan I-PER\nworks O\n. O\nIn O\nOslo B-LOC\n. O\n")
    else:
        source.write_text("9|t|Mira Tolvan works.\n9|a|In Oslo.\n9\t0\t11\tMira Tolvan\tPER\n9\t22\t26\tOslo\tLOC\n\n")
    options = ["columns=tokens,labels"] if form == "columns" else []
    import_entities(
        str(source), tmp_path / "out", form=form, name="ner", corpus=str(place), options=options, overwrite=False
    )
    assert [(word, label) for word, label, _ in marked(layer(tmp_path))] == [
        ("Mira", "B-PER"),
        ("Tolvan", "I-PER"),
        ("Oslo", "B-LOC"),
    ]


def test_layers_lie_beside_each_other_and_outlive_an_append(tmp_path: Path) -> None:
    imported(tmp_path, {"id": "a", "text": TEXT, "entities": [[0, 11, "X"]]})
    import_entities(
        answers(tmp_path, {"id": "a", "text": TEXT, "entities": [[34, 38, "Y"]]}),
        tmp_path / "both",
        form="spans",
        name="other",
        corpus=str(tmp_path / "out"),
    )
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "n", "text": "New one."}\n')
    ingest("text", more, tmp_path / "both", append=True)
    documents = [d for shard in plan(str(tmp_path / "both")) for d in read_batch(shard)[0]]
    assert [d.doc_id for d in documents] == ["a", "n"]
    assert documents[0].columns["ner"].strings()[:3] == ["B-X", "I-X", "O"]
    assert documents[0].columns["other"].strings()[7] == "B-Y"
    assert documents[1].columns["ner"].strings() == ["?", "?", "?"]


def test_what_is_wrong_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LayerError, match="none of its 1 answers is to a document"):
        imported(tmp_path, {"id": "q", "text": "Else.", "entities": []})
    assert not (tmp_path / "out").exists()
    place = str(tmp_path / "corpus")
    source = answers(tmp_path, {"id": "a", "text": TEXT, "entities": []})
    for name in ("tokens", "a b", "x_spans", "case", "a+b"):
        with pytest.raises(LayerError, match="--name"):
            import_entities(source, tmp_path / "out", form="spans", name=name, corpus=place)
    with pytest.raises(OptionError, match="THEIRS=YOURS"):
        import_entities(source, tmp_path / "out", form="spans", name="ner", corpus=place, names=["ORG"])
    with pytest.raises(OptionError, match="no reader"):
        import_entities(source, tmp_path / "out", form="span", name="ner", corpus=place)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(IngestError, match="not empty"):
        import_entities(source, tmp_path / "out", form="spans", name="ner", corpus=place)


def test_grades_and_names() -> None:
    grades = [grade_of(score, None) for score in (None, float("nan"), 0.3, 0.99, 1.0, -7.0)]
    assert grades == ["-", "-", "0.3", "0.9", "1.0", "0.0"]
    assert grade_of(0.9, "match_fuzzy") == "match_fuzzy"
    check_layer_name("en_core-web.sm2")


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4), st.sampled_from("XY")), max_size=8))
def test_labels_are_legal_and_every_span_is_shown_or_counted(drawn: list[tuple[int, int, str]]) -> None:
    placed = [(start, start + width, kind, "-") for start, width, kind in drawn]
    labels, grades, hidden = layer_labels(12, placed)
    names = LabelSet.infer(["O", "B-X", "I-X", "B-Y", "I-Y"])
    shown = names.spans(names.encode(labels), Document.build("d", [["w"] * 12]).sentence_starts)
    found = {
        (s, e, names.types[k])
        for s, e, k in zip(*(a.tolist() for a in (shown.start, shown.end, shown.type)), strict=False)
    }
    assert len(found) + hidden == len(placed)
    assert found <= {span[:3] for span in placed}
    assert len(grades) == 12


# Learning


def tagged(number: int, *, right: bool) -> list[Document]:
    """Documents of names under a tagger that calls persons HUMAN, and every second place a HUMAN, too, or nothing."""
    documents = []
    for i in range(number):
        words = [["Ada", "Bo"][i % 2], "saw", f"Town{i % 5}", "and", "rain", "."]
        gold = ["B-PER", "O", "B-LOC", "O", "O", "O"]
        theirs = ["B-HUMAN", "O", "B-PLACE", "O", "B-WEATHER", "O"]
        answered = gold if right else theirs
        grade = ["-"] * len(words)
        documents.append(Document.build(f"d{i}", [words], labels=[gold], ner=[answered], ner_grade=[grade]))
    return documents


def labels_by(folder: Path, documents: Sequence[Document]) -> list[str]:
    model, batch = load_model(folder), Batch.of(list(documents))
    return list(model.labels.decode(viterbi(model.potentials(batch).legal(model.labels))))


def test_what_labels_mean_is_learned(tmp_path: Path) -> None:
    documents = tagged(30, right=False)
    choice = choose_layers(documents, lbfgs.train, LbfgsSettings(layers=("ner",), max_iterations=20))
    names = [trial.setting.name for trial in choice.trials]
    assert names == ["ner as it is", "ner copied", "learned", "words alone", "learned beside the words"]
    assert choice.unlearned.value == 0.0
    assert choice.best.setting.name == "learned"
    assert choice.gain.low > 0
    settings = choice.best.setting.settings
    assert settings is not None
    assert settings.features == "layers:ner"
    lbfgs.train(documents, settings=LbfgsSettings(features=settings.features), out=tmp_path / "model")
    assert labels_by(tmp_path / "model", documents[:1]) == ["B-PER", "O", "B-LOC", "O", "O", "O"]


def test_a_model_of_answers_gives_them_as_they_are(tmp_path: Path) -> None:
    documents = tagged(12, right=True)
    wrong = Document.build(
        "w", [["rain", "Bo", "x"]], ner=[["B-LOC", "I-LOC", "B-ODD"]], ner_grade=[["-"] * 3]
    )  # what no word would be
    long = Document.build(
        "l", [["New", "Ulm"]], labels=[["B-LOC", "I-LOC"]], ner=[["B-LOC", "I-LOC"]], ner_grade=[["-", "-"]]
    )
    answering("ner")([*documents, long], settings=SgdSettings(layers=("ner",)), out=tmp_path / "model")
    assert labels_by(tmp_path / "model", [wrong]) == ["B-LOC", "I-LOC", "O"]
    assert labels_by(tmp_path / "model", documents[:1]) == documents[0].columns["ner"].strings()


def test_nothing_is_learned_where_nothing_is_better() -> None:
    choice = choose_layers(tagged(12, right=True), sgd.train, SgdSettings(layers=("ner",), passes=1, rate=1e-6))
    assert choice.best.setting.layer == "ner"
    assert choice.best.value == 1.0


def test_names_are_copied_to_their_other_places() -> None:
    words = ["Ann", "Lee", "met", "Ann", "Lee", "and", "Lee", ".", "Lee"]
    names = ["B-P", "I-P", "O", "O", "O", "O", "B-Q", "O", "O"]
    assert copied(words, names) == ["B-P", "I-P", "O", "B-P", "I-P", "O", "B-Q", "O", "B-Q"]


def test_labels_of_other_types_are_outside() -> None:
    labels = LabelSet.infer(["O", "B-PER", "I-PER"])
    assert own_labels(labels, ["B-PER", "I-PER", "B-DATE", "?", "O"]) == ["B-PER", "I-PER", "O", "O", "O"]


def test_layers_that_are_not_there_are_named() -> None:
    documents = tagged(6, right=True)
    with pytest.raises(TrainingError, match=r"no layer 'nerd'; there are ner"):
        choose_layers(documents, sgd.train, SgdSettings(layers=("nerd",)))
    unanswered = [Document.build(f"{i}", [["a"]], labels=[["O"]], ner=[["?"]], ner_grade=[["-"]]) for i in range(4)]
    with pytest.raises(TrainingError, match="no answer"):
        choose_layers(unanswered, sgd.train, SgdSettings(layers=("ner",)))
    for name in ("layers:", "layers:a,a", "layer:a,b"):
        with pytest.raises(FeatureSetError, match="want names of layers"):
            feature_set(name)


def test_a_corpus_keeps_layers_as_token_columns(tmp_path: Path) -> None:
    write_corpus(tagged(3, right=True), tmp_path / "c", source="made up")
    (batch,) = [read_batch(shard)[0] for shard in plan(str(tmp_path / "c"))]
    assert batch.columns["ner"].used() == ["B-PER", "O", "B-LOC"]
