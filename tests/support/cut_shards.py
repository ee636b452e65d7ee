"""Shards without a corpus, and parts of them."""

from __future__ import annotations

from itertools import pairwise

from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.shards import Shard

FIRST_ROW = 1000


def shard_of(rows: int, name: str = "a") -> Shard:
    return Shard(name, ParquetLocation("", "corpus.parquet", "corpus.parquet"), FIRST_ROW, rows, rows, "")


def cut(shard: Shard, parts: int) -> list[Shard]:
    each = -(-shard.rows // parts)
    ends = [*range(0, shard.rows, each), shard.rows]
    return [shard._replace(first_row=shard.first_row + a, rows=b - a) for a, b in pairwise(ends)]
