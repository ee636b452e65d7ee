"""Parts of a corpus for cross-validation and for holding out: documents stand in the order of their ids' hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from schemas.document import Document
from workers.learning.trainers.trainer import TrainingError


def place_of(doc_id: str) -> int:
    """Where a document stands among 2⁶⁴ places, by its id alone: what is held out does not depend on the corpus."""
    return int.from_bytes(hashlib.blake2b(doc_id.encode(), digest_size=8).digest(), "big")


def is_held_out(doc_id: str, share: float) -> bool:
    """Is the document among such a share of all that is held out?"""
    return place_of(doc_id) < share * 2.0**64


def fold_of(documents: Sequence[Document], folds: int) -> list[int]:
    """The fold of each document, all of like size. Raises `TrainingError` for fewer documents than folds."""
    if len(documents) < folds:
        raise TrainingError(f"{len(documents)} documents are too few for {folds} folds; give more")
    order = sorted(range(len(documents)), key=lambda i: place_of(documents[i].doc_id))
    found = [0] * len(documents)
    for rank, i in enumerate(order):
        found[i] = rank * folds // len(documents)
    return found
