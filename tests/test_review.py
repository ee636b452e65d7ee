"""A review in its folder: begun, gone on with, undone, promised, checked again; at a terminal and by tasks."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import concord
from concord.flows.cli.app import app
from concord.flows.cli.review_cli import share
from concord.flows.commands.review_promise import check_promise
from concord.flows.commands.review_tasks import task_id
from concord.flows.commands.review_terminal import Truth, read_on, truth_of
from concord.flows.commands.reviewing import Review, open_review, plan_of
from concord.flows.nights.record import RECORD
from concord.schemas.columns import MARGIN, N_BEST
from concord.schemas.document import Document
from concord.schemas.errors import InputError, UsageError
from concord.schemas.review import ReadAnswer, ReadVerdict, ReviewMethod, ReviewRequest
from concord.schemas.run import RunSettings
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.review.forms import CSV_COLUMNS, FORMS, read_task_answers
from concord.workers.review.questions import question_of
from concord.workers.review.review_items import Context, ReviewItem, ReviewItems, items_of, rivals
from concord.workers.review.tasks import ReviewTask, TaskList
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_pages import viewer_of
from tests.support.runs_here import label, stay_here


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, a run that says how sure it is, one that does not, and a run of another corpus."""
    folder = tmp_path_factory.mktemp("review")
    documents = [one for one in synthesize(24, seed=1, kind="news") if isinstance(one, Document)]
    write_corpus(documents[:20], folder / "corpus", source="made up")
    write_corpus(documents[20:], folder / "others", source="made up")
    sure = RunSettings(engine="viterbi", confidence="marginal", n_best=3, n_best_work=20_000)
    with pytest.MonkeyPatch.context() as patch:
        stay_here(patch)
        label(folder / "corpus", folder / "run", settings=sure)
        label(folder / "others", folder / "other", settings=sure)
        label(folder / "others", folder / "unsure")
    return folder


@pytest.fixture
def run(shelf: Path) -> str:
    return str(shelf / "run")


def call(*words: str | Path | int, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result


def answer(
    review: Review, number: int, verdict: ReadVerdict = ReadVerdict.RIGHT, right_type: str | None = None
) -> None:
    thing = review.things[number]
    review.add(ReadAnswer(**thing._asdict(), verdict=verdict, right_type=right_type, by="me"))


def read_until_promised(review: Review) -> None:
    while review.standing.place is not None and not review.promised:
        answer(review, review.standing.place)


def test_all_right_answers_are_promised_and_the_promise_is_one_of_this_run_alone(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"error": 0.2}) as review:
        read_until_promised(review)
        promise = review.write()
    assert promise.promised > 0
    assert promise.wrong == 0
    table = pq.read_table(tmp_path / "r" / "promised.parquet")
    assert table.num_rows == promise.promised
    surest = sorted(review.predicted)[promise.promised - 1]
    kept = {(row["doc_id"], row["start"], row["end"]) for row in table.to_pylist()}
    assert all(review.predicted[review.places[place]] <= surest for place in kept)
    checked = check_promise(run, tmp_path / "r" / "promise.json")
    assert checked.fault is None
    assert f"at most 20 % of the {promise.promised:,} surest" in checked.sentence


def test_a_review_goes_on_where_it_stopped(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"error": 0.1, "seed": 3}) as review:
        first = review.standing.place
        assert first is not None
        answer(review, first, ReadVerdict.WRONG, "PER")
        after = review.standing
    with (tmp_path / "r" / "answers.jsonl").open("ab") as log:
        log.write(b'{"doc_id": "cut o')  # the process was killed while it wrote
    with open_review(run, tmp_path / "r", {}) as review:
        assert review.standing == after
        assert review.method.request == ReviewRequest(error=0.1, seed=3)
        answer(review, after.place or 0)
    with open_review(run, tmp_path / "r", {"error": 0.1}) as review:
        assert [one.verdict for one in review.answers.values()] == ["wrong", "right"]


def test_an_answer_that_is_taken_back_leaves_no_trace(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {}) as review:
        before = review.standing
        assert review.undo() is None
        answer(review, before.place or 0, ReadVerdict.WRONG)
        assert review.undo() == before.place
        assert review.standing == before
        assert review.write().answers == ()


def test_what_was_skipped_is_asked_once_more_when_nothing_else_is_left(run: str, tmp_path: Path) -> None:
    options = {"error": 0.0005}
    with open_review(run, tmp_path / "r", options) as review:
        first, *others = review.waiting(4)
        answer(review, first, ReadVerdict.SKIPPED)
        assert review.place is None  # one more wrong one than is allowed; asked about on another day
        assert review.line.endswith("too many of the next set are wrong or skipped")
        assert review.waiting(4) == [first]
    with open_review(run, tmp_path / "r", {}) as review:
        assert review.place == first
        answer(review, first)
        assert review.place == others[0]
        assert review.waiting(4)[:3] == others


def test_the_same_seed_gives_the_same_order_and_another_seed_another(run: str, tmp_path: Path) -> None:
    orders = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        with open_review(run, tmp_path / name, {"seed": seed}) as review:
            orders.append(review.waiting(20))
    assert orders[0] == orders[1] != orders[2]


def test_a_second_reader_in_one_folder_is_refused(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {}), pytest.raises(InputError, match="somebody else is reading there"):
        open_review(run, tmp_path / "r", {}).__enter__()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"error": 0.01}, r"has begun with --error 0\.05"),
        ({"seed": 2}, "has begun with --seed 0"),
    ],
)
def test_a_review_that_has_begun_is_not_made_otherwise(
    run: str, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with open_review(run, tmp_path / "r", {}):
        pass
    with pytest.raises(InputError, match=said):
        open_review(run, tmp_path / "r", given).__enter__()


def test_another_run_is_refused_and_voids_the_promise(shelf: Path, run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"error": 0.2}) as review:
        read_until_promised(review)
        review.write()
    with pytest.raises(InputError, match="the corpus is another one"):
        open_review(str(shelf / "other"), tmp_path / "r", {}).__enter__()
    result = call("verify", "--run", shelf / "other", "--promise", tmp_path / "r" / "promise.json", code=3)
    assert "is void: the corpus is another one; review this run" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda said: said.update(promised=said["promised"] + 1), "its answers promise"),
        (lambda said: said["answers"][0].update(verdict="wrong"), "its answers promise"),
        (lambda said: said["answers"].append(said["answers"][0]), "is none about this run"),
        (lambda said: said["answers"][0].update(type="NONE"), "is none about this run"),
        (lambda said: said["method"]["request"].update(error=0.01), "its answers promise 0"),
        (lambda said: said["method"].update(model="0" * 64), "the model is another one"),
        (lambda said: said["method"].update(run="0" * 64), "the run is another one"),
        (lambda said: said["method"].update(things="0" * 64), "does not list what this run has"),
    ],
)
def test_a_promise_that_was_changed_is_void(run: str, tmp_path: Path, change: Any, said: str) -> None:
    with open_review(run, tmp_path / "r", {"error": 0.2}) as review:
        read_until_promised(review)
        review.write()
    path = tmp_path / "r" / "promise.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    fault = check_promise(run, path).fault
    assert fault is not None
    assert said in fault


def test_a_file_that_is_no_promise_is_refused(run: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text("{}")
    with pytest.raises(InputError, match="is no promise of `concord review`"):
        check_promise(run, tmp_path / "p.json")


def test_a_later_night_that_drifted_voids_the_promise(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"error": 0.2}) as review:
        read_until_promised(review)
        review.write()
    night = {
        **dict.fromkeys(("user", "host", "mlflow_run"), ""),
        **dict.fromkeys(("documents", "labelled", "rejected", "failed", "certified", "seconds"), 0),
        "night": review.method.night + 1,
        "time": "2026-01-01T00:00:00+00:00",
        "asked": {},
        "drift": {
            "against": 1,
            "new": 0,
            "gone": 0,
            "changed": 0,
            "movements": [{"figure": "f", "of": "texts", "before": 0.1, "after": 0.9, "p_value": 0.0, "breach": True}],
        },
    }
    record = Path(run) / RECORD
    before = record.read_bytes() if record.is_file() else b""
    record.write_bytes(before + json.dumps(night).encode() + b"\n")
    try:
        fault = check_promise(run, tmp_path / "r" / "promise.json").fault
    finally:
        record.write_bytes(before)
    assert fault == f"night {night['night']} of the run's folder drifted; review the run that it leads to"


def test_a_run_that_does_not_say_how_sure_it_is_is_refused(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--confidence marginal"):
        open_review(str(shelf / "unsure"), tmp_path / "r", {}).__enter__()


def test_a_run_without_empty_sentences_has_none_to_read(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no sentences without an entity to read"):
        open_review(str(shelf / "unsure"), tmp_path / "r", {"by": "sentence"}).__enter__()


def test_sentences_without_an_entity_are_one_set_and_need_no_confidence() -> None:
    found = items_of([pa.Table.from_pylist([made_row()] * 3)], "sentence", run="r")
    assert found.things == [ReviewItem("d", 4, 5, None)] * 3
    request = ReviewRequest(by="sentence")
    names = dict.fromkeys(("run", "model", "corpus"), "")
    method = ReviewMethod(request=request, order=found.order, **names, things=found.digest, size=3)
    plan = plan_of(method, found.predicted)
    assert (plan.sizes.tolist(), plan.refused.tolist(), len(plan.first)) == ([3], [1], 0)


def test_a_review_that_has_begun_goes_on_with_its_digest() -> None:
    """The digest is that of the first reviews, whatever the class is called now."""
    items = [ReviewItem("a", 0, 2, "PER"), ReviewItem("b", 3, 4, None)]
    listed = ReviewItems(items, np.array([0.5, 0.25]), "marginal", np.zeros(2, np.bool_))
    assert listed.digest == "d8fea283c257479679c66beed68bd5b9e7c9192386fea3937374eb85074ebbe1"


def test_documents_are_promised_as_a_whole(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"by": "document", "error": 0.3, "certainty": 0.7}) as review:
        assert [one.doc_id for one in review.things] == list(dict.fromkeys(one.doc_id for one in review.things))
        read_until_promised(review)
        review.write()
    assert check_promise(run, tmp_path / "r" / "promise.json").fault is None


def test_the_whole_run_is_promised_once_the_least_sure_are_read(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"whole": 0.25, "error": 0.2}) as review:
        for _ in range(len(review.plan.first)):
            assert not review.promised
            answer(review, review.standing.place or 0, ReadVerdict.WRONG)
        read_until_promised(review)
        promise = review.write()
    assert promise.promised == promise.method.size
    assert "once those that were read are mended" in promise.sentence
    assert check_promise(run, tmp_path / "r" / "promise.json").fault is None


def test_predicted_errors_are_fitted_to_labelled_documents(shelf: Path, run: str, tmp_path: Path) -> None:
    words = ("--run", run, "--out", tmp_path / "r", "--form", "csv", "--tasks", tmp_path / "t.csv")
    call("review", "tasks", *words, "--fit-run", shelf / "other", "--fit-corpus", shelf / "others")
    method = json.loads((tmp_path / "r" / "review.json").read_text())
    assert len(method["fit"]) == 2
    again = call("review", "tasks", *words, "--fit-run", shelf / "other", "--fit-corpus", shelf / "others", code=3)
    assert "its order is settled" in " ".join(again.output.split())
    half = call("review", "tasks", *words, "--fit-run", shelf / "other", code=2)
    assert "belong together" in half.output


def test_corrections_are_the_wrong_entities_with_their_types(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {}) as review:
        first, second, third, fourth = review.waiting(4)
        answer(review, first, ReadVerdict.WRONG, "PER")
        thing = review.things[second]
        review.add(ReadAnswer(**thing._asdict(), verdict=ReadVerdict.WRONG, no_entity=True, by="me"))
        answer(review, third)
        answer(review, fourth, ReadVerdict.WRONG)
        review.write()
    lines = [json.loads(line) for line in (tmp_path / "r" / "corrections.jsonl").read_text().splitlines()]
    places = [review.things[number] for number in (first, second)]
    common = {"by": "me", "reason": ""}
    assert lines == [
        {"doc_id": one.doc_id, "start": one.start, "end": one.end, "type": kind, **common}
        for one, kind in zip(places, ["PER", None], strict=True)
    ]


@pytest.mark.parametrize(
    ("typed", "number"), [("5%", 0.05), ("0.05", 0.05), ("0.5 %", 0.005), ("29%", 0.29), (None, None)]
)
def test_shares_are_typed_as_shares_or_per_cent(typed: str | None, number: float | None) -> None:
    assert share("error", typed) == number


@pytest.mark.parametrize("typed", ["five", "nan", "", "5%%"])
def test_what_is_no_share_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match=r"want a share, such as 5% or 0\.05"):
        share("error", typed)


def test_a_share_out_of_range_is_refused(run: str, tmp_path: Path) -> None:
    result = call(
        "review",
        "tasks",
        "--run",
        run,
        "--out",
        tmp_path / "r",
        "--form",
        "csv",
        "--tasks",
        "t",
        "--error",
        "5",
        code=2,
    )
    assert "--error: input should be less than 1" in result.output


# --- the terminal


def typed(keys: str, *lines: str) -> dict[str, Any]:
    pressed, asked = iter(keys), iter(lines)
    return {"key": lambda: next(pressed), "ask": lambda _question: next(asked)}


def test_keys_are_answers(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_review(run, tmp_path / "r", {}) as review:
        read_on(review, **typed("rwxsuwq", "PER", ""))
        verdicts = [(one.verdict, one.right_type) for one in review.answers.values()]
    assert verdicts == [("right", None), ("wrong", "PER"), ("wrong", None)]
    shown = capsys.readouterr().out
    assert shown.count("r right · w wrong") == 2  # at the start, and after a key that is none
    assert "at least" in shown
    assert "probability" in shown
    assert "taken back" in shown


@pytest.mark.parametrize(
    ("lines", "truth"),
    [
        (["2"], Truth("ORG")),
        (["p"], Truth("PER")),
        ([""], Truth()),
        (["None"], Truth(no_entity=True)),
        (["X", "9", "per"], Truth("PER")),
    ],
)
def test_a_type_is_its_name_beginning_or_number(lines: list[str], truth: Truth) -> None:
    asked = iter(lines)
    assert truth_of(lambda _: next(asked), ["LOC", "ORG", "PER"]) == truth


def test_a_type_of_the_name_none_is_a_type() -> None:
    assert truth_of(lambda _: "none", ["none", "other"]) == Truth("none")


def test_an_ambiguous_beginning_is_asked_again() -> None:
    asked = iter(["per", "person"])
    assert truth_of(lambda _: next(asked), ["period", "person"]) == Truth("person")


def test_without_a_terminal_the_reader_is_told_of_tasks(run: str, tmp_path: Path) -> None:
    result = call("review", "read", "--run", run, "--out", tmp_path / "r", code=2)
    assert "concord review tasks" in result.output


def test_in_a_real_terminal(run: str, tmp_path: Path) -> None:
    """The keys r and q, each once what it answers is on the screen."""
    master, worker = pty.openpty()
    words = ["review", "read", "--run", run, "--error", "5%", "--out", str(tmp_path / "r")]
    code = f"from concord.flows.cli.app import app; app({words!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=worker, stdout=worker, stderr=worker)
    shown, waited = "", [("predicted error", b"r"), ("1 read; promised at 5 %", b""), ("predicted error", b"q")]
    try:
        os.close(worker)
        for text, key in [*waited, ("review in", b"")]:
            while text not in shown:
                assert select.select([master], [], [], 30)[0], shown
                shown += os.read(master, 65536).decode(errors="replace")
            shown = shown.partition(text)[2]
            os.write(master, key)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert json.loads((tmp_path / "r" / "promise.json").read_text())["read"] == 1


# --- Python


def test_a_review_in_python_is_that_of_the_folder(run: str, tmp_path: Path) -> None:
    with concord.review(run, out=tmp_path / "r", error=0.2, reader="Ann") as review:
        first = review.question
        assert first is not None
        assert first.type in review.types
        other = next(kind for kind in review.types if kind != first.type)
        assert repr(review).splitlines()[0] == review.line
        assert f" {first.type}]" in repr(review)
        assert "<mark" in review._repr_html_()
        second = review.answer("wrong", other, reason="seen").question
        assert second != first
        assert review.answer("skipped").undo().question == second
        review.answer("wrong", no_entity=True)
        while not review.promise().promised:
            review.answer("right")
        promise = review.promise()
    assert [(one.verdict, one.right_type, one.no_entity, one.by) for one in promise.answers[:2]] == [
        ("wrong", other, False, "Ann"),
        ("wrong", None, True, "Ann"),
    ]
    assert promise.answers[0].reason == "seen"
    assert check_promise(run, tmp_path / "r" / "promise.json").fault is None
    with open_review(run, tmp_path / "r", {}) as again:
        assert again.promised == promise.promised


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"verdict": "wrongg"}, "wrongg"),
        ({"verdict": "right", "right_type": "PER"}, "are for entities that are wrong"),
        ({"verdict": "wrong", "right_type": "PER", "no_entity": True}, "exclude each other"),
        ({"verdict": "wrong", "right_type": "PERS"}, "no type is called 'PERS'"),
    ],
)
def test_an_answer_in_python_that_contradicts_itself_is_refused(
    run: str, tmp_path: Path, said: dict[str, Any], fault: str
) -> None:
    with concord.review(run, out=tmp_path / "r") as review:
        with pytest.raises(ValueError, match=fault):
            review.answer(**said)
        assert review.promise().read == 0


def test_a_review_in_python_that_is_not_used_any_more_lets_others_answer(run: str, tmp_path: Path) -> None:
    review = concord.review(run, out=tmp_path / "r")
    with pytest.raises(InputError, match="somebody else is reading there; wait, or give another out"):
        concord.review(run, out=tmp_path / "r")
    del review
    with pytest.raises(InputError, match="has begun with error 0"):
        concord.review(run, out=tmp_path / "r", error=0.2)


def test_where_nothing_more_can_be_promised_nothing_is_asked(run: str, tmp_path: Path) -> None:
    with concord.review(run, out=tmp_path / "r", error=0.001) as review:
        while review.question is not None:
            review.answer("wrong")
        assert "too many" in repr(review)
        with pytest.raises(InputError, match="nothing is asked any more"):
            review.answer("right")


# --- tasks

TASK = ReviewTask("d:3-5", "d", 3, 5, "PER", ["Sir", "Añ", "Lee", "😀", "."], [(1, 3, "PER")], 0.25)
EMPTY = ReviewTask("d:5-7", "d", 5, 7, None, ["No", "one"], [], None)


def listed(*tasks: ReviewTask) -> TaskList:
    method = ReviewMethod(request=ReviewRequest(), order="", run="of run", model="", corpus="", things="", size=9)
    return TaskList(tasks, method, "out", ["PER"], "nothing yet", "concord review answers")


def test_label_studio_has_its_shape() -> None:
    first, second = json.loads(FORMS["labelstudio"].write(listed(TASK, EMPTY)))
    assert first == {
        "data": {"text": "Sir Añ Lee 😀 .", "task": "d:3-5", "doc_id": "d", "run": "of run"},
        "predictions": [
            {
                "model_version": "concord",
                "score": 0.25,
                "result": [
                    {
                        "id": "d:3-5/0",
                        "from_name": "label",
                        "to_name": "text",
                        "type": "labels",
                        "value": {"start": 4, "end": 10, "text": "Añ Lee", "labels": ["PER"]},
                    }
                ],
            }
        ],
    }
    assert second["predictions"][0] == {"model_version": "concord", "score": None, "result": []}


def test_argilla_has_its_shape() -> None:
    first, _ = json.loads(FORMS["argilla"].write(listed(TASK, EMPTY)))
    assert first == {
        "id": "d:3-5",
        "fields": {"text": "Sir Añ Lee 😀 ."},
        "metadata": {"doc_id": "d", "run": "of run"},
        "suggestions": {
            "spans": {"value": [{"start": 4, "end": 10, "label": "PER"}], "score": 0.25, "agent": "concord"}
        },
        "responses": {},
        "vectors": {},
        "_server_id": None,
    }


def test_prodigy_has_its_shape() -> None:
    first = json.loads(FORMS["prodigy"].write(listed(TASK, EMPTY)).splitlines()[0])
    assert first["spans"] == [{"start": 4, "end": 10, "token_start": 1, "token_end": 2, "label": "PER"}]
    assert first["tokens"][3] == {"text": "😀", "start": 11, "end": 12, "id": 3, "ws": True}
    assert first["tokens"][4]["ws"] is False
    assert first["meta"] == {"task": "d:3-5", "doc_id": "d", "score": 0.25, "run": "of run"}
    assert all(first["text"][one["start"] : one["end"]] == one["text"] for one in first["tokens"])


def test_csv_has_its_columns() -> None:
    rows = list(csv.DictReader(io.StringIO(FORMS["csv"].write(listed(TASK, EMPTY)))))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert (rows[0]["text"], rows[0]["score"], rows[0]["verdict"]) == ("Añ Lee", "0.25", "")
    assert rows[1]["score"] == ""


def answered(form: str, text: str, said: dict[str, str]) -> str:
    """The tasks as their tool gives them back: each as it was, of another type, emptied, or skipped."""
    if form == "page":
        verdicts = {"right": "right", "skipped": "skipped"}
        answers = [
            {
                "task": task,
                "verdict": verdicts.get(what, "wrong"),
                "right_type": None if what in (*verdicts, "none") else what,
                "no_entity": what == "none",
            }
            for task, what in said.items()
        ]
        return json.dumps({"run": viewer_of(text.encode())["run"], "by": "me", "answers": answers})
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        for row in rows:
            kind = said.get(row["task"], "")
            row["verdict"] = {"": "", "right": "right", "skipped": "skipped"}.get(kind, "wrong")
            row["right_type"] = kind if kind not in ("", "right", "skipped") else ""
        file = io.StringIO()
        table = csv.DictWriter(file, CSV_COLUMNS)
        table.writeheader()
        table.writerows(rows)
        return file.getvalue()
    if form == "prodigy":
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            what = said.get(line["meta"]["task"])
            if what is None:
                continue
            line["answer"] = {"skipped": "ignore", "none": "reject"}.get(what, "accept")
            if what not in ("right", "skipped", "none"):
                line["spans"] = [one | {"label": what} for one in line["spans"]]
        return "".join(json.dumps(line) + "\n" for line in lines)
    tasks = json.loads(text)
    for task in tasks:
        what = said.get(task["data"]["task"] if form == "labelstudio" else task["id"])
        if what is None:
            continue
        if form == "labelstudio":
            result = [] if what == "none" else task["predictions"][0]["result"]
            for one in result if what not in ("right", "skipped") else []:
                one["value"]["labels"] = [what]
            task["annotations"] = [{"completed_by": 7, "was_cancelled": what == "skipped", "result": result}]
        else:
            value = [] if what == "none" else [dict(one) for one in task["suggestions"]["spans"]["value"]]
            for one in value if what != "right" else []:
                one["label"] = what
            task["responses"] = {"spans": [{"value": None if what == "skipped" else value, "user_id": "u"}]}
    return json.dumps(tasks)


def tasks_in(form: str, text: str) -> list[str]:
    """Ids of the tasks, in their order."""
    if form == "csv":
        return [row["task"] for row in csv.DictReader(io.StringIO(text))]
    if form == "prodigy":
        return [json.loads(line)["meta"]["task"] for line in text.splitlines()]
    if form == "page":
        return [one["task"] for one in viewer_of(text.encode())["questions"]]
    return [one["data"]["task"] if form == "labelstudio" else one["id"] for one in json.loads(text)]


@pytest.mark.parametrize("form", FORMS)
def test_tasks_go_out_and_answers_come_in(form: str, run: str, tmp_path: Path) -> None:
    out, tasks, done = tmp_path / "r", tmp_path / "tasks", tmp_path / "done"
    words = ("--run", run, "--out", out, "--form", form)
    call("review", "tasks", *words, "--tasks", tasks, "--count", 5, "--error", "20%")
    with open_review(run, out, {}) as review:
        waiting = review.waiting(5)
        ids = [task_id(review.things[number]) for number in waiting]
        errors = [review.predicted[number] for number in waiting]
        other = next(kind for kind in review.types if kind != review.things[waiting[1]].type)
    text = tasks.read_text()
    least_sure_first = [ids[i] for i in sorted(range(5), key=lambda i: -errors[i])]
    assert tasks_in(form, text) == (ids if form == "page" else least_sure_first)
    assert len(set(ids)) == 5
    said = dict(zip(ids[:4], ["right", other, "none", "skipped"], strict=True))
    done.write_text(answered(form, text, said))
    result = call("review", "answers", done, *words)
    assert "4 answers taken" in result.output
    with open_review(run, out, {}) as review:
        found = {
            task_id(ReviewItem(a.doc_id, a.start, a.end, a.type)): (a.verdict, a.right_type, a.no_entity)
            for a in review.answers.values()
        }
    assert found == {
        ids[0]: ("right", None, False),
        ids[1]: ("wrong", other, False),
        ids[2]: ("wrong", None, form != "prodigy"),  # there a rejected task says no more than that
        ids[3]: ("skipped", None, False),
    }


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_answers_that_cannot_be_read_is_the_one_that_is_named(form: str, run: str, tmp_path: Path) -> None:
    words = ("--run", run, "--out", tmp_path / "r", "--form", form)
    call("review", "tasks", *words, "--tasks", tmp_path / "t")
    (tmp_path / "folder").mkdir()
    for name, reason in (("nowhere.json", "No such file"), ("folder", "Is a directory")):
        said = call("review", "answers", tmp_path / name, *words, code=3).output.replace("\n", "")
        assert f"{tmp_path / name}: {reason}" in said
        assert "answers.jsonl" not in said


def test_a_place_that_tasks_cannot_have_is_named_by_its_option(run: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, reason in ((tmp_path / "pipe", "is a device or a pipe"), (run, "would overwrite what is read")):
        words = ("--run", run, "--out", tmp_path / "r", "--form", "csv", "--tasks", place)
        assert f"--tasks {place}: {reason}" in call("review", "tasks", *words, code=3).stderr.replace("\n", " ")


@pytest.mark.parametrize("form", FORMS)
def test_a_review_that_cannot_begin_leaves_no_folder(form: str, run: str, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "r", "--form", form)
    call("review", "answers", tmp_path / "nowhere.json", "--run", run, *words, code=3)
    call("review", "tasks", "--run", run, *words, "--tasks", tmp_path / "t", "--error", 2, code=2)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_another_form_is_refused(form: str, run: str, tmp_path: Path) -> None:
    call("review", "tasks", "--run", run, "--out", tmp_path / "r", "--form", form, "--tasks", tmp_path / "t")
    for content in ('{"a": 1}', "[1, 2]", "not json {", "a,b\n1,2\n"):
        (tmp_path / "f").write_text(content)
        words = (tmp_path / "f", "--run", run, "--out", tmp_path / "r", "--form", form)
        assert str(tmp_path / "f") in "".join(call("review", "answers", *words, code=3).output.split("\n"))
        assert (tmp_path / "r" / "answers.jsonl").read_bytes() == b""


@pytest.mark.parametrize("form", FORMS)
def test_answers_about_another_run_are_refused_even_if_it_has_the_same_things(
    form: str, run: str, tmp_path: Path
) -> None:
    words = ("--run", run, "--out", tmp_path / "r", "--form", form)
    call("review", "tasks", *words, "--tasks", tmp_path / "t", "--count", 2)
    text = (tmp_path / "t").read_text()
    done = answered(form, text, dict.fromkeys(tasks_in(form, text), "right"))
    own = json.loads((tmp_path / "r" / "review.json").read_text())["run"]
    (tmp_path / "a").write_text(done.replace(own, "0" * 64))
    assert "has answers about another run" in flat(call("review", "answers", tmp_path / "a", *words, code=3))
    assert (tmp_path / "r" / "answers.jsonl").read_bytes() == b""
    (tmp_path / "a").write_text(done)
    assert "2 answers taken" in call("review", "answers", tmp_path / "a", *words).output


def flat(result: Result) -> str:
    return " ".join(result.output.split())


def test_answers_about_other_things_and_those_that_disagree_are_refused(run: str, tmp_path: Path) -> None:
    words = ("--run", run, "--out", tmp_path / "r", "--form", "csv")
    call("review", "tasks", *words, "--tasks", tmp_path / "t.csv", "--count", 1)
    head, row = (tmp_path / "t.csv").read_text().splitlines()
    (tmp_path / "a.csv").write_text(f"{head}\nelsewhere:0-1,{row.partition(',')[2][:-2]},right,\n")
    assert "is nothing of this run" in call("review", "answers", tmp_path / "a.csv", *words, code=3).output
    (tmp_path / "a.csv").write_text(f"{head}\n{row[:-1]}right,\n{row[:-1]}wrong,\n")
    assert "agree on one" in " ".join(call("review", "answers", tmp_path / "a.csv", *words, code=3).output.split())


def test_an_added_entity_leaves_the_one_that_was_asked_about_right(run: str, tmp_path: Path) -> None:
    data = json.loads(FORMS["labelstudio"].write(listed(TASK)))
    extra = {"type": "labels", "value": {"start": 11, "end": 12, "labels": ["MISC"]}}
    data[0]["annotations"] = [{"result": [*data[0]["predictions"][0]["result"], extra]}]
    (found,) = read_task_answers("labelstudio", json.dumps(data).encode(), source="f")
    assert frozenset(TASK.marked) < (found.spans or frozenset())


# --- what is read


def made_row(**given: Any) -> dict[str, Any]:
    labels = ["B-PER", "O", "B-LOC", "I-LOC", "O"]
    return {
        "doc_id": "d",
        "tokens": list("abcde"),
        "sentence_starts": [0, 2, 4],
        "labels": labels,
        "entities": [{"type": "PER", "start": 0, "end": 1}, {"type": "LOC", "start": 2, "end": 4}],
        **given,
    }


def test_rivals_are_what_other_labellings_make_of_the_span() -> None:
    lists = [
        (0.0, ["B-PER", "O", "B-LOC", "I-LOC", "O"]),
        (0.5, ["O", "O", "B-ORG", "I-ORG", "O"]),
        (1.5, ["B-LOC", "O", "B-LOC", "O", "O"]),
        (2.5, ["O", "O", "O", "O", "O"]),
    ]
    row = made_row(n_best=[{"gap": gap, "labels": labels} for gap, labels in lists])
    assert rivals(row, ReviewItem("d", 0, 1, "PER")) == [("no entity", 0.5), ("LOC", 1.5)]
    assert rivals(row, ReviewItem("d", 2, 4, "LOC")) == [("ORG", 0.5), ("other bounds", 1.5), ("no entity", 2.5)]


def test_a_question_says_what_the_model_alone_said_and_what_that_would_cost() -> None:
    row = made_row(
        tokens=list("abaca"),
        labels=["B-PER", "O", "B-PER", "O", "O"],
        entities=[{"type": "PER", "start": 0, "end": 1}, {"type": "PER", "start": 2, "end": 3}],
        viterbi_labels=["B-PER", "O", "B-LOC", "O", "O"],
        constraints=[{"name": "same", "penalty": 0.0}, {"name": "banned", "penalty": 0.0}],
        viterbi_constraints=[{"name": "same", "penalty": 2.5}, {"name": "banned", "penalty": math.inf}],
    )
    asked = question_of(row, ReviewItem("d", 2, 3, "PER"), "entity", 0.125)
    assert (asked.before, asked.tokens, asked.after) == (("a", "b"), ("a", "c"), ("a",))
    assert asked.facts == (
        "d, tokens 2 to 3",
        "predicted error 12.5%",
        "the same words elsewhere: 1 × PER",
        "the model alone: LOC; same would charge the document 2.50 nats, not 0.00; banned forbids that",
    )
    assert not any("alone" in fact for fact in question_of(row, ReviewItem("d", 0, 1, "PER"), "entity", 0.1).facts)
    assert question_of(row, ReviewItem("d", 3, 4, None), "sentence", 0.0).facts[1:] == ("a sentence without an entity",)
    whole = question_of(row, ReviewItem("d", 0, 5, None), "document", 0.0)
    assert (whole.before, whole.tokens, whole.after) == ((), tuple("abaca"), ())


def test_the_context_of_an_entity_is_its_sentence_and_of_a_document_all_of_it() -> None:
    assert Context.of(made_row(), ReviewItem("d", 2, 4, "LOC")) == (
        2,
        4,
        ["c", "d"],
        [{"type": "LOC", "start": 0, "end": 2}],
    )
    whole = Context.of(made_row(), ReviewItem("d", 0, 5, None))
    assert (whole.first, whole.last, len(whole.entities)) == (0, 5, 2)


def test_margins_and_gaps_order_where_there_are_no_marginals() -> None:
    table = pa.Table.from_pylist([made_row(**{MARGIN: [0.0, 40.0]})])
    found = items_of([table], "entity", run="r")
    assert found.order == "margin"
    np.testing.assert_allclose(found.predicted, [0.5, 0.0], atol=1e-12)
    ranked = [{"gap": 0.0, "labels": made_row()["labels"]}, {"gap": 0.0, "labels": ["O"] * 5}]
    found = items_of([pa.Table.from_pylist([made_row(**{N_BEST: ranked})])], "document", run="r")
    assert found.order == "gap"
    assert found.predicted.tolist() == [0.75]


def read_as(review: Review, verdict_of: Callable[[int, bool], ReadVerdict], count: int) -> list[bool]:
    """Answers what is asked; which of it was asked again."""
    asked_again = list[bool]()
    while len(review.answers) < count and (place := review.place) is not None:
        again = place == review.repeat
        asked_again.append(again)
        verdict = verdict_of(place, again)
        review.add(ReadAnswer(**review.things[place]._asdict(), verdict=verdict, by="me", again=again))
    return asked_again


READERS: dict[str, tuple[Callable[[int, bool], ReadVerdict], bool]] = {
    "careful": (lambda place, _: ReadVerdict.WRONG if place % 9 == 0 else ReadVerdict.RIGHT, False),
    "passes errors": (
        lambda place, again: ReadVerdict.WRONG if place % 9 == 0 and not again else ReadVerdict.RIGHT,
        True,
    ),
    "sees errors where none are": (lambda _, again: ReadVerdict.WRONG if again else ReadVerdict.RIGHT, True),
    "skips what comes again": (lambda _, again: ReadVerdict.SKIPPED if again else ReadVerdict.RIGHT, False),
}


@pytest.mark.parametrize("reader", READERS)
def test_repeated_questions_tell_a_reader_who_slips_and_are_no_evidence(run: str, tmp_path: Path, reader: str) -> None:
    verdict_of, doubtful = READERS[reader]
    with open_review(run, tmp_path / "r", {"error": 0.3, "whole": 0.9}) as review:
        asked_again = read_as(review, verdict_of, 90)
        assert 2 <= sum(asked_again) <= len(review.answers) // 20
        assert not any(one and other for one, other in pairwise(asked_again))
        assert review.write().read == len(review.answers)
        promise = review.promise()
        assert promise.consistency.is_doubtful == doubtful
        assert ("if the answers are right" in promise.sentence) == (doubtful and promise.promised > 0)
        assert ("answered otherwise" in review.line) == doubtful
        verdicts, standing_then, again = review.verdicts.copy(), review.standing, list(review.repeats)
    with open_review(run, tmp_path / "once", {"error": 0.3, "whole": 0.9}) as once:
        while len(once.answers) < len(promise.answers) and once.standing.place is not None:
            answer(once, once.standing.place, verdict_of(once.standing.place, False))
        assert (once.verdicts.tolist(), once.standing) == (verdicts.tolist(), standing_then)
        assert once.promised == promise.promised
    assert check_promise(run, tmp_path / "r" / "promise.json").fault is None
    with open_review(run, tmp_path / "r", {}) as review:
        assert list(review.repeats) == again


def test_a_repeated_answer_that_is_taken_back_is_asked_again(run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"error": 0.3, "whole": 0.9}) as review:
        read_as(review, lambda *_: ReadVerdict.RIGHT, 20)
        place = review.repeat
        assert place is not None
        review.add(ReadAnswer(**review.things[place]._asdict(), verdict=ReadVerdict.WRONG, again=True))
        assert review.repeat is None
        assert review.undo() == place == review.place
        assert (len(review.answers), review.repeats) == (20, {})
        assert review.answers[place].verdict is ReadVerdict.RIGHT
