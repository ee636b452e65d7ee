"""The shards of a corpus in columns: objects of millions of them would take gigabytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

import numpy as np

from concord.schemas.arrays import Bytes, Ints
from concord.schemas.corrections import ShardCorrections, corrections_digest
from concord.schemas.document import ScoreColumn
from concord.schemas.settings import TextSettings
from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.repeated_ids import Repeats
from concord.workers.corpus.row_digests import DIGEST_BYTES
from concord.workers.corpus.run_table import RunTable
from concord.workers.corpus.shards import Shard, read_ids


@dataclass(frozen=True, eq=False, repr=False)
class ShardTable(Sequence[Shard]):
    """Shards, of which each is made when it is looked at: 64 bytes a shard, where the object takes ten times that.

    - ``files``: the files, by number.
    - ``file``, ``first_row``, ``rows``, ``size`` (S,): as `Shard` has them, the file by its number.
    - ``ids``, ``digests`` (S, 16): bytes of their hex digits.
    - ``repeats``: of those shards that have some, by place.
    - ``scores``: of every shard.
    - ``corrections``: of those shards that have corrected documents, by place.
    """

    files: tuple[ParquetLocation, ...]
    file: Ints
    first_row: Ints
    rows: Ints
    size: Ints
    ids: Bytes
    digests: Bytes
    repeats: Mapping[int, Repeats]
    scores: ScoreColumn | None
    corrections: Mapping[int, ShardCorrections] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        runs: Sequence[RunTable],
        repeats: Mapping[int, Repeats],
        scores: ScoreColumn | None,
        corrections: Mapping[int, ShardCorrections] | None = None,
    ) -> ShardTable:
        """The shards of the runs of files.

        Ids cover the repeats, because these depend on rows of other shards, and the corrections of their documents.
        """
        nothing = np.zeros(0, np.int64)
        digests = np.concatenate([np.zeros((0, DIGEST_BYTES), np.uint8), *(table.digest for table in runs)])
        corrected, ids = corrections or {}, bytearray()
        for place, digest in enumerate(map(bytes, digests)):
            ids += _id(digest.hex(), repeats.get(place, ()), corrected.get(place, ()))
        return cls(
            files=tuple(table.file for table in runs),
            file=np.repeat(np.arange(len(runs)), [len(table) for table in runs]),
            first_row=np.concatenate([nothing, *(table.first_row for table in runs)]),
            rows=np.concatenate([nothing, *(table.rows for table in runs)]),
            size=np.concatenate([nothing, *(table.size for table in runs)]),
            ids=np.frombuffer(ids, np.uint8).reshape(-1, DIGEST_BYTES),
            digests=digests,
            repeats=repeats,
            scores=scores,
            corrections=corrected,
        )

    @property
    def documents(self) -> int:
        """Rows that repeat no earlier row's document id."""
        return int(self.rows.sum()) - sum(map(len, self.repeats.values()))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Shard: ...

    @overload
    def __getitem__(self, place: slice) -> ShardTable: ...

    def __getitem__(self, place: int | slice) -> Shard | ShardTable:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        place = range(len(self))[place]
        return Shard(
            self.ids[place].tobytes().hex(),
            self.files[self.file[place]],
            int(self.first_row[place]),
            int(self.rows[place]),
            int(self.size[place]),
            self.digests[place].tobytes().hex(),
            self.repeats.get(place, ()),
            scores=self.scores,
            corrections=self.corrections.get(place, ()),
        )

    def __repr__(self) -> str:
        return f"<{len(self):,} shards of {len(self.files):,} files>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def answered(self, answer_digest: Callable[[str], bytes], text: TextSettings) -> ShardTable:
        """The shards where another program gives the answers, which their ids then cover, too.

        - ``answer_digest``: digest of the answer to a document, by its id; empty for none.

        Raises the errors of reading.
        """
        ids = bytearray()
        for shard in self:
            state = hashlib.sha256(shard.id.encode())
            for doc_id in read_ids(shard, text=text):
                state.update(answer_digest((doc_id or b"").decode(errors="replace")))
            ids += state.digest()[:DIGEST_BYTES]
        return replace(self, ids=np.frombuffer(ids, np.uint8).reshape(-1, DIGEST_BYTES))

    def take(self, places: Ints) -> ShardTable:
        """The shards at these places, in that order."""
        taken = list(enumerate(places.tolist() if self.repeats or self.corrections else ()))
        return replace(
            self,
            file=self.file[places],
            first_row=self.first_row[places],
            rows=self.rows[places],
            size=self.size[places],
            ids=self.ids[places],
            digests=self.digests[places],
            repeats={now: self.repeats[place] for now, place in taken if place in self.repeats},
            corrections={now: self.corrections[place] for now, place in taken if place in self.corrections},
        )


def _id(digest: str, repeats: Repeats, corrections: ShardCorrections) -> bytes:
    state = hashlib.sha256(f"{digest} {[row for row, _ in repeats]}".encode())
    for doc_id, own in corrections:
        state.update(doc_id.encode() + b"\0" + corrections_digest(own))
    return state.digest()[:DIGEST_BYTES]
