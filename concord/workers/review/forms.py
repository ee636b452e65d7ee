"""Tasks for annotation tools and their answers: Label Studio, Argilla 2, Prodigy, and a CSV file.

A task is a text with the entities that it asks about, and a score. An answer is the entities that somebody left there.
Shapes: Label Studio's JSON of tasks with predictions and its JSON export; Argilla's records as `to_json` writes them,
with a question ``spans``; Prodigy's JSON lines of ``ner.manual``; and a table with a column ``verdict`` to fill in.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from concord.schemas.errors import InputError
from concord.schemas.review import ReadVerdict

AGENT = "concord"
QUESTION = "spans"
"""Name of the question of Argilla's records."""
CSV_COLUMNS = ("task", "doc_id", "start", "end", "type", "text", "context", "score", "verdict", "right_type")

MarkedSpan = tuple[int, int, str]
"""Start and end in characters (end exclusive), and type."""


class AnswerFileError(InputError):
    """A file of answers that cannot be read."""


class ReviewTask(NamedTuple):
    """A task.

    - ``task``: its id, unique in the review
    - ``doc_id``, ``start``, ``end``, ``type``: what it asks about, see `workers.review.things.Thing`
    - ``tokens``: words of its text, which has blanks between them
    - ``spans``: entities that it shows, as first and last token (exclusive) of these, and type
    - ``score``: how likely it is right
    """

    task: str
    doc_id: str
    start: int
    end: int
    type: str | None
    tokens: Sequence[str]
    spans: Sequence[MarkedSpan]
    score: float

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
    """

    task: str
    spans: frozenset[MarkedSpan] | None
    verdict: ReadVerdict | None = None
    right_type: str | None = None
    by: str = ""


def _label_studio_tasks(tasks: Iterable[ReviewTask]) -> str:
    return _pretty(
        {
            "data": {"text": task.text, "task": task.task, "doc_id": task.doc_id},
            "predictions": [
                {
                    "model_version": AGENT,
                    "score": task.score,
                    "result": [
                        {
                            "id": f"{task.task}/{number}",
                            "from_name": "label",
                            "to_name": "text",
                            "type": "labels",
                            "value": {"start": start, "end": end, "text": task.text[start:end], "labels": [kind]},
                        }
                        for number, (start, end, kind) in enumerate(task.marked)
                    ],
                }
            ],
        }
        for task in tasks
    )


def _label_studio_answers(data: str) -> Iterator[TaskAnswer]:
    for task in _objects(json.loads(data)):
        for one in task.get("annotations") or ():
            by = one.get("completed_by", "")
            who = str(by.get("email", by.get("id", "")) if isinstance(by, Mapping) else by)
            if one.get("was_cancelled"):
                yield TaskAnswer(task["data"]["task"], None, ReadVerdict.SKIPPED, by=who)
                continue
            values = [result["value"] for result in one["result"] if result["type"] == "labels"]
            spans = frozenset((v["start"], v["end"], label) for v in values for label in v["labels"])
            yield TaskAnswer(task["data"]["task"], spans, by=who)


def _argilla_tasks(tasks: Iterable[ReviewTask]) -> str:
    return _pretty(
        {
            "id": task.task,
            "fields": {"text": task.text},
            "metadata": {"doc_id": task.doc_id},
            "suggestions": {
                QUESTION: {
                    "value": [{"start": start, "end": end, "label": kind} for start, end, kind in task.marked],
                    "score": task.score,
                    "agent": AGENT,
                }
            },
            "responses": {},
            "vectors": {},
            "_server_id": None,
        }
        for task in tasks
    )


def _argilla_answers(data: str) -> Iterator[TaskAnswer]:
    for record in _objects(json.loads(data)):
        for one in record.get("responses", {}).get(QUESTION, ()):
            who = str(one.get("user_id") or "")
            if one["value"] is None:
                yield TaskAnswer(record["id"], None, ReadVerdict.SKIPPED, by=who)
            else:
                yield TaskAnswer(
                    record["id"], frozenset((v["start"], v["end"], v["label"]) for v in one["value"]), by=who
                )


def _prodigy_tasks(tasks: Iterable[ReviewTask]) -> str:
    return "".join(json.dumps(_prodigy_task(task), ensure_ascii=False) + "\n" for task in tasks)


def _prodigy_task(task: ReviewTask) -> dict[str, Any]:
    places = task.offsets
    last = len(places) - 1
    return {
        "text": task.text,
        "meta": {"task": task.task, "doc_id": task.doc_id, "score": task.score},
        "tokens": [
            {"text": word, "start": start, "end": end, "id": number, "ws": number < last}
            for number, (word, (start, end)) in enumerate(zip(task.tokens, places, strict=True))
        ],
        "spans": [
            {
                "start": places[first][0],
                "end": places[end - 1][1],
                "token_start": first,
                "token_end": end - 1,  # Prodigy's last token is inclusive
                "label": kind,
            }
            for first, end, kind in task.spans
        ],
    }


_PRODIGY = {"reject": ReadVerdict.WRONG, "ignore": ReadVerdict.SKIPPED}


def _prodigy_answers(data: str) -> Iterator[TaskAnswer]:
    for task in map(json.loads, filter(str.strip, data.splitlines())):
        if "answer" not in task:
            continue
        who = str(task.get("_annotator_id") or "")
        if task["answer"] == "accept":
            spans = frozenset((one["start"], one["end"], one["label"]) for one in task.get("spans") or ())
            yield TaskAnswer(task["meta"]["task"], spans, by=who)
        else:
            yield TaskAnswer(task["meta"]["task"], None, _PRODIGY[task["answer"]], by=who)


def _csv_tasks(tasks: Iterable[ReviewTask]) -> str:
    file = io.StringIO()
    table = csv.writer(file)
    table.writerow(CSV_COLUMNS)
    for one in tasks:
        shown = " / ".join(one.text[start:end] for start, end, _ in one.marked)
        place = (one.task, one.doc_id, one.start, one.end, one.type or "")
        table.writerow((*place, shown, one.text, repr(one.score), "", ""))
    return file.getvalue()


def _csv_answers(data: str) -> Iterator[TaskAnswer]:
    for row in csv.DictReader(io.StringIO(data, newline="")):
        word = row["verdict"].strip().lower()
        if word:
            yield TaskAnswer(row["task"], None, ReadVerdict(word), row["right_type"].strip() or None)


def _pretty(objects: Iterable[Any]) -> str:
    return json.dumps(list(objects), ensure_ascii=False, indent=1) + "\n"


def _objects(data: Any) -> list[Mapping[str, Any]]:
    if not isinstance(data, list):
        raise ValueError("want a list of tasks")
    return data


class ToolForm(NamedTuple):
    """How tasks are written, and their answers read."""

    write: Callable[[Iterable[ReviewTask]], str]
    read: Callable[[str], Iterator[TaskAnswer]]


FORMS = {
    "labelstudio": ToolForm(_label_studio_tasks, _label_studio_answers),
    "argilla": ToolForm(_argilla_tasks, _argilla_answers),
    "prodigy": ToolForm(_prodigy_tasks, _prodigy_answers),
    "csv": ToolForm(_csv_tasks, _csv_answers),
}
"""By name."""


def read_task_answers(form: str, data: bytes, *, source: str) -> list[TaskAnswer]:
    """The answers in a file of a form. Raises `AnswerFileError` for one of another form."""
    try:
        return list(FORMS[form].read(data.decode("utf-8-sig")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise AnswerFileError(
            f"{source}: is no file of answers in the form {form} ({reason}); give the file that the tool exports, "
            "made from the tasks of `concord review tasks`"
        ) from None
