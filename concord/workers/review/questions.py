"""What a reader is shown of a thing: its sentence, those beside it, how sure the run is, and why it says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from concord.schemas.columns import (
    LABELS,
    MARGIN,
    PROBABILITY,
    SENTENCE_STARTS,
    VITERBI_CONSTRAINTS,
    VITERBI_LABELS,
)
from concord.schemas.document import TOKENS
from concord.schemas.review import ItemKind, ReviewQuestion
from concord.workers.report.answered import Charge, charges_of
from concord.workers.review.review_items import Context, ReviewItem, rivals, said_of

MOST_RIVALS = 3
"""Largest number of rivals that are shown."""
MOST_ALIKE = 3
"""Largest number of types that the same words have elsewhere in the document."""


def question_of(row: Mapping[str, Any], thing: ReviewItem, by: ItemKind, predicted: float) -> ReviewQuestion:
    """The question about a thing of a row of predictions; ``predicted`` is its error."""
    context, starts, words = Context.of(row, thing), row[SENTENCE_STARTS], row[TOKENS]
    begin = max((start for start in starts if start < context.first), default=context.first)
    end = next((start for start in starts if start > context.last), len(words))
    return ReviewQuestion(
        **thing._asdict(),
        before=tuple(words[begin : context.first]),
        tokens=tuple(context.tokens),
        after=tuple(words[context.last : end]),
        entities=tuple(context.entities),
        facts=tuple(_facts(row, thing, by, predicted)),
    )


def _facts(row: Mapping[str, Any], thing: ReviewItem, by: ItemKind, predicted: float) -> Iterator[str]:
    yield f"{thing.doc_id}, tokens {thing.start} to {thing.end}"
    if thing.type is None:
        yield "a sentence without an entity" if by == "sentence" else "a whole document"
        return
    number = next(n for n, one in enumerate(row["entities"]) if one["start"] == thing.start)
    probability, margin = (row[name][number] if row.get(name) else None for name in (PROBABILITY, MARGIN))
    if probability is not None:
        yield f"probability {probability:.3f}"
    if margin is not None:
        yield f"margin {margin:.2f} nats"
    others = rivals(row, thing)[:MOST_RIVALS]
    if others:
        yield "else " + ", ".join(f"{name} ({nats:.2f} nats worse)" for name, nats in others)
    is_unscored = row.get(PROBABILITY) and probability is None
    yield "no score" if is_unscored else f"predicted error {predicted:.1%}"
    yield from _reasons(row, thing)


def _reasons(row: Mapping[str, Any], thing: ReviewItem) -> Iterator[str]:
    """The types of the same words elsewhere, and what changed the answer of the model alone."""
    alike = _alike(row, thing).most_common(MOST_ALIKE)
    if alike:
        yield "the same words elsewhere: " + ", ".join(f"{count} × {kind}" for kind, count in alike)
    alone = said_of(row, row.get(VITERBI_LABELS) or row[LABELS], thing)
    if alone == thing.type:
        return
    charges = [one for one in charges_of(row["constraints"], row.get(VITERBI_CONSTRAINTS)) if one.after < one.before]
    yield "; ".join([f"the model alone: {alone}", *map(_in_words, charges)])


def _in_words(charge: Charge) -> str:
    if not np.isfinite(charge.before):
        return f"{charge.name} forbids that"
    return f"{charge.name} would charge the document {charge.before:.2f} nats, not {charge.after:.2f}"


def _alike(row: Mapping[str, Any], thing: ReviewItem) -> Counter[str]:
    words = row[TOKENS][thing.start : thing.end]
    return Counter(
        one["type"]
        for one in row["entities"]
        if one["start"] != thing.start and row[TOKENS][one["start"] : one["end"]] == words
    )
