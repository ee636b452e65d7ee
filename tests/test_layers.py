"""Layers: a tagger's answers beside a corpus, and models that learn what its labels mean."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.commands.layering import import_entities
from concord.flows.inputs.options import OptionError
from concord.schemas.document import Batch, Column, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import LabelSet
from concord.schemas.layers import LayerError, check_layer_name, grade_of, layer_columns, layer_labels, shown_spans
from concord.schemas.reports import EntitiesReport
from concord.schemas.train_report import LayersReport
from concord.testing.features import check_features
from concord.workers.corpus.ingestion import IngestError, ingest, write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.span_files import MOVED
from concord.workers.corpus.readers.span_shapes import NAMELESS
from concord.workers.corpus.shards import read_batch
from concord.workers.corpus.taggers import EMPTY, HIDDEN, INSIDE, LOST, OTHER_TEXT, PARTICLE, SEVERAL, UNKNOWN, UNSURE
from concord.workers.evaluation.bootstrap import paired_bootstrap
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.features.copies import copied_labels
from concord.workers.features.templates import FeatureSetError, feature_set
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.search.trials import Trial
from concord.workers.learning.trainers import lbfgs, sgd
from concord.workers.learning.trainers.entity_counts import viterbi_counts
from concord.workers.learning.trainers.layer_names import own_labels, types_in_gold
from concord.workers.learning.trainers.layers import Candidate, LayersChoice, answering, choose_layers
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.trainers.trainer import labels_of
from concord.workers.models.loaders import load_model
from concord.workers.models.settings import LbfgsSettings, SgdSettings
from concord.workers.storage.scratch import scratch_folder
from concord.workers.synthesis.made_up import synthesize

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


def test_with_a_corpus_an_id_is_enough(tmp_path: Path) -> None:
    report = imported(
        tmp_path,
        {"id": "a", "entities": [
            {"text": "Tolvan", "label": "PER"},
            {"start": 22, "end": 30, "text": "Acme Corp", "label": "ORG"},
        ]},
        {"id": "b", "entities": {"LOC": ["拉尔维克市", "米兰"]}},
        {"id": "c", "entities": [[0, 3, "PER"], [0, 3, None]]},
        {"id": "z", "entities": []},
        texts={"a": TEXT, "b": "米拉住在拉尔维克市。", "c": "Zoe\u0308 left.", "d": "None."},
    )  # fmt: skip
    assert marked(layer(tmp_path)) == [
        ("Tolvan", "B-PER", "-"),
        ("Acme", "B-ORG", "-"),
        ("Corp", "I-ORG", "-"),
        ("Tolvan", "B-PER", "-"),
    ]
    assert [label for _, label, _ in marked(layer(tmp_path, "b"))] == ["B-LOC"] + ["I-LOC"] * 4
    assert layer(tmp_path, "c")["ner"] == ["O"] * len(layer(tmp_path, "c")["tokens"])  # offsets into which form?
    assert report.unplaced == {LOST: 1, MOVED: 1, NAMELESS: 1, UNSURE: 1}
    assert report.unused == {UNKNOWN: 1, "documents of the corpus without an answer": 1}
    assert (report.answered, report.labels) == (3, {"PER": 2, "ORG": 1, "LOC": 1})


def test_a_korean_word_is_shown_with_its_particle(tmp_path: Path) -> None:
    report = imported(tmp_path, {"id": "a", "entities": {"PER": ["미라"]}}, texts={"a": "미라는 산다. 아미라도."})
    assert marked(layer(tmp_path)) == [("미라는", "B-PER", "-")]
    assert report.unplaced == {PARTICLE: 1}


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


def test_numbers_as_ids_get_layers_and_grow_as_text_does(tmp_path: Path) -> None:
    place = corpus(tmp_path, {"7": TEXT, "8": "Mira Tolvan sang."})
    table = pq.read_table(place / "part-00000.parquet")
    numbers = table["doc_id"].cast(pa.int64())
    pq.write_table(
        table.set_column(table.schema.get_field_index("doc_id"), "doc_id", numbers), place / "part-00000.parquet"
    )
    import_entities(
        answers(tmp_path, {"id": "7", "text": TEXT, "entities": [[0, 11, "X"]]}, {"id": 8, "entities": [[0, 4, "Y"]]}),
        tmp_path / "out",
        form="spans",
        name="ner",
        corpus=str(place),
    )
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": 8, "text": "Seen."}\n{"id": "n", "text": "New one."}\n')
    report = ingest("text", more, tmp_path / "out", append=True)
    documents = [d for shard in plan(str(tmp_path / "out")) for d in read_batch(shard)[0]]
    assert ([d.doc_id for d in documents], report.rejected) == (["7", "8", "n"], 1)
    assert [d.columns["ner"].strings()[0] for d in documents] == ["B-X", "B-Y", "?"]


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
    stay = shown_spans(placed, lambda _: 0.0)
    labels, grades = layer_labels(12, stay)
    hidden = len(placed) - len(stay)
    names = LabelSet.infer(["O", "B-X", "I-X", "B-Y", "I-Y"])
    shown = names.spans(names.encode(labels), Document.build("d", [["w"] * 12]).sentence_starts)
    found = {
        (s, e, names.types[k])
        for s, e, k in zip(*(a.tolist() for a in (shown.start, shown.end, shown.type)), strict=False)
    }
    assert len(found) + hidden == len(placed)
    assert found <= {span[:3] for span in placed}
    assert len(grades) == 12


def test_what_a_record_of_tokens_loses_is_counted(tmp_path: Path) -> None:
    record = {"id": "a", "tokenized_text": TEXT.split(), "ner": [[0, 0, "PER"], [1, 99, "LOC"]]}
    report = imported(tmp_path, record, names=["NOBODY=PER"])
    assert (report.spans, report.labels, sum(report.unplaced.values())) == (2, {"PER": 1}, 1), report.unplaced
    assert "--map: no answer says NOBODY; they say PER" in report.notices


def test_a_map_of_names_where_nothing_is_said(tmp_path: Path) -> None:
    report = imported(tmp_path, {"id": "a", "text": TEXT, "entities": []}, names=["NOBODY=PER"])
    assert "--map: no answer says NOBODY; they say nothing" in report.notices


def test_of_equally_long_spans_the_surest_is_shown() -> None:
    alike = [(0, 1, "ORG", 0.05), (0, 1, "PRODUCT", 0.99), (5, 6, "B", 0.0), (5, 6, "A", 0.0)]
    shown = shown_spans([*alike, (2, 4, "PER", 0.0), (3, 4, "LOC", 0.99)], float)
    assert [span[2] for span in shown] == ["PRODUCT", "PER", "A"]


# Learning


def tagged(number: int, *, right: bool) -> list[Document]:
    """Documents of names under a tagger that is right, or calls persons and places THING, and rain, too."""
    documents = []
    for i in range(number):
        words = [["Ada", "Bo"][i % 2], "saw", f"Town{i % 5}", "and", "rain", "."]
        gold = ["B-PER", "O", "B-LOC", "O", "O", "O"]
        theirs = ["B-THING", "O", "B-THING", "O", "B-WEATHER", "O"]
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
    assert choice.names == {"ner": {"THING": "LOC", "WEATHER": None}}
    assert (choice.base.setting.name, choice.base.value) == ("ner as it is", 0.5)  # places alone
    assert choice.best.setting.name == "learned"
    assert choice.gains["learned"].low > 0
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
    answering("layer:ner")([*documents, long], settings=SgdSettings(layers=("ner",)), out=tmp_path / "model")
    assert labels_by(tmp_path / "model", [wrong]) == ["B-LOC", "I-LOC", "O"]
    assert labels_by(tmp_path / "model", documents[:1]) == documents[0].columns["ner"].strings()


def test_answers_are_judged_and_given_under_golds_names(tmp_path: Path) -> None:
    theirs = {"PER": "PERSON", "LOC": "PLACE"}
    documents = []
    for document in tagged(12, right=True):
        said = [label[:2] + theirs.get(label[2:], "") if label != "O" else "O" for label in document.labels.strings()]  # type: ignore[union-attr]
        said[4] = "B-DATE"
        documents.append(replace(document, columns=dict(document.columns) | {"ner": Column.encode(said)}))
    choice = choose_layers(documents, sgd.train, SgdSettings(layers=("ner",), passes=1, rate=1e-6))
    assert choice.names == {"ner": {"DATE": None, "PERSON": "PER", "PLACE": "LOC"}}
    assert (choice.base.value, choice.best is choice.base) == (1.0, True)
    report = LayersReport(
        documents=12,
        held_out_f1={trial.setting.name: trial.value for trial in choice.trials},
        base=choice.base.setting.name,
        gains={name: (gain.difference, gain.low, gain.high) for name, gain in choice.gains.items()},
        best=choice.best.setting.name,
        learned=False,
        names={"ner": dict(choice.names["ner"])},
    )
    names, judged = report.lines
    assert names.endswith("otherwise: PERSON is PER, PLACE is LOC, none for DATE")
    assert "; taken: ner as it is (nothing else is better beyond chance; ner copied: +0.00 points on ner as" in judged
    answering("layer:ner")(documents, settings=SgdSettings(layers=("ner",)), out=tmp_path / "model")
    assert labels_by(tmp_path / "model", documents[:2]) == [
        label for document in tagged(2, right=True) for label in document.columns["ner"].strings()
    ]


SAID = st.lists(
    st.sampled_from(["O", "B-PER", "I-PER", "B-GPE", "I-GPE", "B-ORG", "I-ORG", "?"]), min_size=1, max_size=9
)


@given(SAID)
@pytest.mark.parametrize("scheme", ["bio", "plain"])
@pytest.mark.parametrize("answers", ["layer:ner", "copied:ner"])
def test_a_model_of_few_documents_gives_all_answers_as_they_are(answers: str, scheme: str, said: list[str]) -> None:
    """Gold has a place of one word, a person, and an organisation that the layer does not find."""
    gold, mine = ["B-PER", "O", "B-LOC", "B-ORG"], ["B-PER", "O", "B-GPE", "O"]
    few = Document.build(
        "a", [["Ann", "in", "Oslo", "Acme"]], labels=[in_scheme(scheme, gold)], ner=[mine], ner_grade=[["-"] * 4]
    )
    new = Document.build("b", [[f"W{i}" for i in range(len(said))]], ner=[said], ner_grade=[["-"] * len(said)])
    wanted = ["O" if label in ("?", "B-NEW") else label.replace("GPE", "LOC") for label in said]
    with scratch_folder() as folder:
        answering(answers)([few], settings=SgdSettings(layers=("ner",)), out=folder / "model")
        model = load_model(folder / "model")
        found = model.labels.decode(viterbi(model.potentials(Batch.of([new]))))
    assert list(found) == in_scheme(scheme, wanted)


def in_gold(pairs: Sequence[tuple[str, str]]) -> Any:
    """Gold's names where spans have these types in the layer and in gold."""
    documents = [
        Document.build(str(i), [["A"]], labels=[[f"B-{gold}" if gold else "O"]], ner=[[f"B-{mine}" if mine else "O"]])
        for i, (mine, gold) in enumerate(pairs)
    ]
    labels = LabelSet.infer([label for d in documents for label in d.labels.strings()])  # type: ignore[union-attr]
    return types_in_gold(documents, labels, "ner")


def test_names_are_mapped_one_to_one_where_gold_lacks_some() -> None:
    assert in_gold([("PER", "ORG"), ("PER", "ORG"), ("ORG", "PER")]) == {}  # all are gold's
    gpe = [("GPE", "LOC")] * 3 + [("LOC", "LOC"), ("PERSON", "PER"), ("ORG", "ORG"), ("DATE", "")]
    assert in_gold(gpe) == {"GPE": "LOC", "LOC": None, "PERSON": "PER", "DATE": None}
    assert in_gold([("ORG", ""), ("", "ORG"), ("DATE", ""), ("X", "PER")]) == {"DATE": None, "X": "PER"}
    assert in_gold([("A|B", "A"), ("A", "A"), ("C", "B")]) == {"C": "B"}


@given(st.lists(st.tuples(st.sampled_from(["", "U", "V", "W"]), st.sampled_from(["", "X", "Y", "U"])), max_size=12))
def test_no_map_of_names_marks_more_alike(pairs: list[tuple[str, str]]) -> None:
    theirs, golds = ({pair[side] for pair in pairs} - {""} for side in (0, 1))
    if not theirs or not golds or theirs <= golds:
        return
    names = in_gold(pairs)
    mapped = {kind: names.get(kind, kind) for kind in theirs}
    used = [name for name in mapped.values() if name in golds]
    assert len(used) == len(set(used))
    alike = sum(mapped.get(mine) == gold for mine, gold in pairs if gold)
    for order in permutations([*golds, *[None] * len(theirs)], len(theirs)):
        other = dict(zip(sorted(theirs), order, strict=True))
        assert sum(other.get(mine) == gold for mine, gold in pairs if gold) <= alike


def trial(name: str, answers: str | None, correct: Sequence[int]) -> Trial[Candidate]:
    counts = np.array([[4, 4, right] for right in correct])
    return Trial(Candidate(name, answers), counts, f1_of_counts)


def test_less_is_taken_unless_more_is_better_beyond_chance() -> None:
    less = trial("x as it is", "layer:x", [2] * 10)
    other = trial("y as it is", "layer:y", [1] * 10)
    luck = trial("copied", "copied:x", [4, 4, 2, 2, 2, 2, 2, 2, 2, 2])
    sure = trial("learned", None, [3] * 10)
    choice = LayersChoice.of([other, less, luck], {})
    assert (choice.base, choice.best) == (less, less)
    assert choice.gains["copied"].difference == pytest.approx(0.1)
    assert choice.gains["copied"].low == 0.0
    assert LayersChoice.of([other, less, luck, sure], {}).best is sure
    assert LayersChoice.of([less, luck], {}).best is less


def imperfect(documents: Sequence[Document], rng: np.random.Generator) -> list[Document]:
    """Documents under a good tagger, which misses a name now and then, and marks a small word once in a document."""
    answered = []
    for document in documents:
        labels = document.labels.strings()  # type: ignore[union-attr]
        small = Counter(word for word in document.tokens if word.islower()).most_common(1)
        for i, label in enumerate(labels):
            single = label.startswith("B-") and labels[i + 1 : i + 2] != [f"I-{label[2:]}"]
            labels[i] = "O" if single and rng.random() < MISSED else label
        if small and rng.random() < ALARMED:
            labels[document.tokens.index(small[0][0])] = "B-ORG"
        columns = dict(document.columns) | {"ner": Column.encode(labels)}
        columns["ner_grade"] = Column.encode(["-"] * len(labels))
        answered.append(replace(document, columns=columns))
    return answered


MISSED, ALARMED = 0.02, 0.12
"""Shares of single-word names that are missed, and of documents in which a small word is marked."""


@pytest.mark.parametrize("seed", [2, 8, 13])
def test_what_is_taken_is_not_worse_than_the_tagger(seed: int, tmp_path: Path) -> None:
    """By luck ten documents say that copies help; they do harm. `benchmarks/bench_made_taggers.py` has 200 taggers."""
    documents = imperfect(list(synthesize(110, seed=seed, kind="news")), np.random.default_rng(seed))
    learned, judged = documents[:10], documents[10:]
    settings = SgdSettings(layers=("ner",), features="core", passes=1, rate=1e-6)
    way = choose_layers(learned, sgd.train, settings).best.setting
    assert way.answers is not None
    ours, alone = (
        answering(answers)(learned, settings=settings, out=tmp_path / name)
        for name, answers in {"ours": way.answers, "alone": "layer:ner"}.items()
    )
    counts = [viterbi_counts(model, judged, labels_of(documents)) for model in (alone, ours)]
    assert paired_bootstrap(*counts, rng=np.random.default_rng(0)).high >= 0


def test_nothing_is_learned_where_nothing_is_better() -> None:
    choice = choose_layers(tagged(12, right=True), sgd.train, SgdSettings(layers=("ner",), passes=1, rate=1e-6))
    assert choice.best.setting.answers == "layer:ner"
    assert choice.best.value == 1.0


def copies(sentences: list[list[str]], labels: list[list[str]]) -> list[str]:
    batch = Batch.of([Document.build("d", sentences, ner=labels)])
    return copied_labels(batch, batch.columns["ner"]).strings()


def plainly_copied(sentences: list[list[str]], labels: list[list[str]]) -> list[str]:
    """The same by looking at every place for every name, the longest names first."""
    names: dict[tuple[str, ...], list[str]] = {}
    times = Counter[tuple[str, ...]]()
    for words, marks in zip(sentences, labels, strict=True):
        for start, mark in enumerate(marks):
            if mark in "O?" or (mark[0] == "I" and start and marks[start - 1] not in "O?"):
                continue
            end = start + 1
            while end < len(marks) and marks[end][0] == "I":
                end += 1
            names.setdefault(tuple(words[start:end]), marks[start:end])
            times[tuple(words[start:end])] += 1
    found = [list(marks) for marks in labels]
    for name in sorted(names, key=len, reverse=True):
        if all(word.islower() for word in name) and times[name] == 1:
            continue
        for words, marks in zip(sentences, found, strict=True):
            for start in range(len(words) - len(name) + 1):
                end = start + len(name)
                if tuple(words[start:end]) == name and marks[start:end] == ["O"] * len(name):
                    marks[start:end] = names[name]
    return [mark for marks in found for mark in marks]


def test_names_are_copied_to_their_other_places() -> None:
    words = ["Ann", "Lee", "met", "Ann", "Lee", "and", "Lee", ".", "Lee"]
    names = ["B-P", "I-P", "O", "O", "O", "O", "B-Q", "O", "O"]
    assert copies([words], [names]) == ["B-P", "I-P", "O", "B-P", "I-P", "O", "B-Q", "O", "B-Q"]
    assert copies([["Ann", "Lee"], ["Ann"], ["Lee"]], [["B-P", "I-P"], ["O"], ["O"]]) == ["B-P", "I-P", "O", "O"]
    assert copies([["Ann"], ["Ann"]], [["?"], ["?"]]) == ["?", "?"]


def test_words_in_lower_case_are_copied_if_they_are_marked_twice() -> None:
    words = ["of", "Oslo", "of", "Oslo", "of", "ice cream", "泰", "of", "7", "泰", "7"]
    once = ["B-X", "B-L", "O", "O", "O", "O", "B-L", "O", "B-N", "O", "O"]
    assert copies([words], [once]) == ["B-X", "B-L", "O", "B-L", "O", "O", "B-L", "O", "B-N", "B-L", "B-N"]
    twice = ["B-X", "O", "B-X", "O", "O", "O", "O", "O", "O", "O", "O"]
    assert copies([words], [twice]) == ["B-X", "O", "B-X", "O", "B-X", "O", "O", "B-X", "O", "O", "O"]
    assert copies([["de", "Vries"], ["de", "Vries"]], [["B-P", "I-P"], ["O", "O"]]) == ["B-P", "I-P"] * 2


MARKS = st.lists(
    st.tuples(st.sampled_from("abA"), st.sampled_from(["O", "O", "B-X", "I-X", "B-Y"])), min_size=1, max_size=7
)


@given(st.lists(MARKS, max_size=4))
def test_copies_are_those_of_a_plain_search(drawn: list[list[tuple[str, str]]]) -> None:
    sentences = [[word for word, _ in row] for row in drawn]
    labels = [[mark for _, mark in row] for row in drawn]
    assert copies(sentences, labels) == plainly_copied(sentences, labels)


def test_documents_copy_from_themselves_alone() -> None:
    one, other = (Document.build(str(i), [["Ann"]], ner=[[mark]]) for i, mark in enumerate(("B-P", "O")))
    batch = Batch.of([one, other])
    assert copied_labels(batch, batch.columns["ner"]).strings() == ["B-P", "O"]


def repeating(number: int) -> list[Document]:
    """Documents that say a name twice, of which the tagger marks the first; words that nothing can be learned from."""
    documents = []
    for i in range(number):
        words = [f"Name{i}", f"said{i}", f"Name{i}"]
        documents.append(
            Document.build(
                f"r{i}", [words], labels=[["B-PER", "O", "B-PER"]], ner=[["B-PER", "O", "O"]], ner_grade=[["-"] * 3]
            )
        )
    return documents


def test_what_is_told_of_copies_is_what_the_model_gives(tmp_path: Path) -> None:
    choice = choose_layers(repeating(12), sgd.train, SgdSettings(layers=("ner",), passes=1, rate=1e-6))
    assert choice.best.setting.name == "ner copied"
    assert choice.best.value == 1.0
    assert choice.best.setting.answers is not None
    answering(choice.best.setting.answers)(repeating(12), settings=SgdSettings(layers=("ner",)), out=tmp_path / "model")
    assert load_model(tmp_path / "model").columns == ("ner", "tokens")
    new = [replace(document, labels=None) for document in repeating(20)[12:]]
    assert labels_by(tmp_path / "model", new) == ["B-PER", "O", "B-PER"] * 8


def test_a_label_above_others_is_the_first_of_them_and_all_of_them(tmp_path: Path) -> None:
    imported(tmp_path, {"id": "a", "text": TEXT, "entities": [[0, 11, "ENT"]]}, names=["ENT=PER, ORG"])
    assert marked(layer(tmp_path)) == [("Mira", "B-PER|ORG", "-"), ("Tolvan", "I-PER|ORG", "-")]
    assert own_labels(LabelSet.bio(["ORG"]), ["B-PER|ORG", "I-PER|ORG"], {}) == ["B-ORG", "I-ORG"]
    assert own_labels(LabelSet.bio(["ORG", "PER"]), ["B-PER|ORG"], {}) == ["B-PER"]
    for wrong in ("ENT=PER,", "ENT=PER,PER", "ENT=PER,O"):
        with pytest.raises(OptionError, match="the types that the label is above"):
            import_entities("x", tmp_path / "o", form="spans", name="n", corpus=str(tmp_path / "corpus"), names=[wrong])


def test_labels_of_other_types_are_outside() -> None:
    labels = LabelSet.infer(["O", "B-PER", "I-PER"])
    assert own_labels(labels, ["B-PER", "I-PER", "B-DATE", "?", "O"], {}) == ["B-PER", "I-PER", "O", "O", "O"]


def test_layers_that_are_not_there_are_named() -> None:
    documents = tagged(6, right=True)
    with pytest.raises(TrainingError, match=r"no layer 'nerd'; there are ner"):
        choose_layers(documents, sgd.train, SgdSettings(layers=("nerd",)))
    unanswered = [Document.build(f"{i}", [["a"]], labels=[["O"]], ner=[["?"]], ner_grade=[["-"]]) for i in range(4)]
    with pytest.raises(TrainingError, match="no answer"):
        choose_layers(unanswered, sgd.train, SgdSettings(layers=("ner",)))
    for name in ("layers:", "layers:a,a", "layer:a,b", "copied:", "copied:a,b"):
        with pytest.raises(FeatureSetError, match="want names of layers"):
            feature_set(name)


def test_a_corpus_keeps_layers_as_token_columns(tmp_path: Path) -> None:
    write_corpus(tagged(3, right=True), tmp_path / "c", source="made up")
    (batch,) = [read_batch(shard)[0] for shard in plan(str(tmp_path / "c"))]
    assert batch.columns["ner"].used() == ["B-PER", "O", "B-LOC"]


@pytest.mark.parametrize("part", ["layer:ner", "copied:ner", "layers:ner", "layers:ner,other"])
def test_features_of_layers_are_scored_as_they_are_learned(part: str) -> None:
    check_features(feature_set(part).templates)


def in_scheme(scheme: str, row: list[str]) -> list[str]:
    """Labels of BIO in another scheme of gold labels."""
    if scheme == "plain":
        return [label[2:] or label for label in row]
    return row


LEARN_LAYERS = [
    name for name, trainer in TRAINERS.items() if {"layers", "features"} <= set(trainer.settings.model_fields)
]


@pytest.mark.parametrize("name", LEARN_LAYERS)
@pytest.mark.parametrize("scheme", ["bio", "plain"])
def test_every_trainer_with_layers_takes_every_scheme_of_gold(name: str, scheme: str, tmp_path: Path) -> None:
    trainer, documents = TRAINERS[name], list[Document]()
    for document in tagged(12, right=True):
        assert document.labels is not None
        gold = in_scheme(scheme, document.labels.strings())
        documents.append(replace(document, labels=Column.encode(gold)))
    settings = trainer.settings.model_validate({"layers": ("ner",), "features": "core"})
    trainer.train(documents, settings=settings, out=tmp_path / "model")
    found = labels_by(tmp_path / "model", documents[:2])
    wanted = [label for document in tagged(2, right=True) for label in document.columns["ner"].strings()]
    assert found == (in_scheme(scheme, wanted) if trainer.gold else wanted)
    for answers in ("layer:ner", "copied:ner"):
        answering(answers)(documents, settings=settings, out=tmp_path / answers.replace(":", "-"))
        assert labels_by(tmp_path / answers.replace(":", "-"), documents[:2]) == in_scheme(scheme, wanted)


KILLED = """
import os, signal, sys
from pathlib import Path
import concord.flows.commands.layering as layering

def at_last(*_):
    os.kill(os.getpid(), signal.SIGKILL)

layering.TaggerAnswers.end = at_last
source, out, corpus = sys.argv[1:]
layering.import_entities(source, Path(out), form="spans", name="ner", corpus=corpus)
"""


def test_an_import_that_is_killed_leaves_nothing_and_begins_anew(tmp_path: Path) -> None:
    record = {"id": "a", "text": TEXT, "entities": [[0, 11, "X"]]}
    imported(tmp_path, record)
    whole = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    place, source = str(tmp_path / "corpus"), str(tmp_path / "answers.jsonl")
    out = tmp_path / "second"
    ended = subprocess.run([sys.executable, "-c", KILLED, source, str(out), place], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL
    assert not out.exists()
    import_entities(source, out, form="spans", name="ner", corpus=place)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == whole
