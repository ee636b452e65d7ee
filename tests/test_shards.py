"""Shards: planned from row groups, named by content, read with damage contained."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import repeated_ids
from flows import shards as shards_module
from flows.shards import largest_first, plan
from schemas.columns import Reject, SchemaError, table_from_documents
from schemas.document import Document
from schemas.settings import TextSettings
from workers.output import shard_name
from workers.parquet import WRITE_OPTIONS, CorpusError, open_parquet
from workers.row_ranges import RowRanges
from workers.shard_io import read_batch, read_ids, read_shard


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


@pytest.mark.parametrize("shard_bytes", [1 << 20, 100])
def test_a_flipped_bit_is_an_error_of_ours_or_harmless(
    tmp_path: Path, shard_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "SHARD_BYTES", shard_bytes)
    path, rng = tmp_path / "f.parquet", np.random.default_rng(5)
    pq.write_table(table(0, 6), path, row_group_size=3, **WRITE_OPTIONS)
    assert len(plan(path)) == (6 if shard_bytes == 100 else 2)
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


# Row groups in parts


SMALL_PAGES: dict[str, Any] = {"write_batch_size": 16, "data_page_size": 1 << 14, "write_page_checksum": True}


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file of 1,000 texts in one row group of about 1 MiB, as pyarrow makes it by default, but in small pages."""
    text = "".join(chr(97 + i) for i in np.random.default_rng(0).integers(0, 26, 1000).tolist())
    rows = {"doc_id": [f"d{i}" for i in range(1000)], "text": [f"{i} {text}" for i in range(1000)]}
    pq.write_table(pa.table(rows), tmp_path / "f.parquet", compression="none", use_dictionary=False, **SMALL_PAGES)
    return tmp_path / "f.parquet"


def test_a_large_row_group_makes_shards_of_like_size_whose_names_sort_as_their_rows(large: Path) -> None:
    shards = plan(large)
    assert [(s.row_group, s.start, s.first_row, s.rows) for s in shards] == [
        (0, 250 * part, 250 * part, 250) for part in range(4)
    ]
    size = pq.ParquetFile(large).metadata.row_group(0).total_byte_size
    assert [s.size for s in shards] == [size // 4] * 4
    assert len({s.id for s in shards}) == 4
    names = [shard_name(s) for s in shards]
    assert names == sorted(names)
    assert plan(large) == shards


ROWS = st.lists(
    st.tuples(st.sampled_from(["good", "good", "empty", "null id", "repeat"]), st.integers(1, 30)), max_size=30
)


@given(rows=ROWS, group=st.integers(1, 30), shard_bytes=st.integers(1, 2000), seed=st.integers(0, 99))
def test_however_a_file_is_cut_every_row_is_read_once_in_its_place(
    rows: Sequence[tuple[str, int]], group: int, shard_bytes: int, seed: int
) -> None:
    words = [
        [f"w{(7 * row + k) % 40}" for k in range(0 if kind == "empty" else n)] for row, (kind, n) in enumerate(rows)
    ]
    ids = [None if kind == "null id" else "d0" if kind == "repeat" else f"d{row}" for row, (kind, _) in enumerate(rows)]
    columns = {"doc_id": ids, "tokens": words, "sentence_starts": [[0]] * len(rows)}
    schema = pa.schema(
        {"doc_id": pa.string(), "tokens": pa.list_(pa.string()), "sentence_starts": pa.list_(pa.int32())}
    )
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_module, "SHARD_BYTES", shard_bytes)
        path = Path(folder) / "f.parquet"
        pq.write_table(pa.table(columns, schema), path, row_group_size=group, **WRITE_OPTIONS)
        shards = plan(path)
        read = {i: read_batch(shards[i]) for i in np.random.default_rng(seed).permutation(len(shards)).tolist()}
    assert [row for s in shards for row in range(s.first_row, s.first_row + s.rows)] == list(range(len(rows)))
    first = ids.index("d0") if "d0" in ids else -1
    faults = {
        row: "document has no tokens" if not words[row] else "doc_id is null" if doc_id is None else "repeat"
        for row, doc_id in enumerate(ids)
        if doc_id is None or not words[row] or (doc_id == "d0" and row != first)
    }
    found = {
        reject.row: "repeat" if f"that of row {first} of" in reject.reason else reject.reason
        for i in range(len(shards))
        for reject in read[i][1]
    }
    assert list(found.items()) == list(faults.items())
    documents = [document for i in range(len(shards)) for document in read[i][0]]
    assert [(d.doc_id, d.tokens) for d in documents] == [
        (ids[row], words[row]) for row in range(len(rows)) if row not in faults
    ]


def test_ids_are_read_once_a_row_group(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(*arguments: Any, **options: Any) -> list[bytes | None]:
        asked.append(arguments[1])
        return read_ids(*arguments, **options)

    monkeypatch.setattr(repeated_ids, "read_ids", counted)
    assert len(plan(large)) == 4
    assert asked == [0]


def test_damage_within_a_row_group_leaves_the_parts_before_it(large: Path) -> None:
    data = bytearray(large.read_bytes())
    data[data.index(b"700 ")] ^= 1
    large.write_bytes(data)
    shards = plan(large)
    for shard in shards[2:]:
        with pytest.raises(CorpusError, match="row group 0 is damaged"):
            read_batch(shard)
    assert [read_batch(shard)[0].doc_ids[0] for shard in shards[:2]] == ["d0", "d250"]


def test_a_row_group_with_fewer_rows_than_its_footer_says_is_damaged(large: Path) -> None:
    file = plan(large)[0].file
    ranges = RowRanges(open_parquet(file), file, 0, ["doc_id"])
    assert ranges.read(990, 10)["doc_id"].to_pylist() == [f"d{i}" for i in range(990, 1000)]
    for _ in range(2):
        with pytest.raises(CorpusError, match=r"row group 0 is damaged \(it ends after 1000 rows"):
            ranges.read(995, 6)


def test_the_largest_are_handed_out_first_and_equal_ones_in_order(large: Path) -> None:
    plain = plan(large)[0]
    shards = [plain._replace(id=str(i), size=size) for i, size in enumerate((5, 9, 5, 7, 9))]
    assert [s.id for s in largest_first(shards)] == ["1", "4", "3", "0", "2"]
