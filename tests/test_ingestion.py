"""Ingest: counts, layout, atomicity, and the same bytes every time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.schemas.columns import REJECTS_LAYOUT, Misfit, Reject, SchemaError, batch_from_table
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.workers.corpus.ingestion import Ceiling, IngestError, IngestReport, ingest, write_corpus
from concord.workers.corpus.parquet import read_tables
from concord.workers.corpus.plan import plan
from concord.workers.corpus.settings import ColumnsSettings, IngestSettings
from concord.workers.corpus.shards import read_batch
from tests.support.made_runs import rejects_in

SMALL = IngestSettings(group_documents=3, group_tokens=12, part_bytes=4000)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """40 documents of one sentence, of which every tenth is bad."""
    return posts(tmp_path / "posts.tsv", range(40))


def posts(path: Path, numbers: range) -> Path:
    """Documents of one sentence, of which every tenth is bad."""
    lines = [f"w{i}\tO\nAnn\tB-PER\nLee\t{'X' if i % 10 == 9 else 'I'}-PER\n" for i in numbers]
    path.write_text("\n".join(lines))
    return path


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def stored(folder: Path) -> list[Document]:
    return [document for shard in plan(folder) for document in read_batch(shard)[0]]


def row_groups(folder: Path) -> set[int]:
    """How many rows they have."""
    files = [pq.ParquetFile(path).metadata for path in folder.glob("part-*.parquet")]
    return {file.row_group(i).num_rows for file in files for i in range(file.num_row_groups)}


def test_counts_add_up_and_rejects_say_why(source: Path, tmp_path: Path) -> None:
    seen: list[IngestReport] = []
    report = ingest("columns", source, tmp_path / "out", layout=SMALL, progress=seen.append)
    assert report == IngestReport(read=40, written=36, rejected=4, tokens=108, sentences=36, ceiling=Ceiling())
    assert Ceiling().f1 == 1.0
    assert seen[-1] == report
    assert all(r.read == r.written + r.rejected for r in seen)
    assert [d.tokens[0] for d in stored(tmp_path / "out")] == [f"w{i}" for i in range(40) if i % 10 != 9]
    rejects = rejects_in(next(read_tables(tmp_path / "out" / "_rejects.parquet", REJECTS_LAYOUT)))
    assert [r.doc_id for r in rejects] == ["posts-0010", "posts-0020", "posts-0030", "posts-0040"]
    assert rejects[0].row == 39
    assert "'X-PER'" in rejects[0].reason


def test_misfits_are_counted_where_their_document_is_written(tmp_path: Path) -> None:
    ran, fell = (Misfit("f", 1, "a", reason) for reason in ("ran", "fell"))
    items: list[Document | Misfit] = [
        Document.build("a", [["x"]]),
        ran,
        ran,
        Document.build("a", [["y"]]),
        fell,
        Document.build("b", [["z"]]),
        ran,
    ]
    seen: list[IngestReport] = []
    report = write_corpus(items, tmp_path / "out", source="s", layout=SMALL, progress=seen.append)
    assert report == IngestReport(3, 2, 1, 2, 2, {"ran": 3}) == seen[-1]


def test_row_groups_and_parts_follow_the_layout(source: Path, tmp_path: Path) -> None:
    ingest("columns", source, tmp_path / "out", layout=SMALL)
    parts = sorted((tmp_path / "out").glob("part-*.parquet"))
    assert len(parts) > 1
    assert all(p.stat().st_size < 3 * SMALL.part_bytes for p in parts)
    assert row_groups(tmp_path / "out") == {3}
    ingest("columns", source, tmp_path / "few", layout=IngestSettings(group_documents=64, group_tokens=10))
    assert row_groups(tmp_path / "few") == {4}


def test_the_same_source_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    ingest("columns", source, tmp_path / "a", layout=SMALL)
    ingest("columns", source, tmp_path / "b", layout=SMALL)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_a_second_document_with_an_id_is_rejected(tmp_path: Path) -> None:
    table = pa.table({"doc_id": ["a", "b", "a"], "text": ["One.", "Two.", "Three."]})
    pq.write_table(table, tmp_path / "t.parquet")
    report = ingest("text", tmp_path / "t.parquet", tmp_path / "out")
    assert (report.read, report.written, report.rejected) == (3, 2, 1)
    (reject,) = rejects_in(next(read_tables(tmp_path / "out" / "_rejects.parquet", REJECTS_LAYOUT)))
    assert (reject.doc_id, reject.reason) == ("a", "doc_id was seen before in this ingest")
    assert [d.text for d in stored(tmp_path / "out")] == ["One.", "Two."]


def test_text_and_offsets_survive(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("Élan met Ann. 😀 Done!")
    ingest("text", tmp_path / "in", tmp_path / "out")
    (document,) = stored(tmp_path / "out")
    assert document.text is not None
    assert document.raw is not None
    spans = zip(document.raw.start.tolist(), document.raw.end.tolist(), strict=True)
    assert [document.text[a:b] for a, b in spans] == document.tokens


def test_a_folder_that_is_not_empty_is_left_alone(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ingest("columns", source, out)
    before = digests(out)
    with pytest.raises(IngestError, match="not empty"):
        ingest("columns", source, out)
    assert digests(out) == before
    settings = ColumnsSettings(prefix="new")
    ingest("columns", source, out, settings=settings, overwrite=True)
    assert stored(out)[0].doc_id == "new-0001"
    (out / "thesis.doc").touch()
    with pytest.raises(IngestError, match=r"thesis\.doc"):
        ingest("columns", source, out, overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "posts.tsv"]


def test_a_failed_ingest_leaves_nothing_behind(source: Path, tmp_path: Path) -> None:
    ingest("columns", source, tmp_path / "out")
    before = digests(tmp_path / "out")

    def broken() -> Iterator[Document | Reject]:
        yield from stored(tmp_path / "out")
        raise CorpusError("the disk is gone")

    for name in ("out", "fresh"):
        with pytest.raises(CorpusError, match="the disk is gone"):
            write_corpus(broken(), tmp_path / name, source="s", layout=SMALL, overwrite=True)
    assert digests(tmp_path / "out") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "posts.tsv"]


def test_an_ingest_cut_off_between_its_renames_is_mended(source: Path, tmp_path: Path) -> None:
    ingest("columns", source, tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / ".out.old")
    (tmp_path / ".out.partial").mkdir()
    ingest("columns", source, tmp_path / "out")
    assert len(stored(tmp_path / "out")) == 36
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "posts.tsv"]


def test_documents_with_other_columns_do_not_mix(tmp_path: Path) -> None:
    documents = [Document.build("a", [["x"]]), Document.build("b", [["x"]], pos=[["N"]])]
    with pytest.raises(SchemaError, match=r"'b'.*different folders"):
        write_corpus(documents, tmp_path / "out", source="s", layout=IngestSettings(group_documents=1))


def test_an_unknown_reader_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="conll"):
        ingest("pdf", tmp_path, tmp_path / "out")


def test_a_corpus_without_a_good_document_still_has_its_rejects(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    report = ingest("text", tmp_path / "empty.txt", tmp_path / "out")
    assert report == IngestReport(read=1, written=0, rejected=1)
    with pytest.raises(CorpusError, match=r"no \.parquet files"):
        plan(tmp_path / "out")


def test_stored_corpora_pass_their_own_checks(source: Path, tmp_path: Path) -> None:
    ingest("columns", source, tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "part-00000.parquet")
    assert table.schema.metadata[b"concord.version"] == b"1"
    assert batch_from_table(table)[1] == []


def test_a_source_is_added_to_a_corpus_whose_parts_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ingest("columns", posts(tmp_path / "monday.tsv", range(40)), out, layout=SMALL, append=True)
    first = digests(out)
    report = ingest("columns", posts(tmp_path / "tuesday.tsv", range(40, 60)), out, layout=SMALL, append=True)
    assert (report.read, report.written, report.rejected) == (20, 18, 2)
    both = digests(out)
    assert {name: both[name] for name in first if name != "_rejects.parquet"}.items() <= first.items()
    assert sorted(both)[1:] == [f"part-{i:05d}.parquet" for i in range(len(both) - 1)]
    assert [d.tokens[0] for d in stored(out)] == [f"w{i}" for i in range(60) if i % 10 != 9]
    rejects = rejects_in(next(read_tables(out / "_rejects.parquet", REJECTS_LAYOUT)))
    assert [r.doc_id for r in rejects] == [
        *("tuesday-0010", "tuesday-0020"),
        *(f"monday-00{i}0" for i in range(1, 5)),
    ], "those of the last source come first"


def test_what_is_there_is_not_added_again(tmp_path: Path) -> None:
    out, source = tmp_path / "out", posts(tmp_path / "monday.tsv", range(20))
    ingest("columns", source, out, layout=SMALL)
    report = ingest("columns", source, out, layout=SMALL, append=True)
    assert (report.read, report.written, report.rejected) == (20, 0, 20)
    again = digests(out)
    ingest("columns", source, out, layout=SMALL, append=True)
    assert digests(out) == again
    assert len(stored(out)) == 18
    rejects = rejects_in(next(read_tables(out / "_rejects.parquet", REJECTS_LAYOUT)))
    assert sum(reject.reason == "doc_id is in the corpus already" for reject in rejects) == 18
    assert len(rejects) == 20


def test_what_does_not_fit_a_corpus_leaves_it_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ingest("columns", posts(tmp_path / "monday.tsv", range(20)), out, layout=SMALL)
    before = digests(out)
    other = tmp_path / "other.tsv"
    other.write_text("w\tNN\tO\n")
    columns = ColumnsSettings(columns=("tokens", "pos", "labels"))
    with pytest.raises(SchemaError, match="differ from the corpus's"):
        ingest("columns", other, out, settings=columns, append=True)
    (tmp_path / "text.txt").write_text("Ann Lee.")
    with pytest.raises(IngestError, match=r"its tokenizer is none, and this source's is .*; give another folder"):
        ingest("text", tmp_path / "text.txt", out, append=True)
    (out / "part-00000.parquet").write_bytes(b"PAR1")
    damaged = digests(out)
    with pytest.raises(CorpusError, match="not a whole Parquet file"):
        ingest("columns", posts(tmp_path / "tuesday.tsv", range(3)), out, append=True)
    assert digests(out) == damaged
    assert before.keys() == damaged.keys()


def test_parts_of_any_name_and_number_stay_whole(tmp_path: Path) -> None:
    """The new parts come after them: one that had the name of an old one would be written into it."""
    out = tmp_path / "out"
    ingest("columns", posts(tmp_path / "monday.tsv", range(9)), out, layout=SMALL)
    first = out / "part-00000.parquet"
    for name in ("part-99999.parquet", "part-100000.parquet", "part-00000-5e1f.c000.snappy.parquet"):
        ingest("columns", posts(tmp_path / f"{name}.tsv", range(3)), tmp_path / name)
        (tmp_path / name / "part-00000.parquet").rename(out / name)
    before = digests(out)
    ingest("columns", posts(tmp_path / "tuesday.tsv", range(3)), out, append=True)
    after = digests(out)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"part-100001.parquet"}
    pq.write_table(pq.read_table(first).drop_columns(["doc_id"]), first)
    with pytest.raises(SchemaError, match="doc_id"):
        ingest("columns", posts(tmp_path / "wednesday.tsv", range(3)), out, append=True)
