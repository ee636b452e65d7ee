"""Reviews of runs: a part is read, and what may be promised of the rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from os import PathLike, fspath
from pathlib import Path
from typing import Literal, Self

from concord.flows.commands.reviewing import Review, ReviewError, open_review, reader_name
from concord.flows.inputs.in_python import speaks_python
from concord.schemas.blocks import AnyBlock, Headline
from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.review import ItemKind, ReadAnswer, ReadVerdict, ReviewPromise, ReviewQuestion
from concord.schemas.shown import blocks_html

_VERDICTS = (ReadVerdict.RIGHT, ReadVerdict.WRONG, ReadVerdict.SKIPPED)


class RunReview:
    """A review of a run that is open: what is asked next, the answers, and what they promise.

    Where a notebook shows it, it shows what can be promised by now, and the next question. Nobody else can answer in
    its folder until it is closed; it closes itself at the end of a ``with``, or when it is no longer used.

    >>> review = concord.review("proven", out="review", error=0.2)
    >>> review.line
    '0 read; promised at 20 %: nothing yet; at least 15 more for the next step'
    >>> review.question.type in ("PER", "LOC", "ORG", "MISC")
    True
    >>> while not review.promise().promised:
    ...     _ = review.answer("right")
    >>> review.promise().read
    15
    >>> review.close()
    """

    def __init__(self, review: Review, close: Callable[[], None], reader: str) -> None:
        self._review, self._close, self._reader = review, close, reader
        self._place = review.place

    @property
    def question(self) -> ReviewQuestion | None:
        """What is asked next; None where no further promise is possible."""
        return None if self._place is None else self._review.question(self._place)

    @property
    def line(self) -> str:
        """What can be promised by now, and how many more answers the next step needs."""
        return self._review.line

    @property
    def types(self) -> list[str]:
        """Types of the entities of the run, sorted."""
        return self._review.types

    def answer(
        self,
        verdict: Literal["right", "wrong", "skipped"],
        right_type: str | None = None,
        *,
        no_entity: bool = False,
        reason: str = "",
    ) -> Self:
        """Answers the question, and goes on to the next one; the answer is on the disk then.

        - ``verdict``: what is skipped counts as wrong until it is answered
        - ``right_type``: with "wrong": the type that the entity has in truth
        - ``no_entity``: with "wrong": is none of its tokens part of an entity?
        - ``reason``: in words, for who reads the corrections

        Raises `InputError` where nothing is asked, and `ValueError` for an answer that contradicts itself.
        """
        if self._place is None:
            raise ReviewError(f"{self._review.folder}: nothing is asked any more ({self.line})")
        thing = self._review.things[self._place]
        if verdict not in _VERDICTS:
            raise UsageError(unknown("verdict", verdict, _VERDICTS))
        judgement = ReadVerdict(verdict)
        if (right_type is not None or no_entity) and (judgement is not ReadVerdict.WRONG or thing.type is None):
            raise UsageError("right_type and no_entity are for entities that are wrong; leave them out")
        if right_type is not None and no_entity:
            raise UsageError("right_type and no_entity exclude each other; give one")
        if right_type is not None and right_type not in self.types:
            raise UsageError(unknown("type", right_type, self.types))
        truth = {"right_type": right_type, "no_entity": no_entity, "reason": reason}
        truth["again"] = self._place == self._review.repeat
        self._review.add(ReadAnswer(**thing._asdict(), verdict=judgement, **truth, by=self._reader))
        self._place = self._review.place
        return self

    def undo(self) -> Self:
        """Takes the last answer back, and asks once more. Without an answer nothing happens."""
        place = self._review.undo()
        self._place = self._review.place if place is None else place
        return self

    def promise(self) -> ReviewPromise:
        """What is promised by now; it is written to the folder, with the list of what it is about and corrections."""
        return self._review.write()

    def close(self) -> None:
        """Lets others answer in the folder."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _blocks(self) -> list[AnyBlock]:
        question = self.question
        return [Headline(self.line), *(() if question is None else question.blocks())]

    def __repr__(self) -> str:
        question = self.question
        return self.line if question is None else f"{self.line}\n\n{question!r}"

    def _repr_html_(self) -> str:
        return blocks_html(self._blocks())


@speaks_python
def review(
    run: str | PathLike[str],
    *,
    out: str | PathLike[str],
    error: float | None = None,
    certainty: float | None = None,
    unit: ItemKind | None = None,
    whole: float | None = None,
    seed: int | None = None,
    fit_run: str | PathLike[str] | None = None,
    fit_corpus: str | PathLike[str] | None = None,
    reader: str | None = None,
) -> RunReview:
    """Opens the review of a run: a part of it is read, and a promise of the rest holds. The same call goes on with it.

    - ``run``: folder of the run, made with ``confidence="marginal"``
    - ``out``: folder of the review, beside the run
    - ``error``: share of wrong ones that is not to be exceeded; the default is 0.05
    - ``certainty``: probability with which a promise holds; the default is 0.95
    - ``unit``: what is read and promised: "entity" (the default), "document", or "sentence" (those without an entity)
    - ``whole``: share of the run, the least sure, that is read and mended first, so that the whole is promised
    - ``seed``: seed of the draw
    - ``fit_run``, ``fit_corpus``: a run over labelled documents and its corpus, to which predicted errors are fitted
    - ``reader``: name of who answers; the default is the name of the user

    What is left out is that of the review, if it has begun. Raises `InputError`.

    >>> with concord.review("proven", out="review-of-documents", unit="document", error=0.4) as review:
    ...     review.answer("wrong").line
    '1 read; promised at 40 %: nothing yet; at least 7 more for the next step'
    """
    from concord.flows.commands.review_fit import LabelledRun

    places = [None if place is None else fspath(place) for place in (fit_run, fit_corpus)]
    labelled = LabelledRun.of(*places)
    fields = {"error": error, "certainty": certainty, "by": unit, "whole": whole, "seed": seed}
    options = {name: value for name, value in fields.items() if value is not None}
    with ExitStack() as stack:
        opening = stack.enter_context(open_review(fspath(run), Path(out), options, labelled=labelled))
        return RunReview(opening, stack.pop_all().close, reader_name() if reader is None else reader)
