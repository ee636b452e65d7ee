"""The page of `concord review tasks --form page` in a real Chromium: keys, buttons, undo, the file of answers.

Left out where there is no Chromium, or Playwright or axe are not installed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from concord.flows.commands.review_tasks import answers_in, take_answers, task_id, write_tasks
from concord.flows.commands.review_terminal import read_on
from concord.flows.commands.reviewing import open_review
from concord.schemas.document import Document
from concord.schemas.review import ReadAnswer, ReadVerdict, ReviewMethod, ReviewRequest
from concord.schemas.run import RunSettings
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.review.question_page import question_page
from concord.workers.review.tasks import ReviewTask, TaskList
from concord.workers.synthesis.made_up import synthesize
from tests.support.in_browser import DESK, PHONE, chromium, written
from tests.support.made_pages import HOSTILE, viewer_of
from tests.support.runs_here import label, stay_here

pytestmark = [
    pytest.mark.slow,
    pytest.mark.about("concord/workers/report", "concord/workers/review", "concord/flows/commands/review_tasks.py"),
]

COUNT = 100
OPTIONS = {"error": 0.2}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from chromium()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A made-up run whose labels an engine made agree."""
    folder = tmp_path_factory.mktemp("run")
    made = [one for one in synthesize(20, seed=1, kind="news") if isinstance(one, Document)]
    write_corpus(made, folder / "corpus", source="made up")
    settings = RunSettings(engine="gibbs", options={"sweeps": 20}, confidence="marginal", n_best=3)
    with pytest.MonkeyPatch.context() as patched:
        stay_here(patched)
        label(folder / "corpus", folder / "out", settings=settings)
    return str(folder / "out")


@pytest.fixture(scope="module")
def page(run: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    with open_review(run, folder / "review", OPTIONS) as review:
        write_tasks(review, "page", folder / "page.html", count=COUNT)
    return folder / "page.html"


class Reading:
    """A page of questions in a browser, and what it says and asks for."""

    def __init__(self, browser: Any, file: Path, *, size: dict[str, int] = DESK, **context: Any) -> None:
        self.context = browser.new_context(viewport=size, **context)
        self.tab = self.context.new_page()
        self.said, self.asked_for = list[str](), list[str]()
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.asked_for.append(request.url))
        self.tab.goto(file.as_uri())
        self.tab.wait_for_selector("#question p")
        self.questions: list[dict[str, Any]] = viewer_of(file.read_bytes()).get("questions", [])

    def press(self, keys: str) -> None:
        """Presses keys one after the other."""
        for key in keys.split():
            self.tab.keyboard.press(key)

    @property
    def tally(self) -> str:
        """How many are answered."""
        return str(self.tab.text_content("#tally"))

    @property
    def mark(self) -> str:
        """The words that are asked about, and their type."""
        return str(self.tab.text_content("#question mark"))

    def download(self, folder: Path) -> Path:
        """The file of answers."""
        with self.tab.expect_download() as begun:
            self.tab.click("#save")
        assert begun.value.suggested_filename == "answers.json"
        begun.value.save_as(folder / "answers.json")
        return folder / "answers.json"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def text_of_question(one: dict[str, Any]) -> str:
    (start, end, kind), *_ = one["spans"]
    return f"{' '.join(one['words'][start:end])}{kind}"


def test_keys_answer_one_after_the_other_and_undo_brings_the_last_one_back(browser: Any, page: Path) -> None:
    with Reading(browser, page) as reading:
        texts = [text_of_question(one) for one in reading.questions]
        assert reading.mark == texts[0]
        assert reading.tab.is_disabled("[data-verdict=undo]")
        reading.press("r s x")
        assert (reading.tally, reading.mark) == (f"2 of {len(texts)} answered, 1 skipped", texts[2])
        reading.press("w Escape")
        assert reading.tab.is_visible("#verdicts")
        assert reading.mark == texts[2]
        reading.press("w Enter")
        assert reading.tally == f"3 of {len(texts)} answered, 1 wrong, 1 skipped"
        reading.press("Enter Enter")  # nothing is answered by the same key
        assert reading.mark == texts[3]
        reading.press("u u")
        assert (reading.tally, reading.mark) == (f"1 of {len(texts)} answered", texts[1])
        reading.tab.focus("#by")
        reading.press("r w")
        assert reading.tab.input_value("#by") == "rw"
        assert reading.mark == texts[1]
        assert reading.said == []
        assert reading.asked_for == [page.as_uri(), *(url for url in reading.asked_for if url.startswith("data:"))]
        assert reading.tab.evaluate("document.cookie") == ""


def test_a_question_has_its_document_its_rivals_and_why(browser: Any, page: Path, run: str) -> None:
    facts = [fact for one in viewer_of(page.read_bytes())["questions"] for fact in one["facts"]]
    for start in ("news-1-", "probability", "predicted error", "the same words elsewhere"):
        assert any(fact.startswith(start) for fact in facts), start
    with Reading(browser, page) as reading:
        shown = str(reading.tab.text_content("#question"))
        assert all(fact in shown for fact in reading.questions[0]["facts"])
        reading.press("w")
        own = reading.questions[0]["type"]
        disabled = reading.tab.eval_on_selector_all("#truths button:disabled", "all => all.map(b => b.textContent)")
        assert [text.split()[0] for text in disabled] == [own]


def test_the_file_of_answers_promises_what_the_same_answers_at_a_terminal_do(
    browser: Any, page: Path, run: str, tmp_path: Path
) -> None:
    types = viewer_of(page.read_bytes())["types"]
    sure = 20
    with Reading(browser, page) as reading:
        asked = [one["task"] for one in reading.questions]
        other = next(n for n, kind in enumerate(types, 1) if kind != reading.questions[sure]["type"])
        rest = " ".join("r" * (COUNT - sure - 4))
        reading.press(f"{' '.join('r' * sure)} w {other} w 0 w Enter s r u {rest}")
        assert reading.tab.text_content("#question") == "That is all. Download the answers now."
        reading.press("r w s")
        reading.tab.fill("#by", "Ann")
        answers = reading.download(tmp_path)
        assert reading.said == []
    with open_review(run, tmp_path / "page", OPTIONS) as review:
        assert take_answers(review, answers_in(answers, "page"), answers) == len(asked)
        ours = review.write()
    keys: dict[str, str] = dict(zip(asked, "r" * sure + "wwws" + "r" * (COUNT - sure - 4), strict=True))
    truths = dict(zip(asked[sure:], (str(other), "none", ""), strict=False))
    with open_review(run, tmp_path / "terminal", OPTIONS) as review:

        def task() -> str:
            assert review.standing.place is not None
            return task_id(review.things[review.standing.place])

        read_on(review, key=lambda: keys.get(task(), "q"), ask=lambda _: truths[task()])
        theirs = review.write()
    assert ours.promised == theirs.promised > 0
    assert {one.by for one in ours.answers} == {"Ann"}
    said = {one.place: (one.verdict, one.right_type, one.no_entity) for one in ours.answers}
    assert len(said) == len(asked) >= len(theirs.answers)
    assert all(said[one.place] == (one.verdict, one.right_type, one.no_entity) for one in theirs.answers)
    assert Counter(one.verdict for one in theirs.answers)[ReadVerdict.WRONG] > 1


def test_buttons_do_what_keys_do_and_the_text_can_be_copied(browser: Any, page: Path) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    with Reading(browser, page) as reading:
        reading.tab.click("[data-verdict=wrong]")
        own, types = reading.questions[0]["type"], viewer_of(page.read_bytes())["types"]
        other = next(kind for kind in types if kind != own)
        reading.tab.get_by_role("button", name=re.compile(f"^{other}")).click()
        reading.tab.click("[data-verdict=skipped]")
        reading.tab.click("summary")
        expect(reading.tab.locator("textarea")).not_to_have_value("")
        text = json.loads(reading.tab.input_value("textarea"))
        first = {"task": reading.questions[0]["task"], "verdict": "wrong", "right_type": other, "no_entity": False}
        assert text["answers"][0] == first
        reading.tab.click("[data-verdict=right]")
        assert len(json.loads(reading.tab.input_value("textarea"))["answers"]) == 3


def test_a_key_that_is_held_answers_once(browser: Any, page: Path) -> None:
    with Reading(browser, page) as reading:
        for _ in range(3):
            reading.tab.keyboard.down("r")
        assert reading.tally.startswith("1 of")
        reading.tab.keyboard.up("r")
        reading.tab.focus("[data-verdict=right]")
        for _ in range(3):
            reading.tab.keyboard.down("Enter")
        assert reading.tally.startswith("2 of")


def test_leaving_with_answers_that_nobody_has_is_asked_about(browser: Any, page: Path, tmp_path: Path) -> None:
    with Reading(browser, page) as reading:
        reading.press("r")
        with reading.tab.expect_event("dialog") as asked:
            reading.tab.close(run_before_unload=True)
        assert asked.value.type == "beforeunload"
        asked.value.dismiss()
        reading.download(tmp_path)
        with reading.tab.expect_event("close"):
            reading.tab.close(run_before_unload=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_and_a_phone_shows_it_whole(
    browser: Any, page: Path, scheme: str, size: dict[str, int]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with Reading(browser, page, size=size, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True) as reading:
        for keys in ("", "r", "w"):
            reading.press(keys)
            assert reading.tab.evaluate("document.documentElement.scrollWidth") == size["width"]
            found = axe.run(reading.tab)
            assert found.violations_count == 0, found.generate_report()


def test_it_works_in_a_frame_that_allows_scripts_alone(browser: Any, page: Path, tmp_path: Path) -> None:
    """As MLflow shows artifacts, where nothing can be downloaded."""
    frame = tmp_path / "frame.html"
    frame.write_text("<iframe sandbox='allow-scripts' width=900 height=900></iframe>")
    tab = browser.new_page()
    tab.goto(frame.as_uri())
    show = (
        "text => { document.querySelector('iframe').src = URL.createObjectURL(new Blob([text], {type: 'text/html'})) }"
    )
    tab.evaluate(show, page.read_text())
    inner = tab.frame_locator("iframe")
    inner.locator("[data-verdict=right]").click()
    inner.locator("summary").click()
    pytest.importorskip("playwright.sync_api").expect(inner.locator("textarea")).not_to_have_value("")
    answers = json.loads(inner.locator("textarea").input_value())["answers"]
    assert [one["verdict"] for one in answers] == ["right"]
    tab.close()


def test_hostile_texts_are_texts(browser: Any, tmp_path: Path) -> None:
    doc_id, kind = HOSTILE[0], HOSTILE[1]
    method = ReviewMethod(request=ReviewRequest(), order="", run="r", model="", corpus="", things="", size=1)
    task = ReviewTask(
        f"{doc_id}:0-1", doc_id, 0, 1, kind, HOSTILE[:5], [(0, 1, kind)], 0.5, HOSTILE[:3], (), HOSTILE[:2]
    )
    listed = TaskList([task], method, HOSTILE[0], [kind, doc_id], HOSTILE[1], HOSTILE[2])
    file = written(question_page(listed).encode(), tmp_path)
    with Reading(browser, file) as reading:
        assert reading.tab.locator("img").count() == 0
        assert reading.tab.title() == f"Review of {HOSTILE[0]}"
        assert reading.mark == f"{HOSTILE[0]}{kind}"
        assert "\u202e" not in str(reading.tab.text_content("body"))
        reading.press("w 2")
        said = json.loads(reading.download(tmp_path).read_text())
        assert said["answers"] == [
            {"task": f"{doc_id}:0-1", "verdict": "wrong", "right_type": doc_id, "no_entity": False}
        ]
        assert reading.said == []
        assert reading.tab.evaluate("document.documentElement.scrollWidth") == DESK["width"]


def test_documents_are_right_or_wrong_and_no_more(browser: Any, run: str, tmp_path: Path) -> None:
    with open_review(run, tmp_path / "r", {"by": "document"}) as review:
        write_tasks(review, "page", tmp_path / "page.html", count=3)
    with Reading(browser, tmp_path / "page.html") as reading:
        reading.press("w r")
        answers = reading.download(tmp_path)
    with open_review(run, tmp_path / "r", {}) as review:
        take_answers(review, answers_in(answers, "page"), answers)
        assert [one.verdict for one in review.answers.values()] == [ReadVerdict.WRONG, ReadVerdict.RIGHT]
        assert all(isinstance(one, ReadAnswer) and one.type is None for one in review.answers.values())
