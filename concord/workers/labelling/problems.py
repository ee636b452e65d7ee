"""The problem of each document of a batch, and an error of one document that leaves its neighbours alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from concord.schemas.document import Batch
from concord.schemas.errors import DocumentError
from concord.schemas.problem import Problem

SCORE_TOKENS = 100_000
"""Largest number of tokens scored at once, which bounds the memory of the unary table."""

ProblemsOf = Callable[[Batch], Iterator[Problem]]
"""Problems of all documents of a batch, in order. Raises `DocumentError` where one has none."""


def each_problem(batch: Batch, problems_of: ProblemsOf) -> Iterator[Problem | DocumentError]:
    """The problem of each document, in order, or why it has none.

    ``problems_of`` gets runs of whole documents of at most `SCORE_TOKENS` tokens (or one longer document).
    """
    for first, last in batch.runs(SCORE_TOKENS):
        yield from _halved(batch.part(first, last), problems_of)


def _halved(batch: Batch, problems_of: ProblemsOf) -> Iterator[Problem | DocumentError]:
    """Documents among which one has no problem are tried again in halves, so that each is judged by itself."""
    done = 0
    try:
        for problem in problems_of(batch):
            yield problem
            done += 1
        return
    except DocumentError as error:
        if len(batch) == 1:
            yield error
            return
    middle = (done + len(batch)) // 2
    for first, last in ((done, middle), (middle, len(batch))):
        if first < last:
            yield from _halved(batch.part(first, last), problems_of)
