"""Splits of a corpus for cross-validation and held-out documents: by hashes of ids, or by order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.settings import Validation
from concord.workers.evaluation.named_counts import Counts

LATER_SHARE = 0.2
"""Fraction of the documents, the last ones, by which a trainer chooses something while it trains.

Not by hashes: who trains a model to tune something by may have left out the documents of the lowest ones.
"""


def place_of(doc_id: str) -> int:
    """Hash of a document's id, below 2⁶⁴: whether a document is held out does not depend on the rest of the corpus."""
    return int.from_bytes(hashlib.blake2b(doc_id.encode(), digest_size=8).digest(), "big")


def is_held_out(doc_id: str, share: float) -> bool:
    """Is the document held out, if a fraction ``share`` of all documents is?"""
    return place_of(doc_id) < share * 2.0**64


def fold_of(documents: Sequence[Document], folds: int) -> list[int]:
    """(D,) fold of each document, all of about equal size. Raises `TrainingError` for fewer documents than folds."""
    _check_enough(documents, folds)
    order = sorted(range(len(documents)), key=lambda i: place_of(documents[i].doc_id))
    numbers = [0] * len(documents)
    for rank, i in enumerate(order):
        numbers[i] = rank * folds // len(documents)
    return numbers


def held_out(documents: Sequence[Document], share: float, validation: Validation) -> list[bool]:
    """(D,) mask of held-out documents, a fraction ``share`` of all; `Validation.LATER` rounds their number."""
    if validation is Validation.RANDOM:
        return [is_held_out(document.doc_id, share) for document in documents]
    first = first_held_out(len(documents), share)
    return [i >= first for i in range(len(documents))]


def divided(
    documents: Sequence[Document], share: float, validation: Validation
) -> tuple[list[Document], list[Document]]:
    """The documents that are learned from, and those that are held out, as `held_out` says; either may be none."""
    mask = held_out(documents, share, validation)
    pairs = list(zip(documents, mask, strict=True))
    return [document for document, out in pairs if not out], [document for document, out in pairs if out]


def first_held_out(documents: int, share: float) -> int:
    """Index of the first held-out one of so many documents, by `Validation.LATER`."""
    return documents - round(share * documents)


class TrainingRound(NamedTuple):
    """One training of a cross-validation.

    - ``learned``: indices of the documents that it learns from, ascending.
    - ``judged``: indices of the documents that its model labels, ascending.
    """

    learned: list[int]
    judged: list[int]


def parts_of(documents: Sequence[Document], folds: int, validation: Validation) -> list[int]:
    """(D,) part of each document, out of ``folds``. Raises `TrainingError` for fewer documents than folds."""
    return fold_of(documents, folds) if validation is Validation.RANDOM else _in_order(documents, folds)


def first_judged(folds: int, validation: Validation) -> int:
    """The first part that is judged; earlier parts are only learned from."""
    return 0 if validation is Validation.RANDOM else folds // 2


def first_answered(validation: Validation) -> int:
    """The first part that a model without it can label; with `Validation.LATER` nothing comes before part 0."""
    return 0 if validation is Validation.RANDOM else 1


def round_of(part: Sequence[int], mine: int, validation: Validation) -> TrainingRound:
    """The round that judges part ``mine``: learned from are all other parts, or, by `Validation.LATER`, earlier ones.

    - ``part`` (D,): part of each document, from `parts_of`.
    """
    test = [i for i, own in enumerate(part) if own == mine]
    training = [i for i, own in enumerate(part) if own < mine or (own > mine and validation is Validation.RANDOM)]
    return TrainingRound(training, test)


def rounds(documents: Sequence[Document], folds: int, validation: Validation) -> Iterator[TrainingRound]:
    """The rounds of a cross-validation.

    - `Validation.RANDOM`: each fold is judged by a model of all others.
    - `Validation.LATER`: documents are cut into ``folds`` parts in their own order. Each of the later half of the parts
      (of five: the last three) is judged by a model of all parts before it.

    Raises `TrainingError` for fewer documents than folds.
    """
    part = parts_of(documents, folds, validation)
    for mine in range(first_judged(folds, validation), folds):
        yield round_of(part, mine, validation)


def counts_by_rounds(
    documents: Sequence[Document],
    folds: int,
    validation: Validation,
    judge: Callable[[list[Document], list[Document]], Counts],
) -> Counts:
    """(D, …) counts of each judged document, in the documents' order.

    - ``judge``: learns from the documents of a round, and gives the counts of those that it judges.

    Raises the errors of `rounds` and of ``judge``.
    """
    counts: dict[int, Counts] = {}
    for learned, judged in rounds(documents, folds, validation):
        answers = judge([documents[i] for i in learned], [documents[i] for i in judged])
        counts |= zip(judged, answers, strict=True)
    return np.stack([counts[i] for i in sorted(counts)])


def _in_order(documents: Sequence[Document], parts: int) -> list[int]:
    _check_enough(documents, parts)
    return [i * parts // len(documents) for i in range(len(documents))]


def _check_enough(documents: Sequence[Document], folds: int) -> None:
    if len(documents) < folds:
        raise TrainingError(f"{len(documents)} documents are too few for {folds} folds; give more")
