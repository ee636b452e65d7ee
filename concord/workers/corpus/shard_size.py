"""The size of shards where none is asked for: larger ones for a large corpus, so that their number stays small."""

from __future__ import annotations

from collections.abc import Sequence

from concord.schemas.run import SHARD_BYTES
from concord.workers.corpus.parquet import ListedFile

SMALL_CORPUS = 8 << 30
"""Bytes of files up to which shards have `SHARD_BYTES`: 24 GB of text in Parquet, which are 100,000 shards."""

LARGEST_SHARD = 4 << 20
"""Largest size, in bytes of text. A worker holds a shard with its answers, and does all of it again after a kill."""


def shard_bytes_of(files: Sequence[ListedFile], last: int | None) -> int:
    """Size of a shard, in bytes of text: `SHARD_BYTES`, twice that with twice the files, and so on to `LARGEST_SHARD`.

    - ``last``: size of the shards of the last run; None where there was none. It stays while it is at most a factor of
      2 off, so that a corpus that grows and shrinks from night to night is not cut anew each time.
    """
    total, size = sum(file.size for file in files), SHARD_BYTES
    while size < LARGEST_SHARD and total > SMALL_CORPUS * (size // SHARD_BYTES):
        size *= 2
    return last if last in (size // 2, 2 * size) and SHARD_BYTES <= last <= LARGEST_SHARD else size
