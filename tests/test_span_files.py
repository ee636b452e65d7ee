"""Texts with spans, in the JSON of tools and taggers, in brat's folders and in spaCy's files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.columns import Misfit, Notice, Reject, SchemaError
from concord.schemas.document import Document
from concord.workers.corpus.ingestion import ingest
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.reader import BadLineError
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.span_places import OffsetUnit
from concord.workers.corpus.readers.span_shapes import RecordNames, marked_text
from concord.workers.corpus.settings import IngestSettings
from concord.workers.corpus.shards import read_batch

TEXT = "Ann Lee left Oslo 😀 for Bø."
ANN, OSLO, TOWN = (0, 7, "PER"), (13, 17, "LOC"), (24, 26, "LOC")
ALL = [ANN, OSLO, TOWN]


def spans_of(record: Any, **names: Any) -> list[tuple[int | None, int | None, str]]:
    return [span[:3] for span in marked_text(record, RecordNames(**names)).spans]


def objects(start: str, end: str, label: str, spans: Sequence[tuple[int, int, str]] = ALL) -> list[dict[str, Any]]:
    return [{start: a, end: b, label: kind} for a, b, kind in spans]


def result(a: int, b: int, kind: str) -> dict[str, Any]:
    return {"type": "labels", "value": {"start": a, "end": b, "text": TEXT[a:b], "labels": [kind]}}


TASK = {"id": 3, "data": {"text": TEXT}, "annotations": [{"result": [result(*span) for span in ALL]}]}
SHAPES: dict[str, Any] = {
    "doccano's lists": {"id": 1, "text": TEXT, "label": [list(span) for span in ALL]},
    "doccano's lists, older": {"id": 1, "data": TEXT, "label": [list(span) for span in ALL]},
    "doccano's relations": {
        "id": 1,
        "text": TEXT,
        "entities": [{"id": 5, **one} for one in objects("start_offset", "end_offset", "label")],
        "relations": [],
        "Comments": [],
    },
    "Prodigy": {
        "text": TEXT,
        "tokens": [{"text": "Ann", "start": 0, "end": 3, "id": 0}],
        "spans": objects("start", "end", "label"),
        "answer": "accept",
    },
    "spaCy's pair": [TEXT, {"entities": [list(span) for span in ALL]}],
    "spaCy's record": {"text": TEXT, "entities": [list(span) for span in ALL]},
    "spaCy's groups": {"text": TEXT, "spans": {"sc": objects("start", "end", "label")}},
    "displaCy": {"text": TEXT, "ents": objects("start", "end", "label"), "title": None},
    "Presidio": {"text": TEXT, "results": objects("start", "end", "entity_type")},
    "Presidio's evaluator": {"full_text": TEXT, "spans": objects("start_position", "end_position", "entity_type")},
    "GLiNER": {"text": TEXT, "entities": [{**one, "score": 0.5} for one in objects("start", "end", "label")]},
    "GLiNER2 with places": {
        "text": TEXT,
        "entities": {"PER": [{"text": "Ann Lee", "start": 0, "end": 7}], "LOC": objects("start", "end", "x", ALL[1:])},
    },
    "LangExtract": {
        "document_id": "d",
        "text": TEXT,
        "extractions": [
            {"extraction_class": k, "extraction_text": TEXT[a:b], "char_interval": {"start_pos": a, "end_pos": b}}
            for a, b, k in ALL
        ],
    },
    "a pipeline's groups": {
        "text": TEXT,
        "entities": [{**one, "word": "ann"} for one in objects("start", "end", "entity_group")],
    },
    "a pipeline's pieces": {
        "text": TEXT,
        "entities": objects(
            "start",
            "end",
            "entity",
            [(0, 3, "B-PER"), (4, 5, "I-PER"), (5, 7, "I-PER"), (13, 17, "B-LOC"), (24, 26, "B-LOC")],
        ),
    },
    "Label Studio": TASK,
    "Label Studio, short": {"text": TEXT, "label": [one["value"] for one in TASK["annotations"][0]["result"]]},  # type: ignore[index]
    "Rasa": {
        "text": TEXT,
        "intent": "go",
        "entities": [{**one, "value": TEXT[one["start"] : one["end"]]} for one in objects("start", "end", "entity")],
    },
    "a language model's list": {"text": TEXT, "entities": [{"text": TEXT[a:b], "type": kind} for a, b, kind in ALL]},
    "GLiNER2": {"text": TEXT, "entities": {"PER": ["Ann Lee"], "LOC": ["Oslo", "Bø"]}},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_has_the_same_spans(shape: str) -> None:
    assert sorted(spans_of(SHAPES[shape])) == ALL


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"text": TEXT}, "no list of spans"),
        ({"text": TEXT, "entities": [[0, 3, "A"]], "spans": [[0, 3, "A"]]}, "choose: --set spans_key=entities"),
        ({"text": TEXT, "spans": [], "answer": "reject"}, "its annotator's answer is 'reject'"),
        ({"sentence": TEXT, "label": []}, "name it: --set text_key="),
        ({"text": " ", "label": []}, "its text 'text' is blank"),
        ({"text": None, "label": []}, "'text' is null; give the record its text"),
        ({"full_text": 5, "label": []}, "'full_text' is 5; give the record its text"),
        ({"id": "a", "tokens": [], "ner": []}, r"'tokens' is \[\]; give the record its text"),
        ({"id": "a", "entities": [[0, 7, "PER"]]}, "has 'id', 'entities'.; write the text beside its spans"),
        ({"entity_group": "PER", "start": 0, "end": 3}, "write the text beside its spans"),
        ([{"entity_group": "PER", "start": 0, "end": 3}], "want an object .*; write {.*text"),
        ({"text": "a\0", "label": []}, "NUL"),
        ({"text": "a\ud83d", "label": []}, "half of a character"),
        ({**TASK, "annotations": []}, "task without annotations"),
        ({**TASK, "annotations": [], "predictions": TASK["annotations"]}, "--set answers=predictions"),
        ({**TASK, "annotations": [*TASK["annotations"], {"result": []}]}, "annotations that differ"),  # type: ignore[misc]
        ({"tokens": ["Ann"], "tags": []}, "tokens without a label for each"),
        (3, "want an object"),
    ],
)
def test_a_record_that_cannot_be_read_says_why(record: Any, said: str) -> None:
    with pytest.raises(BadLineError, match=said):
        marked_text(record, RecordNames())


def test_one_annotation_of_several_may_be_the_truth_or_cancelled() -> None:
    right: Any = TASK["annotations"][0]  # type: ignore[index]
    none: Any = {"result": []}
    assert spans_of({**TASK, "annotations": [none, {**right, "ground_truth": True}]}) == ALL
    assert spans_of({**TASK, "annotations": [{**none, "was_cancelled": True}, right]}) == ALL
    assert spans_of({**TASK, "annotations": [right, right]}) == ALL


@pytest.mark.parametrize("key", ["_annotator_id", "_session_id", "annotator"])
def test_several_annotators_of_a_text_give_one_gold(key: str, tmp_path: Path) -> None:
    """Records without ids; who agrees is read once, who does not is rejected, and unsigned texts stay apart."""
    signed = [("ann", [ANN]), ("ben", [ANN]), ("cat", [ANN, OSLO])]
    lines: list[dict[str, Any]] = [
        {"text": TEXT, "spans": objects("start", "end", "label", spans), key: name} for name, spans in signed
    ]
    lines += [{"text": "Ann ran.", "spans": []}] * 2
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = ingest("spans", path, tmp_path / "out")
    assert (report.written, report.rejected) == (3, 1)
    assert any("1 records have the text and the spans of another annotator's" in one for one in report.notices)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert [row["labels"].count("B-PER") + row["labels"].count("B-LOC") for row in rows] == [1, 0, 0]
    (reject,) = pq.read_table(tmp_path / "out" / "_rejects.parquet").to_pylist()
    assert reject["row"] == 3
    assert "'cat' has marked the text otherwise than 'ann' in line 1" in reject["reason"]


def test_words_without_a_place_stand_wherever_the_text_has_them() -> None:
    record = {"text": "Oslo and Oslofjord, Oslo.", "entities": {"LOC": ["Oslo", "Rome"]}}
    found = marked_text(record, RecordNames())
    assert [span[:3] for span in found.spans] == [(0, 4, "LOC"), (20, 24, "LOC")]
    assert [span.fault for span in found.lost] == ["the words 'Rome' stand nowhere in the text"]


@given(
    st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=12),
    st.data(),
    st.sampled_from(["characters", "utf-16", "bytes"]),
)
def test_places_in_any_unit_are_the_same_characters(text: str, data: st.DataObject, unit: OffsetUnit) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    counted = [size_in(unit, text[:place]) for place in (start, end)]
    record = {
        "text": f"{text}",
        "spans": [{"start": counted[0], "end": counted[1], "label": "X", "text": text[start:end]}],
    }
    assert spans_of(record, offsets=unit) == [(start, end, "X")]


def size_in(unit: OffsetUnit, text: str) -> int:
    if unit == "characters":
        return len(text)
    return len(text.encode()) if unit == "bytes" else len(text.encode("utf-16-le")) // 2


# Spans that are wrong

WRONG: dict[str, tuple[Any, str]] = {
    "no label": ([0, 7], r"want a span as \[start, end, label\]"),
    "null": (None, "want a span as .* or an object, not null"),
    "a null label": ([0, 7, None], "want a name as label of a span, not null"),
    "a number as label": ([0, 7, 3], "want a name as label of a span, not 3"),
    "an object's null label": ({"start": 0, "end": 7, "label": None}, "want a name as label"),
    "reversed": ([7, 0, "PER"], "span 7 to 0"),
    "empty": ([7, 7, "PER"], "span 7 to 7"),
    "beyond the end": ([0, 99, "PER"], "not inside the text, which has 27 characters"),
    "before the start": ([-7, -1, "PER"], "span -7 to -1"),
    "true as end": ([0, True, "PER"], "want a whole number"),
    "text as start": (["x", 7, "PER"], "want a whole number as start or end of a span, not 'x'"),
    "a null start": ([None, 7, "PER"], "want a whole number as start or end of a span, not null"),
    "other words": ({"start": 0, "end": 3, "label": "PER", "text": "Bob"}, "are 'Ann' and not 'Bob'"),
    "words that are not there": ({"label": "PER", "text": "Bob"}, "'Bob' stand nowhere in the text"),
}


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("key", ["entities", "spans", "predictions"])
def test_a_wrong_span_is_lost_alone_and_told(fault: str, key: str, tmp_path: Path) -> None:
    wrong, said = WRONG[fault]
    found = marked_text({"text": TEXT, key: [list(ANN), wrong, list(OSLO)]}, RecordNames())
    assert [span[:3] for span in found.spans] == [ANN, OSLO]
    (lost,) = found.lost
    assert re.search(said, lost.fault)
    records = [{"id": "a", "text": TEXT, key: [wrong]}, {"id": "b", "text": TEXT, key: [list(ANN), list(OSLO), wrong]}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    report = ingest("spans", tmp_path / "a.jsonl", tmp_path / "corpus")
    assert (report.written, report.rejected, report.misfits) == (2, 0, {f"{lost.reason}; left out": 2})
    assert report.ceiling is not None
    assert report.ceiling[:] == (4, 2, 2)  # what is lost counts against it


@pytest.mark.parametrize("fault", [fault for fault in WRONG if "words" not in fault])
def test_a_file_in_which_no_span_can_be_read_is_of_another_form(fault: str, tmp_path: Path) -> None:
    wrong, said = WRONG[fault]
    records = [{"text": TEXT, "entities": entities} for entities in ([], [wrong, wrong], [], [wrong])]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    items = read(tmp_path / "a.jsonl")
    assert [isinstance(item, Document) for item in items] == [True, False, True, False]
    assert re.search(said, items[1].reason)


@given(st.lists(st.tuples(st.sampled_from(ALL), st.integers(-3, 3), st.integers(-3, 3)), max_size=5))
def test_spans_stand_where_their_words_are_nearest(drawn: list[tuple[tuple[int, int, str], int, int]]) -> None:
    spans = [
        {"start": a + before, "end": b + after, "label": kind, "text": TEXT[a:b]}
        for (a, b, kind), before, after in drawn
    ]
    found = marked_text({"text": TEXT, "entities": spans}, RecordNames())
    assert {span[:3] for span in found.spans} == {span for span, _, _ in drawn}
    assert not found.lost


def test_of_several_places_the_nearest_is_taken() -> None:
    text = "Bo, Bo and Bo"
    for start, place in ((0, 0), (1, 0), (3, 4), (6, 4), (9, 11), (99, 11), (-1, 0)):
        span = {"start": start, "end": start + 1, "label": "PER", "text": "Bo"}
        assert spans_of({"text": text, "spans": [span]}) == [(place, place + 2, "PER")]
    half = {"start": None, "end": 6, "label": "PER", "text": "Bo"}
    assert spans_of({"text": text, "spans": [half]}) == [(4, 6, "PER")]
    assert spans_of({"text": text, "spans": [{**half, "start": "x", "end": None}]}) == [
        (a, a + 2, "PER") for a in (0, 4, 11)
    ]


def test_numbers_as_text_and_other_case_are_read() -> None:
    spans = [{"start": "0", "end": 7.0, "label": "PER", "text": "ann lee"}, ["13", " 17", "LOC"]]
    assert spans_of({"text": TEXT, "spans": spans}) == [ANN, OSLO]


def test_another_unit_that_fits_is_proposed(tmp_path: Path) -> None:
    span = {"start": 25, "end": 27, "label": "LOC", "text": "Bø"}
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT, "spans": [span]}))
    document, told = read(tmp_path / "a.jsonl")
    assert document.source_spans.start.tolist() == [24]
    assert told.reason.startswith("1 spans have other words at their offsets than beside them; each stands where")
    assert told.reason.endswith("; they are counted in utf-16: --set offsets=utf-16")
    assert len(read(tmp_path / "a.jsonl", offsets="utf-16")) == 1
    halves = [{**span, "start": 24, "end": 26}, {**span, "start": "x", "end": 7, "text": "Ann Lee"}]
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": TEXT, "spans": halves}))
    *_, notice = read(tmp_path / "b.jsonl")
    assert isinstance(notice, Notice)
    assert "--set" not in notice.reason


# Words without offsets

ALONE = {
    "Chinese": ("米拉住在拉尔维克市。", {"PER": ["米拉"], "LOC": ["拉尔维克市"]}, [(0, 2, "PER"), (4, 9, "LOC")]),
    "Japanese": ("ミラはラルビク市に住む。", {"PER": ["ミラ"], "LOC": ["ラルビク市"]}, [(0, 2, "PER"), (3, 8, "LOC")]),
    "Thai": ("นายสมชายไปเชียงใหม่", {"PER": ["สมชาย"], "LOC": ["เชียงใหม่"]}, [(3, 8, "PER"), (10, 19, "LOC")]),
    "Korean": ("미라는 라르비크에서 산다.", {"PER": ["미라"], "LOC": ["라르비크"]}, [(0, 2, "PER"), (4, 8, "LOC")]),
    "English": (
        "Mira, not Miras, in Larvik-Stad",
        {"PER": ["Mira"], "LOC": ["Larvik"]},
        [(0, 4, "PER"), (20, 26, "LOC")],
    ),
    "overlapping": ("bana na na", {"X": ["na na"]}, [(5, 10, "X")]),
    "not inside": ("아미라 ミラノ Oslofjord", {"PER": ["미라", "ミラ", "Oslo"]}, []),
}


@pytest.mark.parametrize("script", ALONE)
def test_words_without_offsets_are_found_in_every_script(script: str, tmp_path: Path) -> None:
    text, entities, wanted = ALONE[script]
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text, "entities": entities}))
    document, *others = read(tmp_path / "a.jsonl")
    own = document.source_spans
    assert list(zip(own.start.tolist(), own.end.tolist(), own.type.strings(), strict=True)) == wanted
    assert not [item for item in others if isinstance(item, Misfit) and not item.in_text] or not wanted


# Files whose keys a user names


@pytest.mark.parametrize("spans", [
    [{"text": "Ann Lee", "start": 0, "end": 7, "label": "PER"}],
    [{"text": "Ann Lee", "label": "PER"}],
    [{"text": "Ann Lee", "type": "PER"}],
    [{"text": "Ann Lee", "start_pos": 0, "end_pos": 7, "labels": [{"value": "PER", "confidence": 0.5}]}],
])  # fmt: skip
@pytest.mark.parametrize("key", ["spans", "mentions"])
def test_words_of_spans_are_no_documents(spans: Any, key: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1, "body": TEXT, key: spans}))
    named = {"text_key": "body"} | ({} if key == "spans" else {"spans_key": key})
    document, *_ = read(tmp_path / "a.jsonl", **named)
    assert (document.text, document.labels.strings()[:2]) == (TEXT, ["B-PER", "I-PER"])
    (unread,) = read(tmp_path / "a.jsonl")
    assert "name it: --set text_key=" in unread.reason


# Files


def read(source: Path, **options: Any) -> list[Any]:
    entry = READERS["spans"]
    return list(entry.read(str(source), entry.settings(**options)))


def test_ids_come_from_records_or_from_file_and_place(tmp_path: Path) -> None:
    records = [
        {"text": "Ann.", "label": []},
        {"id": 0, "text": "So.", "label": []},
        {"id": 0, "text": "No.", "label": []},
    ]
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, records)))
    first, second, third = read(tmp_path / "a.jsonl")
    assert (first.doc_id, second.doc_id) == ("a-0001", "0")
    assert third == Reject(str(tmp_path / "a.jsonl"), 5, "a-0003", third.reason)
    assert "document '0' was there before" in third.reason


def test_arrays_lines_and_objects_around_records_are_the_same(tmp_path: Path) -> None:
    records = [{"id": n, "text": f"Ann {n}.", "label": [[0, 3, "PER"]]} for n in range(3)]
    contents = {
        "a.json": json.dumps(records, indent=2),
        "b.json": "\n".join(map(json.dumps, records)),
        "c.json": json.dumps({"rasa_nlu_data": {"common_examples": records}}),
        "d.jsonl": "\r\n".join(map(json.dumps, records)),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        assert [document.doc_id for document in read(tmp_path / name)] == ["0", "1", "2"], name


def test_a_broken_record_is_alone_in_being_rejected(tmp_path: Path) -> None:
    good = '{"text": "Ann.", "label": []}\n'
    for name in ("a.jsonl", "a.json"):
        (tmp_path / name).write_text(good + '{"text": \n' + good)
        items = read(tmp_path / name)
        assert [isinstance(item, Document) for item in items] == [True, False, True]
        assert items[1].row == 2


def test_records_of_tokens_have_a_label_each_or_spans_with_their_last_token(tmp_path: Path) -> None:
    records = [
        {"tokens": ["Ann", "Lee", "ran"], "ner_tags": ["B-PER", "L-PER", "O"]},
        {"tokenized_text": ["Ann", "Lee", "ran"], "ner": [[0, 1, "PER"]]},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    for document in read(tmp_path / "a.jsonl"):
        assert document.labels.strings() == ["B-PER", "I-PER", "O"]


def test_what_has_no_place_is_counted_and_told(tmp_path: Path) -> None:
    record = {"text": "Ann ran.", "entities": [{"text": "Ann", "type": "PER"}, {"text": "Bob", "type": "PER"}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(record))
    document, lost, told = read(tmp_path / "a.jsonl")
    assert document.labels.strings() == ["B-PER", "O", "O"]
    assert isinstance(lost, Misfit)
    assert isinstance(told, Notice)
    report = ingest("spans", tmp_path / "a.jsonl", tmp_path / "o")
    assert dict(report.misfits) == {"have no place in the text; left out": 1}
    assert "each stands at all places of its words" in report.notices[0]


# brat


def brat(folder: Path, text: str, annotations: str) -> list[Any]:
    folder.mkdir()
    (folder / "a.txt").write_bytes(text.encode())
    (folder / "a.ann").write_bytes(annotations.encode())
    (folder / "annotation.conf").write_text("[entities]\nPER\n")
    return read(folder)


def test_brat_counts_characters_and_line_ends(tmp_path: Path) -> None:
    text = "😀 Ann\r\nLee left Oslo.\r\n"
    lines = "T1\tPER 2 5;7 10\tAnn Lee\nT2\tLOC 16 20\tOslo\n"
    lines += "R1\tIn Arg1:T1 Arg2:T2\n#1\tAnnotatorNotes T1\tso\nA1\tSure T2\n"
    document, several = brat(tmp_path / "b", text, lines)
    assert document.text == text
    assert document.source_spans.start.tolist() == [2, 16]
    assert [
        document.text[a:b] for a, b in zip(document.source_spans.start, document.source_spans.end, strict=True)
    ] == [
        "Ann\r\nLee",
        "Oslo",
    ]
    assert several.reason == "have several parts; taken as one"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("T1\tPER 0 40", "span 0 to 40 (PER) is not inside the text"),
        ("T1 PER 0 3 Ann", "no span; want ID"),
        ("T1\tPER 0 3\tBob", "are 'Ann' and not 'Bob'"),
        ("T1\tPER 0 3;4 7\tAnn Lee", "characters 0 3;4 7 are 'Ann ran' and not 'Ann Lee'"),
    ],
)
def test_a_bad_line_of_brat_is_lost_alone(line: str, said: str, tmp_path: Path) -> None:
    document, misfit = brat(tmp_path / "b", "Ann ran.\n", f"{line}\nT2\tPER 0 4\tAnn\n")
    assert document.labels.strings() == ["B-PER", "O", "O"]
    assert document.source_spans.end.tolist() == [3]  # blanks at the border of a span are no words
    assert isinstance(misfit, Misfit)
    assert not misfit.in_text
    (alone, *_) = brat(tmp_path / "c", "Ann ran.\n", f"{line}\n")
    assert isinstance(alone, Document) == ("'" in said)
    assert isinstance(alone, Document) or said in alone.reason


def test_words_of_brat_stand_where_they_are_nearest(tmp_path: Path) -> None:
    text, lines = "Ann\r\nwith\r\nAnn Lee\r\n", "T1\tPER 0 3\tAnn\nT2\tPER 9 16\tAnn Lee\n"  # a line end counted as one
    document, notice = brat(tmp_path / "b", text, lines)
    assert document.source_spans.start.tolist() == [0, 11]
    assert notice.reason.startswith("1 spans have other words at their offsets")


def test_a_text_without_annotations_and_annotations_without_a_text_are_rejected(tmp_path: Path) -> None:
    brat(tmp_path / "b", "Ann ran.\n", "T1\tPER 0 3\tAnn\n")
    (tmp_path / "b" / "c.txt").write_text("So.")
    (tmp_path / "b" / "d.ann").write_text("")
    reasons = [item.reason for item in read(tmp_path / "b") if isinstance(item, Reject)]
    assert reasons == [
        "there is no c.ann beside it; an empty one says that there are no spans",
        "there is no d.txt beside it",
    ]


def test_a_file_of_spacy_keeps_tokens_sentences_and_entities(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    from spacy.tokens import DocBin, Span

    doc = spacy.blank("en")("Ann  Lee isn't here. So?")
    doc[5].is_sent_start = True
    for token in list(doc)[1:]:
        token.is_sent_start = token.text == "So"
    doc.ents = [Span(doc, 0, 3, label="PER")]
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    (document,) = read(tmp_path / "a.spacy")
    assert document.tokens == ["Ann", "Lee", "is", "n't", "here", ".", "So", "?"]
    assert document.labels.strings()[:3] == ["B-PER", "I-PER", "O"]
    assert document.sentence_starts.tolist() == [0, 6]
    assert document.text == doc.text
    (tmp_path / "b.spacy").write_bytes(b"none")
    with pytest.raises(ValueError, match=r"b\.spacy: not a whole \.spacy file"):
        read(tmp_path / "b.spacy")


def doc_bin(path: Path, *docs: Any, **options: Any) -> Path:
    from spacy.tokens import DocBin

    DocBin(docs=docs, **options).to_disk(path)
    return path


def test_groups_of_spans_of_spacy_are_read_and_the_longest_is_shown(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    doc = spacy.blank("en")("Ann Lee ran to Oslo.")
    doc.spans["sc"] = [doc.char_span(0, 3, "FIRST"), doc.char_span(0, 7, "PER"), doc.char_span(15, 19, "LOC")]
    document, misfit = read(doc_bin(tmp_path / "a.spacy", doc))
    assert document.labels.strings() == ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]
    assert document.source_spans.type.strings() == ["FIRST", "PER", "LOC"]
    assert isinstance(misfit, Misfit)
    assert (misfit.row, misfit.reason) == (1, "share a token with another; left out")


def test_spans_of_spacy_in_two_places_are_chosen_by_name(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    doc = spacy.blank("en")("Ann ran.")
    doc.ents = [doc.char_span(0, 3, "PER")]
    doc.spans["sc"] = [doc.char_span(4, 7, "VERB")]
    path = doc_bin(tmp_path / "a.spacy", doc)
    (reject,) = read(path)
    assert reject.reason == "document 1: spans under 'ents' and 'sc'; choose: --set spans_key=ents"
    assert read(path, spans_key="sc")[0].labels.strings() == ["O", "B-VERB", "O"]
    assert read(path, spans_key="ents")[0].labels.strings() == ["B-PER", "O", "O"]
    assert "no spans under 'x'; there are ents, sc" in read(path, spans_key="x")[0].reason


def test_a_document_of_spacy_without_entities_has_no_labels_and_one_without_names_is_rejected(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    unset, none, nameless = (spacy.blank("en")("Ann ran.") for _ in range(3))
    none.ents = []
    nameless.spans["sc"] = [nameless[0:1]]
    first, second, third = read(doc_bin(tmp_path / "a.spacy", unset, none, nameless))
    assert first.labels is None
    assert second.labels.strings() == ["O"] * 3
    assert third.reason == "document 3: want a name as label of a span, not ''"
    none.ents = [none.char_span(0, 3, "PER")]
    (stripped,) = read(doc_bin(tmp_path / "b.spacy", none, attrs=["ORTH"]))
    assert stripped.labels is None


@pytest.mark.parametrize("unset", [(0,), (1,), (2,), (0, 2)])
@pytest.mark.parametrize("grouped", [1, 2, 100])
def test_a_document_of_spacy_without_entities_takes_nothing_from_others(
    unset: tuple[int, ...], grouped: int, tmp_path: Path
) -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed")
    docs = [spacy.blank("en")("Ann ran.") for _ in range(4)]
    for number, doc in enumerate(docs):
        if number not in unset:
            doc.ents = [doc.char_span(0, 3, "PER")]
    layout = IngestSettings(group_documents=grouped)
    place = doc_bin(tmp_path / "a.spacy", *docs)
    if grouped == 1 and 0 in unset:
        with pytest.raises(SchemaError, match="columns"):  # the first row group would have had no column for them
            ingest("spans", place, tmp_path / "corpus", layout=layout)
        return
    report = ingest("spans", place, tmp_path / "corpus", layout=layout)
    assert report.notices[0].startswith(f"{len(unset)} of the 4 documents have no gold labels, and commands")
    rows = pq.read_table(tmp_path / "corpus").to_pylist()
    assert [row["labels"] for row in rows] == [None if n in unset else ["B-PER", "O", "O"] for n in range(4)]
    assert [row["span_type"] for row in rows] == [None if n in unset else ["PER"] for n in range(4)]
    found = [read_batch(shard) for shard in plan(str(tmp_path / "corpus"))]
    assert sum(len(batch) for batch, _ in found) == 4 - len(unset)
    assert {reject.reason for _, rejects in found for reject in rejects} == {"labels is null"}
