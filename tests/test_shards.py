"""Shards: cut and named by content, read with damage contained."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.columns import Reject, SchemaError, table_from_documents
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.schemas.run import SHARD_BYTES
from concord.schemas.settings import TextSettings
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.linear import Linear, Term
from concord.workers.constraints.templates.runs import TransitionOn
from concord.workers.constraints.templates.template import TokenTest
from concord.workers.corpus.parquet import WRITE_OPTIONS
from concord.workers.corpus.plan import largest_first, plan, survey
from concord.workers.corpus.row_digests import row_digests
from concord.workers.corpus.row_runs import cut
from concord.workers.corpus.shards import DEFAULT_TEXT, ReplacedError, Shard, file_columns, open_rows, read_batch
from concord.workers.labelling.labelled import check_there
from concord.workers.labelling.output import in_place, without_place
from tests.support.made_runs import HashModel


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


STORAGE: list[dict[str, Any]] = [
    {"compression": "none"},
    {"row_group_size": 3},
    {"use_dictionary": False, "data_page_size": 10},
]


def test_every_row_is_in_one_shard_in_order(corpus: Path) -> None:
    shards = plan(corpus, shard_bytes=1)
    assert [(s.file.name, s.first_row, s.rows) for s in shards] == [
        (name, row, 1) for name in ("a.parquet", "sub/b.parquet") for row in range(10)
    ]
    assert [i for s in shards for i in read_batch(s)[0].doc_ids] == [f"d{i}" for i in range(20)]
    assert len({s.id for s in shards}) == 20


def test_an_id_is_that_of_the_rows_and_of_nothing_else(corpus: Path, tmp_path: Path) -> None:
    ids = [s.id for s in plan(corpus, shard_bytes=50)]
    assert 4 < len(ids) < 20
    shutil.copytree(corpus, tmp_path / "elsewhere")
    assert [s.id for s in plan(tmp_path / "elsewhere", shard_bytes=50)] == ids
    assert [s.id for s in plan(f"file://{corpus}", shard_bytes=50)] == ids
    (corpus / "a.parquet").rename(corpus / "another name.parquet")
    assert [s.id for s in plan(corpus, shard_bytes=50)] == ids
    for options in STORAGE:
        pq.write_table(table(10, 10), corpus / "sub" / "b.parquet", **options)
        assert [s.id for s in plan(corpus, shard_bytes=50)] == ids
    assert [read_batch(s)[1] for s in plan(corpus, shard_bytes=50)] == [[]] * len(ids)
    pq.write_table(table(0, 10, word="v"), corpus / "another name.parquet")
    assert not {s.id for s in plan(corpus / "another name.parquet", shard_bytes=50)} & set(ids)


def test_rows_have_one_digest_however_they_are_stored_and_different_ones_where_they_differ() -> None:
    """Every way to move a boundary between values, and null against empty."""
    strings, lists, numbers = pa.string(), pa.list_(pa.string()), pa.list_(pa.int32())
    rows: list[list[Any]] = [
        *([i, t, s] for i in ("a", "", None) for t in (["ab"], ["a", "b"], ["", "ab"], [], None) for s in ([0], [])),
        *(["a", ["ab", None], s] for s in ([0, 1], [1, 0], [None], [-1], None)),
        ["aa", ["b"], [0]],
        ["a", ["ab", ""], [0]],
        ["\xe4\U0001f600", ["\xe4"], [2**30]],
    ]
    kinds = [strings, lists, numbers]
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    whole = pa.table(columns, ["i", "t", "s"])
    digests = row_digests(whole)
    assert len(set(digests)) == len(rows)
    other = [pa.large_string(), pa.large_list(pa.dictionary(pa.int8(), pa.string())), pa.list_(pa.int64())]
    wide = pa.table([c.to_pylist() for c in columns], pa.schema(list(zip("its", other, strict=True))))
    assert row_digests(wide) == digests
    assert row_digests(pa.concat_tables([whole.slice(0, 5), whole.slice(5)])) == digests
    assert row_digests(whole.slice(7, 9)) == digests[7:16]
    assert not set(row_digests(whole.rename_columns(["i", "t", "r"]))) & set(digests)


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=60), run_bytes=st.integers(1, 100), seed=st.integers(0, 99)
)
def test_a_run_is_of_the_wanted_size_or_one_row(sizes: list[int], run_bytes: int, seed: int) -> None:
    digests = [np.random.default_rng([seed, row]).bytes(16) for row in range(len(sizes))]
    end = cut(sizes, digests, run_bytes)
    size = sum(sizes[:end])
    assert 1 <= end <= len(sizes)
    assert size <= 1.5 * run_bytes or end == 1
    assert size >= 0.5 * run_bytes or end == len(sizes) or size + sizes[end] > 1.5 * run_bytes


def test_a_change_moves_only_the_cuts_beside_it() -> None:
    rng = np.random.default_rng(0)
    sizes, digests = rng.integers(1, 200, 3000).tolist(), [rng.bytes(16) for _ in range(3000)]

    def runs(rows: Sequence[int]) -> set[tuple[int, ...]]:
        found, left = set(), list(rows)
        while left:
            end = cut([sizes[r] for r in left], [digests[r] for r in left], 2000)
            found.add(tuple(left[:end]))
            del left[:end]
        return found

    before = runs(range(2990))
    assert len(before) > 100
    for rows in (
        [*range(2991)],
        [*range(1500), 2995, *range(1500, 2990)],
        [*range(70), *range(71, 2990)],
        [2999, *range(2990)],
    ):
        assert len(runs(rows) - before) <= 6


def test_a_batch_holds_each_word_once(corpus: Path) -> None:
    batch, rejects = read_batch(plan(corpus)[0])
    assert rejects == []
    assert len(batch.columns["tokens"].values) == 12
    assert batch.document(2).tokens == ["w", "t2", "."]
    assert batch.labels is not None


def test_a_replaced_file_is_read_anew(corpus: Path) -> None:
    read_batch(plan(corpus)[0])
    pq.write_table(table(50, 3), corpus / "new.parquet", **WRITE_OPTIONS)
    (corpus / "new.parquet").replace(corpus / "a.parquet")
    assert read_batch(plan(corpus)[0])[0].doc_ids == ("d50", "d51", "d52")


def test_a_damaged_row_group_leaves_the_other_rows(corpus: Path) -> None:
    path = corpus / "a.parquet"
    damaged = bytearray(path.read_bytes())
    second = pq.ParquetFile(path).metadata.row_group(1).column(1)
    damaged[second.data_page_offset + second.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(damaged)
    shards, damages, _ = survey(corpus)
    assert [str(damage).partition(" (")[0] for damage in damages] == [f"{path}: row group 1 is damaged"]
    ids = [i for s in shards for i in read_batch(s)[0].doc_ids]
    assert ids == [f"d{i}" for i in range(20) if not 4 <= i < 8]
    with pytest.raises(CorpusError, match=r"a\.parquet: row group 1 is damaged"):
        plan(corpus)


@pytest.mark.parametrize("size", [0, 3, 500])
def test_a_truncated_file_is_named_and_the_others_are_planned(corpus: Path, size: int) -> None:
    path = corpus / "sub" / "b.parquet"
    path.write_bytes(path.read_bytes()[:size])
    shards, damages, _ = survey(corpus)
    assert [i for s in shards for i in read_batch(s)[0].doc_ids] == [f"d{i}" for i in range(10)]
    assert len(damages) == 1
    for found in (corpus, path):
        with pytest.raises(CorpusError, match=r"b\.parquet: not a whole Parquet file.*concord ingest"):
            plan(found)
    with pytest.raises(CorpusError, match=r"b\.parquet: not a whole Parquet file"):
        survey(path)


@pytest.mark.parametrize("change", ["reversed", "fewer", "other words", "other file"])
def test_rows_that_were_replaced_after_planning_are_not_read(corpus: Path, change: str) -> None:
    path = corpus / "a.parquet"
    shards = plan(corpus, shard_bytes=50)
    whole = pq.read_table(path)
    tables = {
        "reversed": whole.take(list(range(10))[::-1]),
        "fewer": whole.slice(0, 9),
        "other words": table(0, 10, word="v"),
        "other file": pa.table({"doc_id": ["a"], "tokens": ["no list"]}),
    }
    pq.write_table(tables[change], corpus / "new")
    (corpus / "new").replace(path)
    read: list[str] = []
    said: list[str] = []
    for shard in shards:
        try:
            read += read_batch(shard)[0].doc_ids
        except (CorpusError, SchemaError) as error:
            said.append(str(error))
    assert said != []
    assert all(str(path) in message for message in said)
    assert len(set(read)) == len(read) >= 10
    if change == "reversed":
        with pytest.raises(ReplacedError, match=r"a\.parquet, rows 0 to \d+: not what was there when the run began"):
            read_batch(shards[0])


@pytest.mark.parametrize("shard_bytes", [1 << 20, 1])
def test_a_flipped_bit_is_an_error_of_ours_or_harmless(tmp_path: Path, shard_bytes: int) -> None:
    path, rng = tmp_path / "f.parquet", np.random.default_rng(5)
    pq.write_table(table(0, 6), path, row_group_size=3, **WRITE_OPTIONS)
    good, caught = path.read_bytes(), 0
    for place in rng.integers(0, len(good), 300).tolist():
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        try:
            for shard in plan(path, shard_bytes=shard_bytes):
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
    with pytest.raises(SchemaError, match=r"c\.parquet: column 'tokens' has type string"):
        plan(corpus)
    pq.write_table(pa.table({"id": ["a"]}), corpus / "c.parquet")
    with pytest.raises(SchemaError, match=r"c\.parquet: there is neither a column 'tokens'"):
        plan(corpus)


def test_bad_rows_keep_their_place_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    rows = {"doc_id": ["a", "b", "c"], "tokens": [["x"], ["y"], []], "sentence_starts": [[0], [0], [0]]}
    pq.write_table(pa.table(rows), path, row_group_size=2)
    shards = plan(path, shard_bytes=1)
    assert [read_batch(shard)[1] for shard in shards[:2]] == [[], []]
    batch, rejects = read_batch(shards[2])
    assert (len(batch), rejects) == (0, [Reject(str(path), 2, "c", "document has no tokens")])


def test_raw_text_is_tokenised_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    rows = {"key": ["a", "b", "c"], "body": ["Ann came. Élan too.", None, "Last one"], "year": [1, 2, 3]}
    pq.write_table(pa.table(rows), path, row_group_size=2)
    text = TextSettings(id_column="key", text_column="body")
    (shard,) = plan(path, text=text)
    batch, rejects = read_batch(shard, text=text)
    assert rejects == [Reject(str(path), 1, "b", "text is null")]
    document = batch.document(0)
    assert document.tokens == ["Ann", "came", ".", "Élan", "too", "."]
    assert document.sentence_starts.tolist() == [0, 3]
    assert document.raw is not None
    assert document.raw.start.tolist() == [0, 4, 8, 10, 15, 18]
    assert batch.doc_ids == ("a", "c")


def all_rejects(shards: Sequence[Shard], text: TextSettings = DEFAULT_TEXT) -> list[Reject]:
    """The rejects of all shards as readers of a run see them."""
    found = [(shard, read_batch(shard, text=text)[1]) for shard in shards]
    return [reject for shard, rejects in found for reject in in_place(without_place(rejects, shard), shard)]


def test_an_id_that_was_there_before_is_rejected_with_both_places(corpus: Path) -> None:
    before = {s.id for s in plan(corpus, shard_bytes=1)}
    more = pa.concat_tables([table(30, 3), table(2, 1), table(31, 1), table(14, 1)])
    pq.write_table(more, corpus / "sub" / "a.parquet", row_group_size=4, **WRITE_OPTIONS)
    shards = plan(corpus, shard_bytes=1)
    assert [(Path(r.source).name, r.row, r.doc_id, r.reason) for r in all_rejects(shards)] == [
        ("a.parquet", 3, "d2", "doc_id is that of row 2 of a.parquet too"),
        ("a.parquet", 4, "d31", "doc_id is that of row 1 of sub/a.parquet too"),
        ("b.parquet", 4, "d14", "doc_id is that of row 5 of sub/a.parquet too"),
    ]
    ids = [i for shard in shards for i in read_batch(shard)[0].doc_ids]
    assert len(ids) == len(set(ids)) == sum(s.rows for s in shards) - 3
    # Of the old rows only the one that is rejected now is another shard than before; `d14` itself has moved.
    assert [s.file.name + f" {s.first_row}" for s in shards if s.id not in before] == [
        *(f"sub/a.parquet {row}" for row in range(5)),
        "sub/b.parquet 4",
    ]


def test_rows_without_an_id_are_left_to_the_worker(corpus: Path) -> None:
    whole = table(40, 3)
    pq.write_table(whole.set_column(0, "doc_id", pa.array([None, None, "d40"])), corpus / "c.parquet", **WRITE_OPTIONS)
    shards = plan(corpus)
    assert all(shard.repeats == () for shard in shards)
    assert [r.reason for r in all_rejects(shards)] == ["doc_id is null", "doc_id is null"]


def test_ids_of_raw_text_that_were_there_before_are_rejected(tmp_path: Path) -> None:
    texts = pa.table({"name": ["a", "b", "a", ""], "body": ["One.", "Two.", "Three.", "Four."]})
    pq.write_table(texts, tmp_path / "t.parquet", row_group_size=1)
    settings = TextSettings(text_column="body", id_column="name")
    shards = plan(tmp_path, text=settings, shard_bytes=1)
    assert [read_batch(shard, text=settings)[0].doc_ids for shard in shards] == [("a",), ("b",), (), ()]
    assert [r.reason for r in all_rejects(shards, settings)] == [
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


def test_a_large_row_group_makes_shards_of_like_size(large: Path) -> None:
    shards = plan(large)
    assert [s.first_row for s in shards] == [sum(s.rows for s in shards[:i]) for i in range(len(shards))]
    assert sum(s.rows for s in shards) == 1000
    text = sum(len(t) for t in pq.read_table(large)["text"].to_pylist())
    assert sum(s.size for s in shards) == text + 1000 * (1 + SHARD_BYTES // 128)
    assert all(SHARD_BYTES / 2 <= s.size <= 1.5 * SHARD_BYTES for s in shards[:-1])
    assert 8 < len(shards) < 20
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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.parquet"
        pq.write_table(pa.table(columns, schema), path, row_group_size=group, **WRITE_OPTIONS)
        shards = plan(path, shard_bytes=shard_bytes)
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
        for i, shard in enumerate(shards)
        for reject in in_place(without_place(read[i][1], shard), shard)
    }
    assert list(found.items()) == list(faults.items())
    documents = [document for i in range(len(shards)) for document in read[i][0]]
    assert [(d.doc_id, d.tokens) for d in documents] == [
        (ids[row], words[row]) for row in range(len(rows)) if row not in faults
    ]


def test_damage_within_a_row_group_leaves_the_rows_before_it(large: Path) -> None:
    data = bytearray(large.read_bytes())
    data[data.index(b"700 ")] ^= 1
    large.write_bytes(data)
    shards, damages, _ = survey(large)
    assert [str(damage).partition(" (")[0] for damage in damages] == [f"{large}: row group 0 is damaged"]
    ids = [i for shard in shards for i in read_batch(shard)[0].doc_ids]
    assert ids == [f"d{i}" for i in range(len(ids))]
    assert 300 < len(ids) <= 700


def test_a_file_with_fewer_rows_than_are_asked_for_is_damaged(large: Path) -> None:
    ranges = open_rows(plan(large)[0].file)
    assert ranges.read(990, 10)["doc_id"].to_pylist() == [f"d{i}" for i in range(990, 1000)]
    for _ in range(2):
        with pytest.raises(CorpusError, match=r"row group 0 is damaged \(the file ends after 1000 rows"):
            ranges.read(995, 6)


def test_the_largest_are_handed_out_first_and_like_ones_in_order(large: Path) -> None:
    plain = plan(large)[0]
    sizes = [1, 9, 1.5, 0.2, 10, 3, 40, 1]
    shards = [plain._replace(id=str(i), size=int(size * SHARD_BYTES)) for i, size in enumerate(sizes)]
    assert [s.id for s in largest_first(shards)] == ["6", "1", "4", "5", "0", "2", "3", "7"]


def test_a_file_without_a_column_that_is_read_is_named(corpus: Path) -> None:
    file, model = plan(corpus)[0].file, HashModel()
    check = partial(check_there, file_columns(file, TextSettings()), file.path, source="news")
    check(model=model, constraints=Unconstrained())
    tests = {"words": ("x",), "column": "chunk"}
    declared = DeclaredConstraints(
        (
            Linear(terms=(Term(label=("a",), tokens=TokenTest(**tests)),), weight=1.0),
            TransitionOn(weight=1.0),
        )
    )
    assert declared.columns == ("chunk", "tokens")
    with pytest.raises(CorpusError, match=r"a\.parquet: a constraint reads the column 'chunk'.*leave that constraint"):
        check(model=model, constraints=declared)
    for columns, added in (
        (("g_candidates",), "add it with `concord import entities --candidates --name g`"),
        (("g", "g_grade"), r"add the column \(if it is a layer, with `concord import entities --name g`\)"),
        (("g_grade",), "add it with `concord import entities --name g`"),
    ):
        model.columns = columns
        with pytest.raises(CorpusError, match=rf"or {added}$"):
            check(model=model, constraints=Unconstrained())
    model.columns = ("pos", "tokens", "shape")
    with pytest.raises(CorpusError, match=r"a\.parquet: the model news reads the column 'pos', 'shape', which"):
        check(model=model, constraints=Unconstrained())
