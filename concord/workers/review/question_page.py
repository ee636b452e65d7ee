"""Tasks of a review as a page for a browser, which gives the answers back as a file.

The page is one file as that of a run is, needs no network and keeps nothing: who reads downloads the answers, a JSON
object with the digest of the run (``run``), the reader (``by``), and ``answers``, a list with ``task``, ``verdict``,
``right_type`` and ``no_entity``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from concord.schemas.blocks import Remark
from concord.schemas.review import WRONG_WORDS, ReadVerdict, ReviewMethod, things
from concord.schemas.visible import visible
from concord.workers.report.page import LivePart, PageTitle, page
from concord.workers.report.sections import PageSection
from concord.workers.review.tasks import ReviewTask, TaskAnswer, TaskList

ANSWERS_FILE = "answers.json"
"""Name under which the answers are downloaded."""

RIGHT_MEANS = {
    "entity": "these words, neither more nor fewer, and this type",
    "document": "every entity is there, with its words and its type, and no other one",
    "sentence": "there is no entity in it",
}
"""When a thing is right."""


def question_page(listed: TaskList) -> str:
    """The page of these tasks, one after the other in their order."""
    by = listed.method.request.by
    head = PageTitle(f"Review of {listed.name}", f"{len(listed.tasks):,} {things(by)} to read. {_aim(listed.method)}")
    content = {
        "run": listed.method.run,
        "file": ANSWERS_FILE,
        "types": listed.types,
        "typed": by == "entity",
        "questions": [_question(task) for task in listed.tasks],
    }
    part = LivePart("review", content, {"right_means": RIGHT_MEANS[by]})
    return page(head, [_afterwards(listed)], part).decode()


def _aim(method: ReviewMethod) -> str:
    request = method.request
    limit, sure = f"at most {100 * request.error:g} % of them", f"{100 * request.certainty:g} % sure"
    return (
        f"The answers decide of how many of all {method.size:,} {things(request.by)} it can be promised, {sure}, that "
        f"{limit} {WRONG_WORDS[request.by]}."
    )


def _question(task: ReviewTask) -> dict[str, Any]:
    before, words, after = ([visible(word) for word in some] for some in (task.before, task.tokens, task.after))
    return {
        "task": task.task,
        "type": task.type,
        "before": before,
        "words": words,
        "spans": task.spans,
        "after": after,
        "facts": [visible(fact) for fact in task.facts],
    }


def _afterwards(listed: TaskList) -> PageSection:
    lead = "Whoever made this page gives the file of answers to concord, which says what may be promised by now:"
    return PageSection(
        "What happens with the answers", lead, (Remark(listed.next_step), Remark(f"So far: {listed.line}."))
    )


def read_page_answers(data: str) -> Iterator[TaskAnswer]:
    """The answers in a file that such a page gives back. Raises `KeyError`, `TypeError`, `ValueError` for others."""
    file = json.loads(data)
    for one in file["answers"]:
        verdict = ReadVerdict(one["verdict"])
        yield TaskAnswer(
            one["task"], None, verdict, one["right_type"], no_entity=one["no_entity"], by=file["by"], run=file["run"]
        )
