"""Documents of a sweep: corpora known by their content, and the folds of one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.schemas.settings import Validation
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.learning.search.folds import TrainingRound, parts_of, round_of


class Fold(NamedTuple):
    """One of the folds of a corpus.

    ``judged``: its number
    ``folds``: number of all
    """

    judged: int
    folds: int
    validation: Validation


class Documents(NamedTuple):
    """Documents of a corpus.

    ``place``: path or URI of the corpus
    ``digest``: hex digest of its content, see `digest_of`
    ``fold``: fold that is judged; None for a whole corpus
    """

    place: str
    digest: str
    fold: Fold | None = None


def digest_of(shards: Sequence[Shard]) -> str:
    """Hex digest of a corpus's content in its order, on which the first documents and later folds depend."""
    return hashlib.sha256("".join(shard.id for shard in shards).encode()).hexdigest()


def round_in(documents: Documents, read: Sequence[Document]) -> TrainingRound:
    """Documents to learn from and to judge in one fold. Raises `TrainingError` for fewer documents than folds."""
    fold = documents.fold
    assert fold is not None
    return round_of(parts_of(read, fold.folds, fold.validation), fold.judged, fold.validation)


def documents_of(documents: Documents) -> Sequence[Document]:
    """All documents of the corpus, of whatever fold.

    Raises `CorpusError` where its content is not that of the plan, and for a document that cannot be read.
    """
    return _read(documents.place, documents.digest)


@lru_cache(maxsize=2)
def _read(place: str, digest: str) -> Sequence[Document]:
    shards = plan(place)
    if digest_of(shards) != digest:
        raise CorpusError(f"{place}: has changed since the sweep was planned; run the same command again")
    found = list[Document]()
    for shard in shards:
        batch, rejects = read_batch(shard)
        if rejects:
            raise CorpusError(f"a sweep takes no corpus with rejects; the first: {rejects[0].told}")
        found += batch
    return found
