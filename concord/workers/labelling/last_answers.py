"""Where the answers of the last run are: a shard that it had too is one file, other documents are found by digest.

Most shards of a night are those of the night before. Of these the file is known, so digests of documents need to be
held only of those files whose shards are gone, since nowhere else can a document be that is in another shard now: an
id stands once in a corpus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.arrays import Ids
from concord.schemas.columns import DOCUMENT_DIGEST, SETTLED, VITERBI_CONSTRAINTS
from concord.schemas.labels import LabelSet
from concord.workers.labelling.kept import READ, LastAnswer, Reusable, answers_of
from concord.workers.storage.name_table import Packed, packed
from concord.workers.storage.storage import FolderStorage, Storage
from concord.workers.storage.tables import unthreaded_file

Numbers = NDArray[np.uint64]


@dataclass(frozen=True)
class FileIndex:
    """Files by number, each under one or more digests.

    - ``digest`` (D,): first eight bytes of each digest, rising.
    - ``file`` (D,): the file of each.
    """

    digest: Numbers
    file: Ids

    @classmethod
    def of(cls, files: Iterable[Sequence[bytes]], first: int = 0) -> FileIndex:
        """The digests of each file, in the order of their numbers, of which ``first`` is the first."""
        data, counts = bytearray(), list[int]()
        for digests in files:
            data += _numbers(digests).tobytes()
            counts.append(len(digests))
        digest = np.frombuffer(data, np.uint64)
        order = np.argsort(digest, kind="stable")
        file = np.repeat(np.arange(first, first + len(counts), dtype=np.int32), counts)
        return cls(digest[order], file[order])

    def files(self, digests: Sequence[bytes]) -> Ids:
        """(K,) the file of each of the digests, −1 for none; of another file where eight bytes are alike."""
        if not len(self.digest):
            return np.full(len(digests), -1, np.int32)
        numbers = _numbers(digests)
        at = np.minimum(np.searchsorted(self.digest, numbers), len(self.digest) - 1)
        return np.where(self.digest[at] == numbers, self.file[at], np.int32(-1))


@dataclass(frozen=True, eq=False)
class AnswerFiles:
    """Files of predictions by number: arrays, which the processes of a node share.

    - ``path``, ``sha256`` (F,): packed names.
    """

    path: Packed
    sha256: Packed

    @classmethod
    def of(cls, files: Iterable[tuple[str, str]]) -> AnswerFiles:
        """Paths with their SHA-256, in the order of their numbers."""
        pairs = list(files)
        return cls(packed(path for path, _ in pairs), packed(digest for _, digest in pairs))

    @classmethod
    def joined(cls, parts: Sequence[AnswerFiles]) -> AnswerFiles:
        """The files of all parts."""
        every = [cls.of(()), *parts]
        return cls(np.concatenate([part.path for part in every]), np.concatenate([part.sha256 for part in every]))

    def __len__(self) -> int:
        return len(self.path)

    def __getitem__(self, number: int) -> tuple[str, str]:
        return self.path[number].decode(), self.sha256[number].decode()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return map(self.__getitem__, range(len(self)))


@dataclass(frozen=True, eq=False)
class LastAnswers:
    """Answers of the last run that a run may take.

    - ``storage``: the run's published files
    - ``files``: its files of predictions
    - ``shards``: the file of each shard that is to be done again and has the rows that it had, by id
    - ``documents``: the file of each document of the shards that are gone, by digest
    - ``known``: what may be taken
    - ``cheaper``: constraints that may cost less now, see `kept.cheaper`
    """

    storage: Storage
    files: AnswerFiles
    shards: FileIndex
    documents: FileIndex
    known: Reusable
    cheaper: tuple[str, ...] = ()

    @classmethod
    def none(cls) -> LastAnswers:
        """No answers: there was no run before, or nothing of it can be taken."""
        return cls(FolderStorage(Path()), AnswerFiles.of(()), FileIndex.of(()), FileIndex.of(()), Reusable.NOTHING)

    def find(self, shard: str, digests: Sequence[bytes], labels: LabelSet) -> dict[int, LastAnswer]:
        """The answers to the documents with these ``digests`` of the shard with that id, by place.

        A file that is damaged has none, and a document with labels that ``labels`` lacks has none.
        """
        answers: dict[int, LastAnswer] = {}
        if self.known is Reusable.NOTHING:
            return answers
        for file, places in self._places(shard, digests):
            table = self._table(*self.files[file])
            if table is not None:
                row_of = {digest: row for row, digest in enumerate(table[DOCUMENT_DIGEST].to_pylist())}
                here = [place for place in places if digests[place] in row_of]
                rows = table.take(pa.array([row_of[digests[place]] for place in here], pa.int64()))
                pairs = zip(here, answers_of(rows, labels), strict=True)
                answers |= {place: answer for place, answer in pairs if answer is not None}
        return answers

    def _places(self, shard: str, digests: Sequence[bytes]) -> Iterator[tuple[int, Sequence[int]]]:
        """Files in which documents may be, each with the places of those documents."""
        own = int(self.shards.files([bytes.fromhex(shard)])[0])
        if own >= 0:
            yield own, range(len(digests))
            return
        files = self.documents.files(digests)
        for file in np.unique(files[files >= 0]).tolist():
            yield file, np.flatnonzero(files == file).tolist()

    def _table(self, path: str, sha256: str) -> pa.Table | None:
        try:
            data = self.storage.read(path)
        except OSError:
            return None
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            return None
        file = unthreaded_file(data)
        columns = [name for name in (*READ, VITERBI_CONSTRAINTS, SETTLED) if name in file.schema_arrow.names]
        return file.read(columns=columns, use_threads=False)


def _numbers(digests: Sequence[bytes]) -> Numbers:
    """The first eight bytes of each digest, as a number."""
    return np.frombuffer(b"".join(digest[:8].ljust(8, b"\0") for digest in digests), ">u8").astype(np.uint64)
