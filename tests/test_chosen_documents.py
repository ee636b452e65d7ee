"""Runs over some documents of a corpus: their answers are those of a whole run, and nothing else is there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import concord.flows.inputs.jobs
from concord.flows.commands.listed_documents import ListError, documents_asked_for
from concord.flows.commands.run_plan import plan_run
from concord.flows.errors import RunFolderError
from concord.flows.labelling.evaluate import evaluate
from concord.flows.runfolder.published import published
from concord.flows.runfolder.runfolder import read_sources
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.schemas.requests import LabelRequest
from concord.schemas.run import RunSettings
from concord.schemas.settings import TextSettings
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.evaluation.bootstrap import bootstrap_interval
from concord.workers.evaluation.figures import FIGURES
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import FolderStorage
from concord.workers.synthesis.made_up import synthesize
from tests.support.runs_here import label, stay_here

NEWS = list(synthesize(7, seed=1, kind="news"))
IDS = [document.doc_id for document in NEWS]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_corpus(NEWS, tmp_path / "corpus", source="test")
    return tmp_path / "corpus"


def answers(out: Path) -> dict[str, dict[str, object]]:
    """The rows of predictions by document id, in their order."""
    tables = published(str(out)).tables(PREDICTIONS, PREDICTIONS_LAYOUT)
    return {row["doc_id"]: row for table in tables for row in table.to_pylist()}


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 documents in two files, in row groups of 4."""
    folder = tmp_path_factory.mktemp("long")
    for name, first in (("a", 0), ("b", 15)):
        documents = [Document.build(f"d{i}", [["w", f"t{i}"]]) for i in range(first, first + 15)]
        write_corpus(documents, folder / "made", source="test", overwrite=True)
        table = pq.read_table(folder / "made")
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=4)
    for path in (folder / "made").iterdir():
        path.unlink()
    (folder / "made").rmdir()
    return folder


@given(st.sets(st.integers(0, 29), min_size=1), st.integers(1, 400))
def test_the_shards_hold_these_documents_in_the_order_of_the_corpus(
    long: Path, chosen: set[int], shard_bytes: int
) -> None:
    shards = plan(long, shard_bytes=shard_bytes, only=[f"d{i}" for i in chosen])
    read = [doc for shard in shards for doc in read_batch(shard)[0].doc_ids]
    assert read == [f"d{i}" for i in sorted(chosen)]
    assert len({shard.id for shard in shards}) == len(shards)


def test_neighbours_are_one_shard(long: Path) -> None:
    shards = plan(long, only=["d3", "d4", "d5", "d9", "d14", "d15"])
    assert [(shard.file.name, shard.first_row, shard.rows) for shard in shards] == [
        ("a.parquet", 3, 3),
        ("a.parquet", 9, 1),
        ("a.parquet", 14, 1),
        ("b.parquet", 0, 1),
    ]


def test_what_is_not_there_is_told(long: Path) -> None:
    with pytest.raises(CorpusError, match=r"2 of the 3 documents asked for are not in the corpus; the first is 'd30'"):
        plan(long, only=["d31", "d30", "d1"])


def test_a_repeated_id_is_a_document_and_a_reject_as_in_a_whole_run(tmp_path: Path) -> None:
    ids, texts = ["a", "b", "a", None], ["Ada wrote.", "Bob wrote.", "Cy wrote.", "Di wrote."]
    pq.write_table(pa.table({"doc_id": ids, "text": texts}), tmp_path / "raw.parquet")
    shards = plan(tmp_path / "raw.parquet", text=TextSettings(), only=["a"])
    read = [read_batch(shard) for shard in shards]
    assert [doc for batch, _ in read for doc in batch.doc_ids] == ["a"]
    assert [reject.row for _, rejects in read for reject in rejects] == [2]


def test_some_documents_get_the_answers_of_a_whole_run(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_here(monkeypatch)
    only = (IDS[4], IDS[1], IDS[5])
    whole = label(corpus, tmp_path / "whole")
    report = label(corpus, tmp_path / "some", only=only)
    assert (whole.documents, report.documents, report.rejected) == (7, 3, 0)
    every = answers(tmp_path / "whole")
    assert list(answers(tmp_path / "some").items()) == [(doc, every[doc]) for doc in sorted(only)]
    assert read_sources(FolderStorage(tmp_path / "some")).only == only
    again = label(corpus, tmp_path / "some", only=only[::-1])
    assert (again.shards_done, again.documents) == (0, 3)


def test_gold_of_other_documents_is_left_out(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stay_here(monkeypatch)
    label(corpus, tmp_path / "whole")
    label(corpus, tmp_path / "some", only=IDS[2:4])
    found = evaluate(str(tmp_path / "some"), str(corpus), against=str(tmp_path / "whole")).report
    assert (found.documents, found.tokens) == (2, sum(len(document.tokens) for document in NEWS[2:4]))
    assert "the run is of 2 documents alone; other gold documents are left out" in capfd.readouterr().err
    assert evaluate(str(tmp_path / "whole"), str(corpus)).report.documents == 7


def test_an_output_is_of_all_documents_or_of_the_same_ones(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_here(monkeypatch)
    monkeypatch.setattr(concord.flows.inputs.jobs, "check_sources", lambda *_, **__: None)
    label(corpus, tmp_path / "whole")
    label(corpus, tmp_path / "some", only=IDS[:2])
    before = answers(tmp_path / "whole")
    for out, only in (("whole", IDS[:2]), ("some", None), ("some", IDS[1:3])):
        settings = RunSettings(engine="viterbi")
        asked = None if only is None else tuple(only)
        request = LabelRequest(
            corpus=str(corpus), model="made up", out=str(tmp_path / out), settings=settings, only=asked
        )
        for run in (plan_run, lambda asked: label(corpus, asked.out, only=asked.only)):
            with pytest.raises(RunFolderError, match=r"predictions of other documents of .*another --out"):
                run(request)
    assert answers(tmp_path / "whole") == before
    assert len(answers(tmp_path / "some")) == 2


def test_a_reject_alone_says_why(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    path = corpus / "part-00000.parquet"
    table = pq.read_table(path)
    ids = pa.array(["twice", *IDS[1:6], "twice"], table.schema.field(0).type)
    pq.write_table(table.set_column(0, table.schema.field(0), ids), path)
    report = label(corpus, tmp_path / "out", only=["twice"])
    assert (report.documents, report.rejected) == (1, 1)
    with pytest.raises(CorpusError, match="1 of the 1 documents"):
        label(corpus, tmp_path / "other", only=[IDS[0]])
    with pytest.raises(CorpusError, match="no document is asked for"):
        label(corpus, tmp_path / "none", only=[])


# Lists of documents


def test_a_list_is_a_text_or_a_table(tmp_path: Path) -> None:
    text, table = tmp_path / "ids.txt", tmp_path / "ids.parquet"
    text.write_text("b\n\na b\nb\nÄ\n", encoding="utf-8")
    pq.write_table(pa.table({"row": [1, 2, 3], "doc_id": pa.array(["x", None, "y"]).dictionary_encode()}), table)
    assert documents_asked_for((), None) is None
    assert documents_asked_for(("c", "b"), str(text)) == ("c", "b", "a b", "Ä")
    assert documents_asked_for((), str(table)) == ("x", "y")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("ids.txt", b"\n \n", "there is no id in it"),
        ("ids.txt", b"\xff\xfe", "is no text in UTF-8"),
        ("ids.parquet", b"PAR1", "is no Parquet file, or a damaged one"),
    ],
)
def test_a_list_that_is_none_is_told(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ListError, match=told) as raised:
        documents_asked_for((), str(tmp_path / name))
    assert str(raised.value).startswith(str(tmp_path / name))


def test_ids_that_are_no_text_are_told(tmp_path: Path) -> None:
    ids = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"doc_id": ids}), tmp_path / "ids.parquet")
    with pytest.raises(ListError, match="or a damaged one"):
        documents_asked_for((), str(tmp_path / "ids.parquet"))


def test_a_table_without_ids_is_told(tmp_path: Path) -> None:
    pq.write_table(pa.table({"docid": ["a"]}), tmp_path / "ids.parquet")
    with pytest.raises(ListError, match="there is no column 'doc_id'; did you mean 'docid'"):
        documents_asked_for((), str(tmp_path / "ids.parquet"))


def test_each_figure_has_an_interval_around_it_and_that_of_a_plain_bootstrap(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stay_here(monkeypatch)
    label(corpus, tmp_path / "whole")
    found = evaluate(str(tmp_path / "whole"), str(corpus), measures=["labels", "spans"]).report.measures
    for measure in found.values():
        assert measure.intervals.keys() == measure.figures.keys()
        for name, (low, high) in measure.intervals.items():
            assert low <= measure.figures[name] <= high
            assert measure.interval(name) == f"{100 * low:.2f} to {100 * high:.2f}"
    rows, gold = answers(tmp_path / "whole"), {document.doc_id: document for document in NEWS}
    counts = np.array([_tokens_right(gold[doc_id], rows[doc_id]) for doc_id in sorted(gold)])
    plain = bootstrap_interval(counts, FIGURES["accuracy"], rng=np.random.default_rng(0))
    assert found["labels"].intervals["accuracy"] == (plain.low, plain.high)


def _tokens_right(document: Document, row: dict[str, object]) -> list[list[int]]:
    """(1, 3) tokens of gold, tokens predicted, and those that are right."""
    assert document.labels is not None
    right = np.array(document.labels.strings()) == np.array(row["labels"])
    return [[len(right), len(right), int(right.sum())]]
