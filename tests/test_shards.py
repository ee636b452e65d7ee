"""Shards: planned from row groups, named by content, read with damage contained."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.shards import plan
from schemas.columns import Reject, SchemaError, table_from_documents
from schemas.document import Document
from schemas.settings import TextSettings
from workers.parquet import WRITE_OPTIONS, CorpusError
from workers.shard_io import read_batch, read_shard


def table(first: int, count: int, *, word: str = "w") -> pa.Table:
    return table_from_documents(
        [
            Document.build(f"d{i}", [[word, f"t{i}"], ["."]], labels=[["O", "O"], ["O"]])
            for i in range(first, first + count)
        ]
    )


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two files of 10 documents in row groups of 4, a side file and a stray one."""
    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    pq.write_table(table(0, 10), folder / "a.parquet", row_group_size=4, **WRITE_OPTIONS)
    pq.write_table(table(10, 10), folder / "sub" / "b.parquet", row_group_size=4, **WRITE_OPTIONS)
    (folder / "_rejects.parquet").write_bytes(b"skipped")
    (folder / "notes.txt").touch()
    return folder


def test_every_row_is_in_one_shard_in_order(corpus: Path) -> None:
    shards = plan(corpus)
    assert [(s.file.name, s.row_group, s.first_row, s.rows) for s in shards] == [
        (name, group, 4 * group, rows)
        for name in ("a.parquet", "sub/b.parquet")
        for group, rows in enumerate((4, 4, 2))
    ]
    assert [i for s in shards for i in read_batch(s)[0].doc_ids] == [f"d{i}" for i in range(20)]
    assert len({s.id for s in shards}) == 6


def test_ids_follow_name_and_content_and_nothing_else(corpus: Path, tmp_path: Path) -> None:
    ids = [s.id for s in plan(corpus)]
    shutil.copytree(corpus, tmp_path / "elsewhere")
    assert [s.id for s in plan(tmp_path / "elsewhere")] == ids
    assert [s.id for s in plan(f"file://{corpus}")] == ids
    assert [s.id for s in plan(corpus / "a.parquet")] == ids[:3]
    pq.write_table(table(0, 10, word="v"), corpus / "a.parquet", row_group_size=4, **WRITE_OPTIONS)
    changed = [s.id for s in plan(corpus)]
    assert not set(changed[:3]) & set(ids)
    assert changed[3:] == ids[3:]


def test_strings_are_read_dictionary_encoded(corpus: Path) -> None:
    read = read_shard(plan(corpus)[0])
    assert pa.types.is_dictionary(read.schema.field("tokens").type.value_type)
    batch, rejects = read_batch(plan(corpus)[0])
    assert rejects == []
    assert len(batch.columns["tokens"].values) == 6
    assert batch.document(2).tokens == ["w", "t2", "."]
    assert batch.labels is not None


def test_a_replaced_file_is_read_anew(corpus: Path) -> None:
    read_batch(plan(corpus)[0])
    pq.write_table(table(50, 3), corpus / "new.parquet", **WRITE_OPTIONS)
    (corpus / "new.parquet").replace(corpus / "a.parquet")
    assert read_batch(plan(corpus)[0])[0].doc_ids == ("d50", "d51", "d52")


def test_a_damaged_row_group_fails_only_its_shard(corpus: Path) -> None:
    path = corpus / "a.parquet"
    damaged = bytearray(path.read_bytes())
    second = pq.ParquetFile(path).metadata.row_group(1).column(1)
    damaged[second.data_page_offset + second.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(damaged)
    shards = plan(corpus)
    with pytest.raises(CorpusError, match=r"a\.parquet: row group 1 is damaged"):
        read_batch(shards[1])
    assert [len(read_batch(s)[0]) for s in shards[:1] + shards[2:]] == [4, 2, 4, 4, 2]


@pytest.mark.parametrize("size", [0, 3, 500])
def test_a_truncated_file_is_named_while_planning(corpus: Path, size: int) -> None:
    path = corpus / "sub" / "b.parquet"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CorpusError, match=r"b\.parquet: not a whole Parquet file.*concord ingest"):
        plan(corpus)


def test_a_flipped_bit_is_an_error_of_ours_or_harmless(tmp_path: Path) -> None:
    path, rng = tmp_path / "f.parquet", np.random.default_rng(5)
    pq.write_table(table(0, 6), path, row_group_size=3, **WRITE_OPTIONS)
    good, caught = path.read_bytes(), 0
    for place in rng.integers(0, len(good), 300).tolist():
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        try:
            for shard in plan(path):
                read_batch(shard)
        except (CorpusError, SchemaError):
            caught += 1
    assert caught > 100


@pytest.mark.parametrize(
    ("uri", "words"),
    [("nowhere", "no such file"), ("gopher://x/y", "cannot be opened"), ("", "no .parquet files")],
)
def test_a_corpus_that_is_not_there(tmp_path: Path, uri: str, words: str) -> None:
    with pytest.raises(CorpusError, match=words):
        plan(uri if "://" in uri else tmp_path / uri)


def test_wrong_columns_stop_the_plan(corpus: Path) -> None:
    pq.write_table(pa.table({"doc_id": ["a"], "tokens": ["no list"]}), corpus / "c.parquet")
    with pytest.raises(SchemaError, match=r"c\.parquet: column 'sentence_starts' is missing"):
        plan(corpus)
    pq.write_table(pa.table({"id": ["a"]}), corpus / "c.parquet")
    with pytest.raises(SchemaError, match=r"c\.parquet: column 'doc_id' is missing"):
        plan(corpus)


def test_bad_rows_keep_their_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    rows = {"doc_id": ["a", "b", "c"], "tokens": [["x"], ["y"], []], "sentence_starts": [[0], [0], [0]]}
    pq.write_table(pa.table(rows), path, row_group_size=2)
    shards = plan(path)
    assert read_batch(shards[0])[1] == []
    batch, rejects = read_batch(shards[1])
    assert (len(batch), rejects) == (0, [Reject(str(path), 2, "c", "document has no tokens")])


def test_raw_text_is_tokenised_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    rows = {"key": ["a", "b", "c"], "body": ["Ann came. Élan too.", None, "Last one"], "year": [1, 2, 3]}
    pq.write_table(pa.table(rows), path, row_group_size=2)
    text = TextSettings(id_column="key", text_column="body")
    shards = plan(path, text=text)
    batch, rejects = read_batch(shards[0], text=text)
    assert rejects == [Reject(str(path), 1, "b", "text is null")]
    document = batch.document(0)
    assert document.tokens == ["Ann", "came", ".", "Élan", "too", "."]
    assert document.sentence_starts.tolist() == [0, 3]
    assert document.token_start is not None
    assert document.token_start.tolist() == [0, 4, 8, 10, 15, 18]
    assert read_batch(shards[1], text=text)[0].doc_ids == ("c",)


def test_an_id_that_was_there_before_is_rejected_with_both_places(corpus: Path) -> None:
    before = plan(corpus)
    pq.write_table(
        pa.concat_tables([table(30, 3), table(2, 1), table(31, 1), table(14, 1)]),
        corpus / "sub" / "a.parquet",
        row_group_size=4,
        **WRITE_OPTIONS,
    )
    shards = plan(corpus)
    read = [read_batch(shard) for shard in shards]
    rejects = [(r.row, r.doc_id, r.reason) for _, bad in read for r in bad]
    assert rejects == [
        (3, "d2", "doc_id is that of row 2 of a.parquet too"),
        (4, "d31", "doc_id is that of row 1 of sub/a.parquet too"),
        (4, "d14", "doc_id is that of row 5 of sub/a.parquet too"),
    ]
    ids = [i for batch, _ in read for i in batch.doc_ids]
    assert len(ids) == len(set(ids)) == sum(s.rows for s in shards) - len(rejects)
    # Only the shard whose row is rejected now is another one than before.
    assert [s in shards for s in before] == [True, True, True, True, False, True]
    assert (shards[6].file, shards[6].row_group) == (before[4].file, before[4].row_group)
    assert shards[6].id != before[4].id


def test_rows_without_an_id_and_damaged_row_groups_are_left_to_the_worker(corpus: Path) -> None:
    whole = table(40, 3)
    pq.write_table(whole.set_column(0, "doc_id", pa.array([None, None, "d40"])), corpus / "c.parquet", **WRITE_OPTIONS)
    place = pq.ParquetFile(corpus / "a.parquet").metadata.row_group(0).column(0).data_page_offset + 20
    with (corpus / "a.parquet").open("r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 4)
    shards = plan(corpus)
    assert all(shard.repeats == () for shard in shards)
    with pytest.raises(CorpusError, match="row group 0 is damaged"):
        read_batch(shards[0])
    assert [r.reason for r in read_batch(shards[3])[1]] == ["doc_id is null", "doc_id is null"]


def test_ids_of_raw_text_that_were_there_before_are_rejected(tmp_path: Path) -> None:
    texts = pa.table({"name": ["a", "b", "a", ""], "body": ["One.", "Two.", "Three.", "Four."]})
    pq.write_table(texts, tmp_path / "t.parquet", row_group_size=1)
    settings = TextSettings(text_column="body", id_column="name")
    read = [read_batch(shard, text=settings) for shard in plan(tmp_path, text=settings)]
    assert [batch.doc_ids for batch, _ in read] == [("a",), ("b",), (), ()]
    assert [r.reason for _, bad in read for r in bad] == [
        "doc_id is that of row 0 of t.parquet too",
        "doc_id is empty",
    ]
