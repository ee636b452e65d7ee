"""Documents of a run as writers of other forms get them: text, tokens, answers, and what the constraints changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class Change(StrEnum):
    """How a span of the answer differs from what the model alone would have said."""

    KEPT = "kept"
    """The model alone has it, too."""
    RETYPED = "retyped"
    """The model alone has it with another type."""
    ADDED = "added"
    """The model alone has no span there."""
    REMOVED = "removed"
    """The model alone has it, and the answer does not."""


class ExportedSpan(NamedTuple):
    """A span of tokens ``start`` to ``end`` and of characters ``first`` to ``last`` (both exclusive).

    - ``change``, ``before``: what became of it, and the type that the model alone gives it; None where it has no such
      span.
    - ``score``: probability of an entity, if the run computed one.
    """

    start: int
    end: int
    first: int
    last: int
    type: str
    text: str
    change: Change = Change.KEPT
    before: str | None = None
    score: float | None = None


class Reason(NamedTuple):
    """A constraint that charges the answer less than what the model alone would have said, by ``nats``; a hard one by
    infinitely many."""

    constraint: str
    nats: float

    @property
    def line(self) -> str:
        """Constraint and nats, in words."""
        return f"{self.constraint} hard" if math.isinf(self.nats) else f"{self.constraint} {self.nats:.4g} nats"

    @property
    def finite(self) -> float | None:
        """The nats; None of a hard constraint, for forms that have no infinity."""
        return None if math.isinf(self.nats) else self.nats


class ExportedDocument(NamedTuple):
    """A document of a run with N tokens.

    - ``token_start``, ``token_end`` (N,): characters of each token in ``text``.
    - ``labels``, ``labels_before`` (N,): of the answer, and of the model alone.
    - ``spans``: those of the answer, in their order; ``removed``: those that only the model alone has.
    - ``reasons``: the constraints that changed something in the document, the largest first; none if nothing changed.
    - ``columns``: values of the corpus that are passed on, by column.
    """

    doc_id: str
    text: str
    tokens: Sequence[str]
    token_start: Sequence[int]
    token_end: Sequence[int]
    sentence_starts: Sequence[int]
    labels: Sequence[str]
    labels_before: Sequence[str]
    spans: Sequence[ExportedSpan]
    removed: Sequence[ExportedSpan]
    reasons: Sequence[Reason]
    columns: Mapping[str, Any]

    @property
    def why(self) -> str:
        """The reasons in a line: constraint and nats."""
        return ", ".join(reason.line for reason in self.reasons)

    def note(self, span: ExportedSpan) -> str:
        """What became of a span, and why, in a line; empty for one that was kept."""
        if span.change is Change.KEPT:
            return ""
        was = f" from {span.before}" if span.change is Change.RETYPED else ""
        return f"{span.change}{was}" + (f": {self.why}" if self.reasons else "")
