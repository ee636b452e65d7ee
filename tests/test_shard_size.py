"""The size of shards where none is asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.flows.runfolder.layout import SOURCES
from concord.flows.runfolder.runfolder import last_shard_bytes
from concord.schemas.run import SHARD_BYTES
from concord.workers.corpus import shard_size
from concord.workers.corpus.parquet import ListedFile, ParquetLocation
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_size import LARGEST_SHARD, SMALL_CORPUS, shard_bytes_of
from concord.workers.storage.storage import FolderStorage
from tests.support.runs_here import label, stay_here

SIZES = [SHARD_BYTES << step for step in range(5)]
TOTALS = st.integers(0, 200 * SMALL_CORPUS)


def files(total: int) -> list[ListedFile]:
    """Two files of so many bytes together."""
    location = ParquetLocation("corpus", "a.parquet", "a.parquet")
    return [ListedFile(location, total // 2, 0, 0), ListedFile(location, total - total // 2, 0, 0)]


def test_shards_double_with_the_corpus_up_to_the_largest() -> None:
    totals = [
        0,
        SMALL_CORPUS,
        SMALL_CORPUS + 1,
        2 * SMALL_CORPUS,
        2 * SMALL_CORPUS + 1,
        16 * SMALL_CORPUS,
        100 * SMALL_CORPUS,
    ]
    found = [shard_bytes_of(files(total), None) for total in totals]
    assert found == [SIZES[step] for step in (0, 0, 1, 1, 2, 4, 4)]
    assert SIZES[-1] == LARGEST_SHARD
    assert shard_bytes_of([], None) == SHARD_BYTES


@given(total=TOTALS, last=st.one_of(st.none(), st.sampled_from(SIZES), st.integers(1, 2 * LARGEST_SHARD)))
def test_the_last_size_stays_while_it_is_a_factor_of_two_off(total: int, last: int | None) -> None:
    wanted, found = shard_bytes_of(files(total), None), shard_bytes_of(files(total), last)
    near = last in SIZES and last in (wanted // 2, wanted, 2 * wanted)
    assert found == (last if near else wanted)


@given(total=TOTALS, share=st.floats(0.5, 1), last=st.sampled_from([None, *SIZES]))
def test_a_corpus_that_grows_and_shrinks_again_is_cut_once(total: int, share: float, last: int | None) -> None:
    first = shard_bytes_of(files(total), last)
    assert shard_bytes_of(files(int(total * share)), first) == first


def test_a_run_keeps_the_size_that_the_corpus_once_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stay_here(monkeypatch)
    table = pa.table(
        {"doc_id": [f"d{i}" for i in range(40)], "text": [f"Ada saw Basel {i}. " * 200 for i in range(40)]}
    )
    corpus, out, storage = tmp_path / "corpus", tmp_path / "out", FolderStorage(tmp_path / "out")
    corpus.mkdir()
    pq.write_table(table, corpus / "a.parquet", compression="none", use_dictionary=False)
    size = (corpus / "a.parquet").stat().st_size
    seen = []
    for ordinary in (size, size / 1.5, size / 4, size / 1.5):
        monkeypatch.setattr(shard_size, "SMALL_CORPUS", ordinary)
        report = label(corpus, out, shard_bytes=None)
        seen.append((last_shard_bytes(storage), report.labelled, report.reuse.kept))
    assert seen == [(SIZES[0], 40, 0), (SIZES[0], 0, 0), (SIZES[2], 40, 40), (SIZES[2], 0, 0)]
    label(corpus, out, shard_bytes=1 << 10)
    assert last_shard_bytes(storage) == 1 << 10
    (out / SOURCES).write_text("damaged")
    assert last_shard_bytes(storage) is None


def test_a_large_shard_has_as_many_short_documents_as_it_is_larger(tmp_path: Path) -> None:
    table = pa.table({"doc_id": [f"d{i}" for i in range(20_000)], "text": [f"{i} " * 40 for i in range(20_000)]})
    pq.write_table(table, tmp_path / "a.parquet")
    few, many = (len(plan(tmp_path, shard_bytes=size)) for size in (8 * SHARD_BYTES, SHARD_BYTES))
    assert 6 * few < many < 10 * few
