"""Tasks of a review and their answers, whatever tool they go through."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from concord.schemas.review import ReadVerdict, ReviewMethod

MarkedSpan = tuple[int, int, str]
"""Start and end in characters (end exclusive), and type."""


class ReviewTask(NamedTuple):
    """A task.

    - ``task``: its id, unique in the review
    - ``doc_id``, ``start``, ``end``, ``type``: what it asks about, see `workers.review.review_items.ReviewItem`
    - ``tokens``: words of its text, which has blanks between them
    - ``spans``: entities that it shows, as first and last token (exclusive) of these, and type
    - ``score``: how likely it is right; None where nothing says that
    - ``before``, ``after``: words of the sentences beside its text
    - ``facts``: how sure the run is of it, and why, in words
    """

    task: str
    doc_id: str
    start: int
    end: int
    type: str | None
    tokens: Sequence[str]
    spans: Sequence[MarkedSpan]
    score: float | None
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    facts: Sequence[str] = ()

    @property
    def text(self) -> str:
        """The text."""
        return " ".join(self.tokens)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Characters of each word, end exclusive."""
        ends = list(accumulate((len(token) + 1 for token in self.tokens), initial=0))
        return [(start, start + len(token)) for start, token in zip(ends, self.tokens, strict=False)]

    @property
    def marked(self) -> list[MarkedSpan]:
        """The spans in characters."""
        places = self.offsets
        return [(places[start][0], places[end - 1][1], kind) for start, end, kind in self.spans]


class TaskAnswer(NamedTuple):
    """An answer to a task.

    - ``spans``: what is in the text in truth, in characters; None where only ``verdict`` is said
    - ``verdict``: what was said outright; None where the spans say it
    - ``right_type``: with a verdict "wrong": the type that the entity has in truth
    - ``no_entity``: was it said that none of its tokens is part of an entity?
    - ``run``: digest of the run that was read; None where the answer does not say it
    """

    task: str
    spans: frozenset[MarkedSpan] | None
    verdict: ReadVerdict | None = None
    right_type: str | None = None
    no_entity: bool = False
    by: str = ""
    run: str | None = None


class TaskList(NamedTuple):
    """Tasks that are handed out together.

    - ``tasks``: these, in the order in which they are to be read
    - ``method``: the review
    - ``name``: name of its run
    - ``types``: types of entities, sorted
    - ``line``: what can be promised by now
    - ``next_step``: the command that takes the answers
    """

    tasks: Sequence[ReviewTask]
    method: ReviewMethod
    name: str
    types: Sequence[str]
    line: str
    next_step: str
