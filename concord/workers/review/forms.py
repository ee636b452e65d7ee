"""Tasks for annotation tools and their answers: Label Studio, Argilla 2, Prodigy, a CSV file, and a page of our own.

A task is a text with the entities that it asks about, and a score. An answer is the entities that somebody left there.
All forms carry the digest of the run, so that answers about another one are known.
Shapes: Label Studio's JSON of tasks with predictions and its JSON export; Argilla's records as `to_json` writes them,
with a question ``spans``; Prodigy's JSON lines of ``ner.manual``; and a table with a column ``verdict`` to fill in.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from concord.schemas.errors import InputError
from concord.schemas.review import ReadVerdict
from concord.workers.review.question_page import question_page, read_page_answers
from concord.workers.review.tasks import ReviewTask, TaskAnswer, TaskList

AGENT = "concord"
QUESTION = "spans"
"""Name of the question of Argilla's records."""
CSV_COLUMNS = ("task", "doc_id", "start", "end", "type", "text", "context", "score", "run", "verdict", "right_type")


class AnswerFileError(InputError):
    """A file of answers that cannot be read."""


def _label_studio_tasks(listed: TaskList) -> str:
    return _pretty(
        {
            "data": {"text": task.text, "task": task.task, "doc_id": task.doc_id, "run": listed.method.run},
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
        for task in listed.tasks
    )


def _label_studio_answers(data: str) -> Iterator[TaskAnswer]:
    for task in _objects(json.loads(data)):
        name, run = task["data"]["task"], task["data"].get("run")
        for one in task.get("annotations") or ():
            by = one.get("completed_by", "")
            who = str(by.get("email", by.get("id", "")) if isinstance(by, Mapping) else by)
            if one.get("was_cancelled"):
                yield TaskAnswer(name, None, ReadVerdict.SKIPPED, by=who, run=run)
                continue
            values = [result["value"] for result in one["result"] if result["type"] == "labels"]
            spans = frozenset((v["start"], v["end"], label) for v in values for label in v["labels"])
            yield TaskAnswer(name, spans, by=who, run=run)


def _argilla_tasks(listed: TaskList) -> str:
    return _pretty(
        {
            "id": task.task,
            "fields": {"text": task.text},
            "metadata": {"doc_id": task.doc_id, "run": listed.method.run},
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
        for task in listed.tasks
    )


def _argilla_answers(data: str) -> Iterator[TaskAnswer]:
    for record in _objects(json.loads(data)):
        for one in record.get("responses", {}).get(QUESTION, ()):
            who, run, value = str(one.get("user_id") or ""), record.get("metadata", {}).get("run"), one["value"]
            if value is None:
                yield TaskAnswer(record["id"], None, ReadVerdict.SKIPPED, by=who, run=run)
            else:
                spans = frozenset((v["start"], v["end"], v["label"]) for v in value)
                yield TaskAnswer(record["id"], spans, by=who, run=run)


def _prodigy_tasks(listed: TaskList) -> str:
    return "".join(
        json.dumps(_prodigy_task(task, listed.method.run), ensure_ascii=False) + "\n" for task in listed.tasks
    )


def _prodigy_task(task: ReviewTask, run: str) -> dict[str, Any]:
    places = task.offsets
    last = len(places) - 1
    return {
        "text": task.text,
        "meta": {"task": task.task, "doc_id": task.doc_id, "score": task.score, "run": run},
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
        who, name, run = str(task.get("_annotator_id") or ""), task["meta"]["task"], task["meta"].get("run")
        if task["answer"] == "accept":
            spans = frozenset((one["start"], one["end"], one["label"]) for one in task.get("spans") or ())
            yield TaskAnswer(name, spans, by=who, run=run)
        else:
            yield TaskAnswer(name, None, _PRODIGY[task["answer"]], by=who, run=run)


def _csv_tasks(listed: TaskList) -> str:
    file = io.StringIO()
    table = csv.writer(file)
    table.writerow(CSV_COLUMNS)
    for one in listed.tasks:
        spans = " / ".join(one.text[start:end] for start, end, _ in one.marked)
        place = (one.task, one.doc_id, one.start, one.end, one.type or "")
        table.writerow(
            (*place, spans, one.text, "" if one.score is None else repr(one.score), listed.method.run, "", "")
        )
    return file.getvalue()


def _csv_answers(data: str) -> Iterator[TaskAnswer]:
    for row in csv.DictReader(io.StringIO(data, newline="")):
        word = row["verdict"].strip().lower()
        if word:
            right_type, run = row["right_type"].strip() or None, row.get("run") or None
            yield TaskAnswer(row["task"], None, ReadVerdict(word), right_type, run=run)


def _pretty(objects: Iterable[Any]) -> str:
    return json.dumps(list(objects), ensure_ascii=False, indent=1) + "\n"


def _objects(data: Any) -> list[Mapping[str, Any]]:
    if not isinstance(data, list):
        raise ValueError("want a list of tasks")
    return data


class ToolForm(NamedTuple):
    """How tasks are written, and their answers read; ``in_order``: are they shown in the order in which they count?"""

    write: Callable[[TaskList], str]
    read: Callable[[str], Iterator[TaskAnswer]]
    in_order: bool = False


FORMS = {
    "labelstudio": ToolForm(_label_studio_tasks, _label_studio_answers),
    "argilla": ToolForm(_argilla_tasks, _argilla_answers),
    "prodigy": ToolForm(_prodigy_tasks, _prodigy_answers),
    "csv": ToolForm(_csv_tasks, _csv_answers),
    "page": ToolForm(question_page, read_page_answers, in_order=True),
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
