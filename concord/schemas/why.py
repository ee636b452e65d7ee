"""Why an answer has an entity, or has none: what `concord why` answers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, Tone, figure_columns, row, text_columns
from concord.schemas.decoded import MarginStatus
from concord.schemas.shown import Report

NO_ENTITY = "no entity"
MOST_MENTIONS = 12
"""Mentions that a terminal shows of a span; the report has all."""


class RivalType(Report):
    """The best labelling in which a span is something else.

    - ``type``: what the span is there; None for no entity at any of its tokens
    - ``nats``: how much less that labelling scores than the answer
    - ``proven``: is there no better labelling of that kind?
    """

    type: str | None
    nats: float
    proven: bool


class SpanOfAnswer(Report):
    """Tokens ``start`` to ``end`` (exclusive), their text, and the type of exactly this span in the answer, or None."""

    start: int
    end: int
    text: str
    type: str | None


class OtherSpan(SpanOfAnswer):
    """A span that is ``other`` in the labelling that sets a margin; None for no entity."""

    other: str | None


class ConstraintPull(Report):
    """What a constraint charges the nearest rival more than the answer, in nats; less than 0: it speaks against it."""

    name: str
    nats: float


class MentionPull(Report):
    """Another place with the same words.

    - ``start``, ``end``: its tokens
    - ``context``: its words, with some around them
    - ``type``, ``viterbi_type``: what it is part of in the answer, and under the model alone; None for no entity
    - ``nats``: what label consistency with this place charges the rival's type at the span more than the answer's
    """

    start: int
    end: int
    context: str
    type: str | None
    viterbi_type: str | None
    nats: float


class PastAnswer(Report):
    """What the span was in an earlier version of the folder's table.

    - ``type``: type of exactly this span; None for none
    - ``same_text``: had the document the same tokens?
    """

    version: int
    type: str | None
    model_digest: str
    same_text: bool

    @property
    def sentence(self) -> str:
        """What the span was."""
        return self.type or NO_ENTITY if self.same_text else "another text"


class SpanReason(SpanOfAnswer):
    """Why a span is labelled as it is.

    - ``viterbi_type``: type of exactly this span under the model alone; None for none
    - ``margin``, ``margin_status``: nats by which the best labelling without this entity (with it, where the answer has
      none) is worse, and what is proven of that
    - ``nearest``: spans by which the labelling that sets the margin differs from the answer, anywhere in the document;
      where the margin is a lower bound, those of the best labelling found
    - ``rivals``: other types of the span, nearest first
    - ``local``: local score by which the answer is above the nearest rival, in nats; the model alone speaks for it
    - ``constraints``: the same of each constraint; all of them and ``local`` add up to the rival's ``nats``
    - ``mentions``: other places with the same words
    - ``past``: versions of the folder's table in which the answer became another one, oldest first
    """

    viterbi_type: str | None
    margin: float
    margin_status: str
    nearest: tuple[OtherSpan, ...]
    rivals: tuple[RivalType, ...]
    local: float
    constraints: tuple[ConstraintPull, ...]
    mentions: tuple[MentionPull, ...]
    past: tuple[PastAnswer, ...] = ()

    @property
    def sentence(self) -> str:
        """What the span is, what it was under the model alone, and by how much it is ahead."""
        kind, before = self.type or NO_ENTITY, self.viterbi_type or NO_ENTITY
        changed = "as under the model alone" if kind == before else f"{before} under the model alone"
        least = "at least " if self.margin_status == MarginStatus.BOUND else ""
        margin = "nothing else is possible" if math.isinf(self.margin) else f"margin {least}{self.margin:.3f} nats"
        return f"{self.text} ({self.start}:{self.end}): {kind}, {changed}; {margin}"

    def lines(self) -> Iterator[Remark | Table]:
        """The span, its rivals, who speaks for and against it, and the other mentions."""
        yield Remark(self.sentence, Tone.STRONG)
        if self.nearest:
            yield Table(
                text_columns("the margin's labelling differs at", "is", "there"),
                tuple(
                    row(f"{one.text} ({one.start}:{one.end})", one.type or NO_ENTITY, one.other or NO_ENTITY)
                    for one in self.nearest
                ),
            )
        if not self.rivals:
            return
        rivals = (row(one.type or NO_ENTITY, f"{'' if one.proven else '≥ '}{one.nats:,.3f}") for one in self.rivals)
        yield Table(figure_columns("rival", "nats behind"), tuple(rivals))
        nearest = self.rivals[0].type or NO_ENTITY
        pulls = [row("the model alone", f"{self.local:+,.3f}")]
        pulls += [row(one.name, f"{one.nats:+,.3f}") for one in self.constraints if one.nats]
        yield Table(figure_columns(f"for {self.type or NO_ENTITY}, against {nearest}", "nats"), tuple(pulls))
        if self.mentions:
            yield Table(
                (*text_columns("same words", "is", "model alone"), *figure_columns("", "pulls,\nif it stays")[1:]),
                tuple(
                    row(one.context, one.type or "–", one.viterbi_type or "–", f"{one.nats:+,.3f}")
                    for one in self.mentions[:MOST_MENTIONS]
                ),
            )
        if len(self.mentions) > MOST_MENTIONS:
            yield Remark(f"{len(self.mentions) - MOST_MENTIONS:,} more places with the same words (--json)", Tone.QUIET)
        if self.past:
            yield Table(
                text_columns("from version", "was", "model"),
                tuple(row(f"{one.version}", one.sentence, one.model_digest[:12]) for one in self.past),
            )


class WhyReport(Report):
    """Why a document of a run is labelled as it is.

    - ``spans``: the reasons, of the spans that were asked for, or of the entities that the constraints changed
    - ``model_digest``, ``constraint_digest``: what answered
    - ``corrections``: number of corrections that the answer keeps
    """

    out: str
    doc_id: str
    status: str
    gap: float
    spans: tuple[SpanReason, ...]
    model: str
    model_digest: str
    constraint_digest: str
    corrections: int

    def blocks(self) -> Iterator[AnyBlock]:
        """Each span, and what answered."""
        for span in self.spans:
            yield from span.lines()
        if not self.spans:
            yield Remark("the constraints changed no entity of this document; --span A:B asks about any tokens")
        beside = f"; it keeps {self.corrections} corrections" if self.corrections else ""
        digests = f"model {self.model} {self.model_digest[:12]}, constraints {self.constraint_digest[:12]}"
        yield Remark(digests + beside, Tone.QUIET)
        yield Headline(
            f"{self.doc_id}: {self.status}, gap {self.gap:.2g} nats; {len(self.spans)} of its spans explained"
        )
