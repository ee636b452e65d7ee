"""Tasks of a review for annotation tools, and their answers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from concord.flows.commands.reviewing import Review, ReviewError
from concord.flows.inputs.output_places import check_file_place
from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.review import NONE_THERE, ReadAnswer, ReadVerdict, ReviewTasks
from concord.schemas.secrets import place_of, short_name
from concord.workers.review.forms import FORMS, AnswerFileError, read_task_answers
from concord.workers.review.question_page import ANSWERS_FILE
from concord.workers.review.review_items import ReviewItem
from concord.workers.review.tasks import MarkedSpan, ReviewTask, TaskAnswer, TaskList
from concord.workers.storage.files import write_whole
from concord.workers.storage.storage import file_bytes


def check_task_form(form: str) -> None:
    """Raises `UsageError` for a form that tasks do not have."""
    if form not in FORMS:
        raise UsageError(unknown("form", form, FORMS))


def write_tasks(review: Review, form: str, file: Path, *, count: int) -> ReviewTasks:
    """Writes the next things to be read as tasks: those of the lowest score first, or as they are drawn.

    Where half of the tasks are answered those that were drawn first count at once; so a form that shows them one after
    the other has them in that order.

    Raises `ReviewError` where nothing is left to be read, and `OutputError`.
    """
    check_file_place(file, [review.run.uri], option="--tasks")
    waiting = review.waiting(count)
    if not waiting:
        raise ReviewError(f"{review.folder}: there is nothing left to be read ({review.line})")
    if not FORMS[form].in_order:
        waiting.sort(key=lambda number: -review.predicted[number])
    listed = TaskList(
        tasks=[_task(review, number) for number in waiting],
        method=review.method,
        name=short_name(review.run.uri),
        types=review.types,
        line=review.line,
        next_step=_answers_command(review, form),
    )
    write_whole(file.expanduser(), FORMS[form].write(listed).encode())
    return ReviewTasks(form=form, tasks=len(waiting), out=str(file))


def _answers_command(review: Review, form: str) -> str:
    words = ("--run", place_of(review.run.uri), "--out", str(review.folder), "--form", form)
    return shlex.join(["concord", "review", "answers", ANSWERS_FILE, *words])


def _task(review: Review, number: int) -> ReviewTask:
    thing = review.things[number]
    question = review.question(number)
    return ReviewTask(
        task_id(thing),
        *thing,
        tokens=question.tokens,
        spans=[(one["start"], one["end"], one["type"]) for one in question.entities],
        score=None if review.unscored[number] else 1.0 - float(review.predicted[number]),
        before=question.before,
        after=question.after,
        facts=question.facts,
    )


def task_id(thing: ReviewItem) -> str:
    """Id of a task: the document and the tokens."""
    return f"{thing.doc_id}:{thing.start}-{thing.end}"


def answers_in(file: Path, form: str) -> list[TaskAnswer]:
    """The answers in a file. Raises `AnswerFileError` for a file of another form, `OSError` where it is not there."""
    return read_task_answers(form, file_bytes(file), source=str(file))


def take_answers(review: Review, replies: Sequence[TaskAnswer], file: Path) -> int:
    """Adds the answers of a file to the review; how many. All of them are taken, or none.

    Raises `AnswerFileError` where there are none, and `ReviewError` for answers about other things, and where two
    people say different things of one.
    """
    places = {task_id(thing): number for number, thing in enumerate(review.things)}
    taken: dict[int, ReadAnswer] = {}
    for reply in replies:
        number = places.get(reply.task)
        if reply.run not in (None, review.method.run):
            raise ReviewError(f"{file}: has answers about another run; give them to the review that asked for them")
        if number is None:
            raise ReviewError(f"{file}: task {reply.task!r} is nothing of this run; give the answers to its own tasks")
        answer = _answer(review, number, reply)
        other = taken.setdefault(number, answer)
        if other != answer.model_copy(update={"by": other.by}):
            raise ReviewError(
                f"{file}: task {reply.task!r} is answered {other.verdict} and {answer.verdict}; agree on one"
            )
    if not taken:
        raise AnswerFileError(f"{file}: has no answers; answer some of the tasks, and export them again")
    for answer in taken.values():
        review.add(answer)
    return len(taken)


def _answer(review: Review, number: int, reply: TaskAnswer) -> ReadAnswer:
    thing = review.things[number]
    verdict, right_type = reply.verdict, reply.right_type
    no_entity = reply.no_entity or (right_type == NONE_THERE and NONE_THERE not in review.types)
    if reply.spans is not None:
        shown = _task(review, number).marked
        verdict, right_type = _judged(thing, shown, reply.spans)
        no_entity = verdict is ReadVerdict.WRONG and right_type is None and not _meets(shown, reply.spans)
    assert verdict is not None  # an answer has spans or a verdict
    right_type = None if no_entity else right_type
    return ReadAnswer(**thing._asdict(), verdict=verdict, right_type=right_type, no_entity=no_entity, by=reply.by)


def _meets(shown: list[MarkedSpan], spans: frozenset[MarkedSpan]) -> bool:
    """Does any of the spans share a character with those that were shown?"""
    return any(start < end_ and start_ < end for start, end, _ in spans for start_, end_, _ in shown)


def _judged(thing: ReviewItem, shown: list[MarkedSpan], spans: frozenset[MarkedSpan]) -> tuple[ReadVerdict, str | None]:
    """An entity is right where it was left as it was, whatever was added; a document or sentence where nothing was."""
    if thing.type is None:
        return (ReadVerdict.RIGHT if spans == set(shown) else ReadVerdict.WRONG), None
    if set(shown) <= spans:
        return ReadVerdict.RIGHT, None
    place = shown[0][:2]
    return ReadVerdict.WRONG, min((kind for start, end, kind in spans if (start, end) == place), default=None)
