"""Layouts, their checks, and tables to batches and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.columns import (
    CORPUS_LAYOUT,
    INTEGERS,
    PREDICTIONS_LAYOUT,
    REJECTS_LAYOUT,
    STRINGS,
    TIMES_LAYOUT,
    Layout,
    Reject,
    SchemaError,
    batch_from_table,
    check,
    rejects_table,
    stamp,
    table_from_batch,
    table_from_documents,
)
from concord.schemas.decoded import Decoded, Score, Status
from concord.schemas.document import Batch, Column, Document, TokenizedTexts
from concord.schemas.labels import LabelSet
from concord.schemas.predictions import predictions_table, times_table
from tests.support.made_runs import rejects_in

WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
SENTENCES = st.lists(st.lists(WORD, min_size=1, max_size=5), min_size=1, max_size=4)


def corpus(**columns: Sequence[object]) -> pa.Table:
    """A small corpus of two good rows, with some columns replaced."""
    data: dict[str, Sequence[object]] = {
        "doc_id": ["a", "b"],
        "tokens": [["x", "y", "z"], ["x"]],
        "sentence_starts": [[0, 2], [0]],
    }
    kinds = {"doc_id": pa.string(), "text": pa.string()}
    kinds |= dict.fromkeys(("tokens", "pos", "labels", "span_type"), STRINGS)
    return pa.table({n: pa.array(v, kinds.get(n, INTEGERS)) for n, v in (data | columns).items()})


def rejected(table: pa.Table) -> dict[int | None, str]:
    batch, rejects = batch_from_table(table, source="f.parquet", first_row=10)
    assert len(batch) + len(rejects) == len(table)
    assert all(r.source == "f.parquet" for r in rejects)
    return {r.row: r.reason for r in rejects}


def test_a_good_table_has_no_rejects() -> None:
    assert rejected(corpus()) == {}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"doc_id": [None, "b"]}, "doc_id is null"),
        ({"doc_id": ["", "b"]}, "doc_id is empty"),
        ({"tokens": [None, ["x"]]}, "tokens is null"),
        ({"tokens": [[], ["x"]]}, "document has no tokens"),
        ({"tokens": [["x", None, "z"], ["x"]]}, "tokens holds a null"),
        ({"tokens": [["x", "", "z"], ["x"]]}, "one of tokens is empty"),
        ({"tokens": [["x", "\0y", "z"], ["x"]]}, "one of tokens holds a NUL character"),
        ({"sentence_starts": [None, [0]]}, "sentence_starts is null or empty"),
        ({"sentence_starts": [[], [0]]}, "sentence_starts is null or empty"),
        ({"sentence_starts": [[1, 2], [0]]}, "sentence_starts does not start at 0"),
        ({"sentence_starts": [[0, 2, 2], [0]]}, "sentence_starts does not increase"),
        ({"sentence_starts": [[0, 2, 1], [0]]}, "sentence_starts does not increase"),
        ({"sentence_starts": [[0, None, 1], [0]]}, "sentence_starts does not increase"),
        ({"sentence_starts": [[0, 3], [0]]}, "sentence_starts goes beyond the last token"),
        ({"pos": [["N"], ["N"]]}, "pos has 1 values for 3 tokens"),
        ({"pos": [None, ["N"]]}, "pos is null"),
        ({"labels": [["O"] * 4, ["O"]]}, "labels has 4 values for 3 tokens"),
        ({"labels": [None, ["O"]]}, "labels is null"),
    ],
)
def test_a_bad_row_is_a_reject_and_its_neighbour_is_kept(columns: dict[str, list[object]], reason: str) -> None:
    table = corpus(**columns)
    assert rejected(table) == {10: reason}
    batch, _ = batch_from_table(table)
    assert batch.doc_ids == ("b",)
    assert batch.document(0).tokens == ["x"]


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        ([0, 1, 2], [1, 2, 3], None),
        ([0, 1], [1, 2, 3], "token_start has 2 values for 3 tokens"),
        ([0, 1, 2], [1, 2, 4], "token_start and token_end do not rise inside the text"),
        ([0, 0, 2], [1, 2, 3], "token_start and token_end do not rise inside the text"),
        ([0, 1, 2], [1, 1, 3], "token_start and token_end do not rise inside the text"),
    ],
)
def test_offsets_have_to_fit_the_text(start: list[int], end: list[int], reason: str | None) -> None:
    table = corpus(text=["xyz", "x"], token_start=[start, [0]], token_end=[end, [1]])
    assert rejected(table) == ({10: reason} if reason else {})


def test_strings_that_are_not_utf8_are_rejected() -> None:
    broken = pa.array([b"\xff\xfe", b"ok"], pa.binary()).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), broken)
    rest = corpus(tokens=[["x"], ["x"]], sentence_starts=[[0], [0]])
    assert rejected(rest.set_column(0, "doc_id", broken)) == {10: "doc_id is not valid UTF-8"}
    table = rest.set_column(1, "tokens", lists)
    assert rejected(table) == {10: "one of tokens is not valid UTF-8"}
    assert batch_from_table(table)[0].document(0).tokens == ["ok"]


def test_labels_that_are_all_null_are_no_labels() -> None:
    batch, rejects = batch_from_table(corpus(labels=[None, None]))
    assert (len(batch), batch.labels, rejects) == (2, None, [])


@given(st.lists(SENTENCES, min_size=1, max_size=4))
def test_documents_come_back_from_a_table(nested: list[list[list[str]]]) -> None:
    upper = [[[w * 2 for w in s] for s in d] for d in nested]
    documents = [
        Document.build(f"d{i}", d, labels=d, lemma=u) for i, (d, u) in enumerate(zip(nested, upper, strict=True))
    ]
    table = table_from_documents(documents)
    sliced = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    for read in (table, sliced):
        batch, rejects = batch_from_table(read)
        assert rejects == []
        assert table_from_batch(batch).equals(table, check_metadata=True)
        for found, wanted in zip(batch, documents, strict=True):
            assert found.tokens == wanted.tokens
            assert found.columns["lemma"].strings() == wanted.columns["lemma"].strings()
            assert found.sentence_starts.tolist() == wanted.sentence_starts.tolist()
            assert found.labels is not None
            assert found.labels.strings() == wanted.tokens


def test_other_widths_and_encodings_of_a_type_are_read() -> None:
    wide = pa.table(
        {
            "doc_id": pa.array(["a"]).dictionary_encode(),
            "tokens": pa.array([["x", "y"]], pa.large_list(pa.large_string())),
            "sentence_starts": pa.array([[0, 1]], pa.list_(pa.int64())),
            "pos": pa.array([["N", "V"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        }
    )
    batch, rejects = batch_from_table(wide)
    assert rejects == []
    assert batch.document(0).tokens == ["x", "y"]
    assert batch.columns["pos"].strings() == ["N", "V"]


def test_a_part_of_a_batch_has_its_documents_as_they_were() -> None:
    texts = [[["a", "b"], ["c"]], [], [["b"]], [["d", "a"]]]
    documents = [Document.build(f"d{i}", text, labels=text) for i, text in enumerate(texts)]
    batch = Batch.of(documents)
    assert list(batch.runs(3)) == [(0, 2), (2, 4)]
    assert list(batch.runs(1)) == [(0, 1), (1, 3), (3, 4)]
    part = batch.part(1, 4)
    assert part.doc_ids == ("d1", "d2", "d3")
    assert part.token_count == 3
    for document, own in zip(documents[1:], part, strict=True):
        assert own.tokens == document.tokens
        assert own.labels is not None
        assert document.labels is not None
        assert own.labels.strings() == document.labels.strings()
        assert own.sentence_starts.tolist() == document.sentence_starts.tolist()


def test_an_empty_table_is_an_empty_batch() -> None:
    batch, rejects = batch_from_table(corpus().slice(0, 0))
    assert (len(batch), batch.token_count, rejects) == (0, 0, [])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (corpus().drop_columns(["tokens"]), ["f.parquet", "'tokens'", "missing", "concord ingest"]),
        (corpus().set_column(1, "tokens", pa.array(["x", "y"])), ["f.parquet", "'tokens'", "string", "list<"]),
    ],
)
def test_a_wrong_column_is_an_error_that_says_what_to_do(table: pa.Table, words: list[str]) -> None:
    with pytest.raises(SchemaError) as error:
        batch_from_table(table, source="f.parquet")
    assert [w for w in words if w not in str(error.value)] == []


def test_a_version_of_thousands_of_digits_is_a_newer_one() -> None:
    """Python refuses to read such a number, with a `ValueError` of its own."""
    table = corpus().replace_schema_metadata({b"concord.schema": b"corpus", b"concord.version": b"1" * 5_000})
    with pytest.raises(SchemaError, match=r"corpus version 1{9}, this concord reads up to 1; upgrade"):
        check(table.schema, CORPUS_LAYOUT, source="f")


def test_a_newer_version_and_another_kind_of_file_are_refused() -> None:
    newer = corpus().replace_schema_metadata({b"concord.schema": b"corpus", b"concord.version": b"99"})
    with pytest.raises(SchemaError, match="upgrade concord"):
        check(newer.schema, CORPUS_LAYOUT, source="f")
    with pytest.raises(SchemaError, match="this is a rejects file"):
        check(rejects_table([]).schema, CORPUS_LAYOUT, source="f")


@pytest.mark.parametrize(
    "layout", [CORPUS_LAYOUT, PREDICTIONS_LAYOUT, TIMES_LAYOUT, REJECTS_LAYOUT], ids=lambda layout: layout.name
)
def test_writing_is_checked_too(layout: Layout) -> None:
    empty = layout.required.empty_table()
    assert stamp(empty, layout).schema.metadata[b"concord.schema"] == layout.name.encode()
    for name in layout.required.names:
        with pytest.raises(SchemaError, match=name):
            stamp(empty.drop_columns([name]), layout)


Columns: TypeAlias = dict[str, Sequence[object]]
TEXTS: Columns = {"text": ["x y. z", "x"], "token_start": [[0, 2, 5], [0]], "token_end": [[1, 3, 6], [1]]}
SPANS: Columns = {"span_type": [["A", "B", "A"], []], "span_start": [[0, 2, 0], []], "span_end": [[6, 2, 6], []]}


def test_spans_of_the_source_come_back() -> None:
    batch, rejects = batch_from_table(corpus(**TEXTS, **SPANS))
    assert rejects == []
    assert batch.source_spans is not None
    assert batch.source_spans.distinct() == {(0, 0, 6, "A"), (0, 2, 2, "B")}
    again, _ = batch_from_table(table_from_batch(Batch.of([batch.document(1), batch.document(0)])))
    assert again.source_spans is not None
    assert again.source_spans.distinct() == {(1, 0, 6, "A"), (1, 2, 2, "B")}
    part = again.part(1, 2).source_spans
    assert part is not None
    assert part.distinct() == batch.source_spans.distinct()
    none: Columns = {name: [None, None] for name in SPANS}
    for columns in (SPANS, TEXTS | none):
        assert batch_from_table(corpus(**columns))[0].source_spans is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("span_type", None, "span_type is null"),
        ("span_type", ["A"], "span_start has 3 values for 1 spans"),
        ("span_type", ["A", None, "A"], "span_type holds a null"),
        ("span_type", ["A", "", "A"], "one of span_type is empty"),
        ("span_start", None, "span_start is null"),
        ("span_start", [0, -1, 0], "span_start and span_end do not lie inside the text"),
        ("span_start", [0, None, 0], "span_start and span_end do not lie inside the text"),
        ("span_end", [6, 1, 6], "span_start and span_end do not lie inside the text"),
        ("span_end", [6, 7, 6], "span_start and span_end do not lie inside the text"),
        ("span_end", [6, 6], "span_end has 2 values for 3 spans"),
    ],
)
def test_bad_spans_of_the_source_reject_their_row(name: str, value: Any, reason: str) -> None:
    assert rejected(corpus(**TEXTS, **(SPANS | {name: [value, []]}))) == {10: reason}


def test_rejects_come_back_from_a_table() -> None:
    rejects = [Reject("f", 3, None, "why"), Reject("g", None, "d", "because")]
    assert rejects_in(rejects_table(rejects)) == rejects


def decoded(labels: list[int], *, bound: float = 0.0) -> Decoded:
    score = Score(-1.0, np.array([2.0]), np.array([0.5]))
    return Decoded(np.array(labels, np.int32), score, bound, Status.FEASIBLE, work=7, seconds=0.25)


def test_predictions_carry_entities_scores_and_constraints() -> None:
    names = LabelSet.bio(["ORG", "PER"])
    text = "Ann Lee. Ann! Élan"
    batch = Batch(
        ("d1", "d2"),
        np.array([0, 5, 6]),
        np.array([0, 3, 5]),
        {"tokens": Column.encode(["Ann", "Lee", ".", "Ann", "!", "Élan"])},
        raw=TokenizedTexts(
            [text[:13], text[14:]],
            np.array([0, 4, 7, 9, 12, 0], np.int32),
            np.array([3, 7, 8, 12, 13, 4], np.int32),
        ),
    )
    answers = [decoded([3, 4, 0, 3, 0]), decoded([1], bound=-1.5)]
    keys: dict[str, Any] = {
        "engine": "gibbs",
        "constraint_names": ["same"],
        "model_digest": "m",
        "constraint_digest": "c",
    }
    table = predictions_table(batch, answers, names, **keys)
    rows = table.to_pylist()
    assert rows[0]["labels"] == ["B-PER", "I-PER", "O", "B-PER", "O"]
    assert [(r["tokens"], r["sentence_starts"]) for r in rows] == [
        (["Ann", "Lee", ".", "Ann", "!"], [0, 3]),
        (["Élan"], [0]),
    ]
    assert rows[0]["entities"] == [
        {"type": "PER", "start": 0, "end": 2, "char_start": 0, "char_end": 7, "text": "Ann Lee"},
        {"type": "PER", "start": 3, "end": 4, "char_start": 9, "char_end": 12, "text": "Ann"},
    ]
    assert rows[1]["entities"] == [
        {"type": "ORG", "start": 0, "end": 1, "char_start": 0, "char_end": 4, "text": "Élan"}
    ]
    assert rows[0]["constraints"] == [{"name": "same", "degree": 2.0, "penalty": 0.5}]
    assert [rows[0][n] for n in ("local", "penalty", "objective", "bound", "gap")] == [-1.0, 0.5, -1.5, 0.0, 1.5]
    assert [(r["status"], r["certified"], r["gap"]) for r in rows] == [("feasible", False, 1.5), ("feasible", False, 0)]
    assert times_table(batch, answers, [0.1, 0.2]).to_pylist()[1] == {
        "doc_id": "d2",
        "seconds": 0.25,
        "cpu_seconds": 0.2,
        "work": 7,
    }
    with pytest.raises(ValueError, match="for 2 documents"):
        predictions_table(batch, answers[:1], names, **keys)


def test_entities_of_a_corpus_without_text_have_no_characters() -> None:
    batch = Batch.of([Document.build("d", [["Ann", "Lee"]])])
    table = predictions_table(
        batch,
        [decoded([1, 2])],
        LabelSet.bio(["PER"]),
        engine="e",
        constraint_names=["same"],
        model_digest="m",
        constraint_digest="c",
    )
    entity = {"type": "PER", "start": 0, "end": 2, "char_start": None, "char_end": None, "text": "Ann Lee"}
    assert table["entities"].to_pylist() == [[entity]]
