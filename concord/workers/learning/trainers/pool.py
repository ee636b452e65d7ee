"""Documents without labels that a model learns from beside labelled ones."""

from __future__ import annotations

from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch


def unlabelled(corpus: str) -> tuple[list[Document], int]:
    """The documents of a corpus that can be read, and the number of those that cannot.

    Raises `CorpusError`, and `TrainingError` where there is no token.
    """
    documents, rejected = list[Document](), 0
    for shard in plan(corpus):
        batch, rejects = read_batch(shard)
        documents += batch
        rejected += len(rejects)
    if not any(map(len, documents)):
        raise TrainingError(f"{corpus}: there is no token in the unlabelled corpus")
    return documents, rejected
