"""Parquet of other programs: read as it is where nothing is missing, or by the reader for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.schemas.columns import Reject, SchemaError, batch_from_table
from concord.schemas.document import Document
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.shards import read_batch

WORDS = [["Ann", "Lee", "ran"], ["Oslo"]]
NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
NUMBERS = [[1, 2, 0], [3]]
GOLD = [["B-PER", "I-PER", "O"], ["B-LOC"]]


def named(column: str, names: list[str] = NAMES) -> dict[bytes, bytes]:
    feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "Sequence"}
    return {b"huggingface": json.dumps({"info": {"features": {column: feature}}}).encode()}


def read(path: Path, **options: Any) -> list[Any]:
    entry = READERS["parquet"]
    return list(entry.read(str(path), entry.settings(**options)))


def test_numbers_have_the_names_of_the_metadata(tmp_path: Path) -> None:
    table = pa.table({"id": ["x", "y"], "tokens": WORDS, "ner_tags": NUMBERS}).replace_schema_metadata(
        named("ner_tags")
    )
    pq.write_table(table, tmp_path / "a.parquet")
    first, second = read(tmp_path / "a.parquet")
    assert [first.doc_id, second.doc_id] == ["x", "y"]
    assert [document.labels.strings() for document in (first, second)] == GOLD


def test_all_that_is_wrong_is_in_one_message(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [1.5, 2.5], "t": WORDS, "n": NUMBERS}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError) as told:
        read(tmp_path / "a.parquet", id_column="keys", labels_column="m")
    for part in ("'keys' is missing; did you mean 'key'?", "'m' is missing", "no column of tokens", "--tokens-column"):
        assert part in str(told.value)
    with pytest.raises(SchemaError) as told:
        read(tmp_path / "a.parquet", id_column="key", labels_column="n", tokens_column="t")
    for part in ("--set label_names=", "column 'key' of ids has type double"):
        assert part in str(told.value)
    first, *_ = read(tmp_path / "a.parquet", labels_column="n", tokens_column="t", label_names=tuple(NAMES))
    assert (first.doc_id, first.labels.strings()) == ("a-000000", GOLD[0])


def test_a_number_without_a_name_rejects_its_row(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "tokens": WORDS, "labels": [[1, 9, 0], [-100]]})
    pq.write_table(table.replace_schema_metadata(named("labels")), tmp_path / "a.parquet")
    rejects = read(tmp_path / "a.parquet")
    assert [(item.row, item.doc_id, item.reason) for item in rejects] == [
        (0, "1", "labels holds a null"),
        (1, "2", "labels holds a null"),
    ]


def test_bilou_is_read_as_the_spans_it_has(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": ["x"], "words": WORDS[:1], "tags": [["B-PER", "L-PER", "O"]]}), tmp_path / "a.parquet"
    )
    (document,) = read(tmp_path / "a.parquet")
    assert document.labels.strings() == GOLD[0]
    pq.write_table(pa.table({"id": ["x"], "words": WORDS[:1], "tags": [["PER", "PER", "O"]]}), tmp_path / "a.parquet")
    (reject,) = read(tmp_path / "a.parquet")
    assert "label 'PER' is not O" in reject.reason
    (document,) = read(tmp_path / "a.parquet", scheme="plain")
    assert document.labels.strings() == ["PER", "PER", "O"]


def test_no_gold_is_lost_beside_files_without(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["x", "y"], "tokens": WORDS, "labels": GOLD}), tmp_path / "a.parquet")
    none = pa.table({"id": ["z"], "tokens": WORDS[1:], "labels": pa.nulls(1)})
    pq.write_table(none, tmp_path / "b.parquet")
    first, second, third = read(tmp_path)
    assert [first.labels.strings(), second.labels.strings()] == GOLD
    assert third == Reject(str(tmp_path / "b.parquet"), 0, "z", third.reason)
    assert [item.labels for item in read(tmp_path, gold=False) if isinstance(item, Document)] == [None] * 3


# Read as it is


def read_as_it_is(table: pa.Table, folder: Path) -> list[Document]:
    pq.write_table(table, folder / "c.parquet")
    return [document for shard in plan(folder / "c.parquet") for document in read_batch(shard)[0]]


def test_a_corpus_without_sentences_has_one_a_document(tmp_path: Path) -> None:
    documents = read_as_it_is(pa.table({"doc_id": ["x", "y"], "tokens": WORDS, "labels": GOLD}), tmp_path)
    assert [document.sentence_starts.tolist() for document in documents] == [[0], [0]]
    assert [document.labels.strings() for document in documents if document.labels] == GOLD


def test_a_column_of_another_type_that_nobody_needs_stops_nothing(tmp_path: Path) -> None:
    table = pa.table({"doc_id": [1, 2], "tokens": WORDS, "labels": NUMBERS, "pos": ["a", "b"], "text": [1, 2]})
    documents = read_as_it_is(table.append_column("chunk", pa.nulls(2)), tmp_path)
    assert [(document.doc_id, document.labels, document.raw) for document in documents] == [
        ("1", None, None),
        ("2", None, None),
    ]
    batch, rejects = batch_from_table(
        table.replace_schema_metadata(named("labels")).set_column(0, "doc_id", pa.array(["x", "y"]))
    )
    assert rejects == []
    assert batch.labels is not None
    assert batch.labels.strings() == ["B-PER", "I-PER", "O", "B-LOC"]


def test_what_a_corpus_lacks_is_told_at_once_with_the_command_that_reads_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["x", "y"], "tokens": WORDS}), tmp_path / "c.parquet")
    with pytest.raises(SchemaError, match=r"'doc_id' is missing.*`concord ingest parquet .*c\.parquet --out FOLDER`"):
        plan(tmp_path / "c.parquet")
    pq.write_table(pa.table({"words": ["x", "y"], "tokens": ["a", "b"]}), tmp_path / "c.parquet")
    with pytest.raises(SchemaError, match="'doc_id' is missing"):
        plan(tmp_path / "c.parquet")
