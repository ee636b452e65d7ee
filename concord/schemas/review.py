"""A review of a run: how it is made, its answers, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from concord.schemas.blocks import AnyBlock, Headline, Passage, Remark, Tone
from concord.schemas.settings import Settings
from concord.schemas.shown import Report, marked_text, marked_tokens

ItemKind = Literal["entity", "document", "sentence"]
"""What is read one by one: entities, whole documents, or sentences without an entity."""


class ReadVerdict(StrEnum):
    """What somebody said of a thing that was read."""

    RIGHT = "right"
    WRONG = "wrong"
    SKIPPED = "skipped"
    """Put off; it counts as wrong until it is answered."""
    UNREAD = "unread"
    """An answer that was taken back."""


Share = Annotated[float, Field(ge=0, lt=1)]


class ReviewRequest(Settings):
    """How a review is made; it is settled before the first answer.

    - ``error``: share of wrong ones that is promised not to be exceeded
    - ``certainty``: probability with which a promise holds, at least
    - ``by``: what is read
    - ``whole``: share of the run, the least sure, that is read whole, so that the rest may be promised with it; null
      for nested sets of sure ones
    - ``seed``: seed of the draw
    """

    error: Share = 0.05
    certainty: Annotated[float, Field(gt=0, lt=1)] = 0.95
    by: ItemKind = "entity"
    whole: Share | None = None
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def alpha(self) -> float:
        """Probability with which a promise is false, at most."""
        return round(1 - self.certainty, 12)


class ReviewMethod(Report):
    """The method of a review, and what it is a review of.

    - ``order``: what errors are predicted by
    - ``fit``: intercept and slope of the logistic fit to labelled documents; null without one
    - ``run``, ``model``, ``corpus``: digests of the run's manifest, of its model, and of its corpus
    - ``things``: digest of the list of what can be read
    - ``size``: its length
    - ``night``: last night of the run's record when the review began; 0 without a record
    """

    format: Literal[1] = 1
    request: ReviewRequest
    order: str
    fit: tuple[float, float] | None = None
    run: str
    model: str
    corpus: str
    things: str
    size: int
    night: int = 0


NONE_THERE = "none"
"""What is written in the place of a type where there is no entity, if no type is called so."""


class ReviewPlace(Report):
    """Where something is that is read.

    - ``doc_id``, ``start``, ``end``: its place; in tokens, end exclusive
    - ``type``: type of the entity; null for a document or sentence
    """

    doc_id: str
    start: int
    end: int
    type: str | None = None


class ReadAnswer(ReviewPlace):
    """What somebody said of one thing.

    - ``right_type``: the type that it has in truth; null where it is no entity, or where that was not said
    - ``no_entity``: was it said that none of its tokens is part of an entity?
    - ``by``: who said it
    - ``reason``: in words, where there are any
    - ``again``: is it the answer to a repeated question, which is no new evidence?
    """

    verdict: ReadVerdict
    right_type: str | None = None
    no_entity: bool = False
    by: str = ""
    reason: str = ""
    again: bool = False

    @property
    def place(self) -> tuple[str, int, int]:
        """Where it is."""
        return self.doc_id, self.start, self.end


SLIPS, DOUBT = 0.02, 0.05
"""Share of repeated questions that a careful reader, who slips once in a hundred answers, answers otherwise; and the
probability below which more of them are no chance."""


class ReaderConsistency(NamedTuple):
    """Questions that were asked again and judged both times, and those of them that were answered otherwise."""

    repeated: int
    otherwise: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(cls, answers: Iterable[ReadAnswer], repeats: Iterable[ReadAnswer]) -> ReaderConsistency:
        """By the answers and those to repeated questions."""
        first = {answer.place: answer.verdict for answer in answers}
        pairs = [(again.place, first.get(again.place), again.verdict) for again in repeats]
        judged = [pair for pair in pairs if {pair[1], pair[2]} <= {ReadVerdict.RIGHT, ReadVerdict.WRONG}]
        return cls(len(judged), tuple(place for place, before, now in judged if before != now))

    @property
    def is_doubtful(self) -> bool:
        """Are more answers other ones than slips of one in a hundred explain?"""
        chances = (
            math.comb(self.repeated, k) * SLIPS**k * (1 - SLIPS) ** (self.repeated - k)
            for k in range(len(self.otherwise), self.repeated + 1)
        )
        return sum(chances) < DOUBT

    @property
    def line(self) -> str:
        """How many, and where."""
        places = ", ".join(f"{doc_id} {start}-{end}" for doc_id, start, end in self.otherwise[:3])
        counts = f"{len(self.otherwise):,} of {self.repeated:,} repeated questions were answered otherwise"
        return f"{counts}: {places}{', …' if len(self.otherwise) > 3 else ''}" if places else counts


class ReviewPromise(Report):
    """What a review promises of a run, with all that it follows from.

    - ``method``, ``answers``: the review
    - ``promised``: how many things the promise is about, the surest first; 0 for no promise
    - ``read``, ``wrong``: how many were read, and how many of them are wrong or were skipped
    - ``listed``: file of the things that are promised; null without a promise
    - ``repeats``: answers to questions that were asked again
    - ``folder``: folder of the review
    """

    method: ReviewMethod
    answers: tuple[ReadAnswer, ...]
    promised: int
    read: int
    wrong: int
    listed: str | None = None
    repeats: tuple[ReadAnswer, ...] = ()
    folder: str = Field("", exclude=True)

    def blocks(self) -> Iterator[AnyBlock]:
        """The promise in a sentence, and how it came about."""
        yield Headline(self.sentence)
        yield Remark(f"read: {self.read:,}, of which {self.wrong:,} wrong or skipped")
        if self.consistency.repeated:
            yield Remark(self.consistency.line, Tone.WRONG if self.consistency.is_doubtful else Tone.QUIET)
        if self.listed is not None:
            yield Remark(f"the promised ones are listed in {self.listed}")
        if self.folder:
            yield Remark(f"review in {self.folder}")

    @property
    def consistency(self) -> ReaderConsistency:
        """How alike the answers to repeated questions are."""
        return ReaderConsistency.of(self.answers, self.repeats)

    @property
    def sentence(self) -> str:
        """What is promised, and on what condition where the reader's answers are doubtful."""
        doubtful = self.promised and self.consistency.is_doubtful
        return self._promise + (f", if the answers are right ({self.consistency.line})" if doubtful else "")

    @property
    def _promise(self) -> str:
        request, size = self.method.request, self.method.size
        if not self.promised:
            return f"nothing can be promised yet of {size:,} {things(request.by)}"
        limit, sure = f"at most {100 * request.error:g} %", f"{100 * request.certainty:g} % sure"
        wrong = WRONG_WORDS[request.by]
        if request.whole is not None:
            return f"{limit} of all {size:,} {things(request.by)} {wrong} once those that were read are mended, {sure}"
        return (
            f"{limit} of the {self.promised:,} surest of {size:,} {things(request.by)} "
            f"({self.promised / size:.1%}) {wrong}, {sure}"
        )


class PromiseCheck(Report):
    """Whether a promise is still one of this run.

    - ``fault``: why it is void; null where it holds
    """

    promise: str
    run: str
    sentence: str
    fault: str | None = None

    def blocks(self) -> Iterator[AnyBlock]:
        """The verdict, and the promise."""
        if self.fault is None:
            yield Headline(f"{self.promise} holds for {self.run}: {self.sentence}")
        else:
            yield Remark(self.sentence, Tone.QUIET)
            yield Headline(f"{self.promise} is void: {self.fault}")


class ReviewQuestion(ReviewPlace):
    """What a reader is shown of a thing.

    - ``before``, ``tokens``, ``after``: words of its sentence, and of those beside it
    - ``entities``: what is asked about, with type, start and end; places are those in ``tokens``
    - ``facts``: how sure the run is, and why it says so, in words
    """

    before: tuple[str, ...]
    tokens: tuple[str, ...]
    after: tuple[str, ...]
    entities: tuple[Mapping[str, Any], ...]
    facts: tuple[str, ...]

    def blocks(self) -> Iterator[AnyBlock]:
        """The sentence between those beside it, and the facts."""
        yield Headline(f"{self.doc_id}, tokens {self.start} to {self.end}")
        yield from self._beside(self.before)
        text, marked = marked_tokens(self.tokens, self.entities)
        yield Passage(text, tuple(marked))
        yield from self._beside(self.after)
        yield Remark(" · ".join(self.facts), Tone.QUIET)

    def _beside(self, words: tuple[str, ...]) -> Iterator[AnyBlock]:
        if words:
            yield Remark(" ".join(words), Tone.QUIET)

    def __repr__(self) -> str:
        lines = (" ".join(self.before), marked_text(*marked_tokens(self.tokens, self.entities)), " ".join(self.after))
        return "\n".join(filter(None, (*lines, " · ".join(self.facts))))

    __str__ = __repr__


class ReviewTasks(Report):
    """Tasks that were written for an annotation tool."""

    form: str
    tasks: int
    out: str

    def blocks(self) -> Iterator[AnyBlock]:
        """How many, and where."""
        yield Headline(f"{self.tasks:,} tasks in {self.out}; when they are answered: concord review answers")


WRONG_WORDS = {"entity": "are wrong", "document": "have an error", "sentence": "miss an entity"}
_THINGS = {"entity": "entities", "document": "documents", "sentence": "sentences without an entity"}


def things(by: ItemKind) -> str:
    """What is read, in words."""
    return _THINGS[by]
