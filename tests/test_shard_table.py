"""Shards in columns are the shards that were put in, and repeats are found partition by partition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.workers.corpus import repeated_ids
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import REPEATED, Shard, read_batch

IDS = ["a", "b", "a", "c", "d", "b", "e", "e"]


@pytest.fixture
def shards(tmp_path: Path) -> ShardTable:
    """A shard a row, in two files; three rows repeat ids."""
    for name, ids in (("one", IDS[:6]), ("two", IDS[6:])):
        pq.write_table(pa.table({"doc_id": ids, "text": ["Ada saw Basel."] * len(ids)}), tmp_path / f"{name}.parquet")
    return plan(tmp_path, shard_bytes=1)


def test_shards_are_looked_at_one_by_one_and_in_parts(shards: ShardTable) -> None:
    every = list(shards)
    assert all(isinstance(shard, Shard) for shard in every)
    assert [(shard.file.name, shard.first_row) for shard in every] == [
        *(("one.parquet", row) for row in range(6)),
        ("two.parquet", 0),
        ("two.parquet", 1),
    ]
    assert [bool(shard.repeats) for shard in every] == [doc in IDS[:row] for row, doc in enumerate(IDS)]
    assert (len(shards), shards[-1]) == (8, every[-1])
    assert (list(shards[2:5]), list(shards[::-1])) == (every[2:5], every[::-1])
    assert shards.take(np.array([7, 2])) == [every[7], every[2]]
    assert repr(shards) == "<8 shards of 2 files>"
    assert shards != every[:-1]
    assert shards != [*every[:-1], every[0]]
    assert len({shard.id for shard in every}) == len(shards), "repeats and ids are part of a shard's id"
    for place in (8, -9):
        with pytest.raises(IndexError):
            shards[place]


def test_all_rows_are_there_once_or_as_rejects(shards: ShardTable) -> None:
    read = [read_batch(shard) for shard in shards]
    assert [doc.doc_id for batch, _ in read for doc in batch] == ["a", "b", "c", "d", "e"]
    assert [reject.reason for _, rejects in read for reject in rejects] == [REPEATED] * 3
    assert [reason for shard in shards for _, reason in shard.repeats] == [
        "doc_id is that of row 0 of one.parquet too",
        "doc_id is that of row 1 of one.parquet too",
        "doc_id is that of row 0 of two.parquet too",
    ]


EDGES = st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 1 << 62, -(1 << 62)])
HASHES = st.lists(st.lists(EDGES | st.integers(-(2**63), 2**63 - 1), max_size=9), max_size=5)


@given(files=HASHES, partition=st.sampled_from([1, 3, 1 << 25]))
def test_hashes_that_occur_twice_are_found_however_many_are_compared_at_once(
    files: list[list[int]], partition: int
) -> None:
    every = [number for own in files for number in own]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(repeated_ids, "PARTITION_IDS", partition)
        found = repeated_ids._shared_hashes([np.array(own, np.int64) for own in files]).tolist()
    assert found == sorted(found)
    assert set(found) == {number for number in every if every.count(number) > 1}
