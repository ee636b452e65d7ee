"""Answers of `concord label`, and of the same function in Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from concord.schemas.audit import Explanation
from concord.schemas.blocks import AnyBlock, Headline, Passage, Remark, Table, Tone, figure_columns, row, text_columns
from concord.schemas.decoded import MarginStatus
from concord.schemas.shown import Report, broken_lines, marked_text, marked_tokens, proven


class LabelledEntity(Report):
    """A span of one type.

    - ``start``, ``end``: its tokens, end exclusive.
    - ``char_start``, ``char_end``: its characters in the text, end exclusive; None for a document given in tokens.
    - ``text``: its text; of a document given in tokens, these with blanks between them.
    - ``probability``, ``margin``, ``margin_status``: see `schemas.decoded.Confidence`; None if not asked for.
    """

    type: str
    start: int
    end: int
    char_start: int | None
    char_end: int | None
    text: str
    probability: float | None = None
    margin: float | None = None
    margin_status: str | None = None

    @property
    def confidence(self) -> tuple[str, str]:
        """Probability and margin for a table; a margin that is a lower bound says so."""
        probability = "–" if self.probability is None else f"{self.probability:.4f}"
        if self.margin is None:
            return probability, "–"
        least = "≥ " if self.margin_status == MarginStatus.BOUND else ""
        return probability, f"{least}{self.margin:.3f}"


class RankedLabels(Report):
    """One of the best labellings of a text, see `schemas.decoded.Ranking`.

    - ``score``: nats.
    - ``gap``: nats below the first.
    - ``proven``: is its rank proven?
    - ``labels``: one for each token.
    """

    score: float
    gap: float
    proven: bool
    labels: tuple[str, ...]


class ConstraintPenalty(Report):
    """Degree to which an answer breaks a constraint, and its penalty in nats."""

    name: str
    degree: float
    penalty: float


class LabelledText(Report):
    """A text with its labels: ``concord label --json`` prints one such object for each document. Scores are in nats.

    There are two labellings: the answer under the constraints, and that of the model alone (fields ``viterbi_``).

    - ``sentence_starts``: first token of each sentence.
    - ``labels``, ``viterbi_labels``: one for each token.
    - ``viterbi_local``, ``viterbi_penalty``: local score of the model's own labelling, and its penalty.
    - ``local``, ``penalty``, ``score``: local score and penalty of the answer, and their difference.
    - ``bound``, ``gap``: upper bound of the score of any labelling, and its distance from ``score``.
    - ``n_best``, ``n_best_bound``: the best labellings, best first, and an upper bound for all others, if asked for.
    - ``explanation``: effects of the constraints, if asked for.
    """

    doc_id: str
    text: str | None
    tokens: tuple[str, ...]
    sentence_starts: tuple[int, ...]
    labels: tuple[str, ...]
    viterbi_labels: tuple[str, ...]
    entities: tuple[LabelledEntity, ...]
    viterbi_entities: tuple[LabelledEntity, ...]
    viterbi_local: float
    viterbi_penalty: float
    score: float
    local: float
    penalty: float
    bound: float
    gap: float
    status: str
    constraints: tuple[ConstraintPenalty, ...]
    n_best: tuple[RankedLabels, ...] = ()
    n_best_bound: float | None = None
    explanation: Explanation | None = None

    @property
    def subject(self) -> str:
        """The document."""
        return self.doc_id

    def __repr__(self) -> str:
        lines = [proven(self.status, self.gap), *broken_lines(map(dict, self.constraints))]
        return "\n".join([marked_text(*self._marked(self.entities)), *lines])

    __str__ = __repr__

    def blocks(self) -> Iterator[AnyBlock]:
        """The text with its entities, what the model alone would say, confidence, other labellings and effects."""
        yield self._passage(self.entities)
        if self.viterbi_labels != self.labels:
            yield self._passage(self.viterbi_entities, lead="the model alone: ")
            yield Remark(self._apart, Tone.QUIET)
        if any(entity.probability is not None for entity in self.entities):
            rows = (row(entity.text, entity.type, *entity.confidence) for entity in self.entities)
            yield Table(figure_columns("entity", "type", "probability", "margin,\nnats"), tuple(rows))
        if self.n_best_bound is not None:
            yield self._ranking()
            yield Remark(self._others(self.n_best_bound))
        if self.explanation is not None:
            yield self.explanation.effect_table()
            yield Remark(self.explanation.sentence)
        yield from map(Remark, broken_lines(map(dict, self.constraints)))
        yield Headline(
            f"{self.doc_id}: {len(self.entities):,} entities in {len(self.tokens):,} tokens; {self.status}, "
            f"score {self.score:,.4f} nats, bound {self.bound:,.4f}, gap {self.gap:.2g}"
        )

    def _passage(self, entities: Sequence[LabelledEntity], *, lead: str = "") -> Passage:
        text, marks = self._marked(entities)
        return Passage(text, tuple(marks), lead)

    def _marked(self, entities: Sequence[LabelledEntity]) -> tuple[str, list[dict[str, Any]]]:
        """The text and its entities by characters. Without a text: the tokens with blanks between them."""
        marks = [entity.model_dump() for entity in entities]
        return marked_tokens(self.tokens, marks) if self.text is None else (self.text, marks)

    @property
    def _apart(self) -> str:
        return (
            f"better by {self.viterbi_local - self.local:.4f} nats under the model, where constraints charge it "
            f"{self.viterbi_penalty:.4f} and the answer {self.penalty:.4f}"
        )

    def _ranking(self) -> Table:
        """A line for each of the best labellings: nats below the first, is its rank proven?, and tokens that differ."""
        rows = (
            row(
                *(f"{rank}", f"{one.gap:.4f}", "yes" if one.proven else "no"),
                "; ".join(_differences(self.tokens, self.n_best[0].labels, one.labels)),
            )
            for rank, one in enumerate(self.n_best, start=1)
        )
        return Table(text_columns("rank", "nats below", "proven", "what differs from the first"), tuple(rows))

    def _others(self, bound: float) -> str:
        """What is known of all labellings that are not listed; ``bound`` in nats."""
        certain = sum(one.proven for one in self.n_best)
        if bound == -math.inf:
            return f"{certain:,} labellings listed, which are all that break nothing hard"
        return (
            f"{certain:,} of {len(self.n_best):,} labellings proven to have their rank; "
            f"no other scores more than {bound:,.4f} nats"
        )


def _differences(tokens: Sequence[str], first: Sequence[str], other: Sequence[str]) -> list[str]:
    """Runs of tokens that have other labels, each with both."""
    lines = []
    for same, run in groupby(range(len(tokens)), key=lambda t: first[t] == other[t]):
        places = list(run)
        if not same:
            words, before, after = (" ".join(row[t] for t in places) for row in (tokens, first, other))
            lines.append(f"{words}: {before} → {after}")
    return lines
