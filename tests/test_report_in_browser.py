"""The page of `concord report` in a real Chromium: filters, keys, dark, phone, print, frames, hostile texts, size.

Left out where there is no Chromium, or Playwright or axe are not installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

from concord.flows.labelling.run_page import run_page
from concord.schemas.columns import PREDICTIONS_LAYOUT, VIOLATION
from concord.schemas.run import RunSettings
from concord.workers.synthesis.made_up import synthesize
from tests.support.in_browser import DESK, PHONE, chromium, written
from tests.support.made_pages import HOSTILE, corpus_with_a_bad_row, hostile_run, viewer_of
from tests.support.made_predictions import write_run
from tests.support.runs_here import label, stay_here

pytestmark = [pytest.mark.slow, pytest.mark.about("concord/workers/report", "concord/flows/labelling/run_page.py")]

MOST_BYTES = 2_000_000
"""Largest page, which MLflow still shows."""
PATIENCE = 5.0
"""Seconds in which a page opens, on a machine that does other things; alone it is a third of a second."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from chromium()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a made-up run, beside that of the model alone and gold."""
    folder = tmp_path_factory.mktemp("made")
    corpus_with_a_bad_row(tuple(synthesize(12, seed=1, kind="news")), folder)
    with pytest.MonkeyPatch.context() as patched:
        stay_here(patched)
        label(folder / "corpus", folder / "out", settings=RunSettings(engine="gibbs", options={"sweeps": 20}))
        label(folder / "corpus", folder / "alone")
    run, alone, gold = (str(folder / name) for name in ("out", "alone", "corpus"))
    return written(run_page(run, against=alone, gold=gold).data, folder)


class Opened:
    """A page in a browser, and what it says and asks for."""

    def __init__(self, browser: Any, file: Path, *, size: dict[str, int] = DESK, **context: Any) -> None:
        self.context = browser.new_context(viewport=size, **context)
        self.tab = self.context.new_page()
        self.said, self.asked_for = list[str](), list[str]()
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.asked_for.append(request.url))
        begun = time.perf_counter()
        self.tab.goto(file.as_uri())
        self.tab.wait_for_selector("#document h3")
        self.seconds = time.perf_counter() - begun

    @property
    def shown(self) -> list[str]:
        """Ids in the list of documents."""
        texts: list[str] = self.tab.eval_on_selector_all(
            "#list button", "all => all.map(b => b.firstChild.textContent)"
        )
        return texts

    @property
    def current(self) -> str:
        """The document that is drawn."""
        return str(self.tab.text_content("#document h3"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def test_a_page_opens_at_once_says_nothing_and_asks_for_nothing(browser: Any, page: Path) -> None:
    with Opened(browser, page) as opened:
        assert opened.said == []
        assert [url for url in opened.asked_for if not url.startswith("data:")] == [page.as_uri()]
        assert opened.seconds < PATIENCE
        assert opened.tab.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("name", ["type", "rule", "kind"])
def test_a_filter_leaves_the_documents_that_fit(browser: Any, page: Path, name: str) -> None:
    documents = viewer_of(page.read_bytes())["documents"]

    def values(one: dict[str, Any]) -> set[str]:
        if name == "kind":
            return set(one["kinds"])
        if name == "rule":
            return {charge[0] for charge in one["charges"]}
        spans = {span[2] for part in one["parts"] for layer in part[3] for span in layer or ()}
        return spans | {kind for change in one["changes"] for kind in change[3:5]}

    every = set().union(*map(values, documents)) - {"no name"}
    with Opened(browser, page) as opened:
        field = f"#filters [name={name}]"
        offered = opened.tab.eval_on_selector_all(f"{field} option", "all => all.map(o => o.value)")
        assert set(offered) == {"", *every}
        for value in sorted(every):
            opened.tab.select_option(field, value)
            assert opened.shown == [one["id"] for one in documents if value in values(one)]
            assert opened.current == opened.shown[0]
        opened.tab.select_option(field, "")
        assert len(opened.shown) == len(documents)


def test_search_looks_in_ids_and_words_and_says_where_nothing_fits(browser: Any, page: Path) -> None:
    documents = viewer_of(page.read_bytes())["documents"]
    word = documents[3]["parts"][0][2][0]
    with Opened(browser, page) as opened:
        opened.tab.fill("#filters [name=text]", documents[5]["id"].upper())
        assert documents[5]["id"] in opened.shown
        opened.tab.fill("#filters [name=text]", word)
        fitting = [one for one in documents if word.lower() in " ".join(" ".join(p[2]) for p in one["parts"]).lower()]
        assert {one["id"] for one in fitting} <= set(opened.shown)
        opened.tab.fill("#filters [name=text]", "jk no such words")
        assert opened.shown == []
        assert opened.tab.text_content("#document") == "No document fits these filters."
        assert opened.tab.text_content("#count") == f"0 of {len(documents)} shown"


def test_only_what_differs_leaves_lines_that_are_there_more_than_once(browser: Any, page: Path) -> None:
    with Opened(browser, page) as opened:
        parts = opened.tab.locator("#document .part")
        before, differing = parts.count(), opened.tab.locator("#document .part.differs").count()
        opened.tab.check("#filters [name=differs]")
        assert parts.count() == differing <= before
        for part in parts.all():
            assert len(part.locator(".who").all()) >= 2


def test_keys_lead_through_the_documents_but_not_in_a_field(browser: Any, page: Path) -> None:
    with Opened(browser, page) as opened:
        ids = opened.shown
        for key, place in [("k", 0), ("j", 1), ("j", 2), ("k", 1)]:
            opened.tab.keyboard.press(key)
            assert opened.current == ids[place]
            assert opened.tab.locator("#list [aria-current]").count() == 1
        opened.tab.focus("#filters [name=text]")
        opened.tab.keyboard.press("j")
        assert opened.tab.input_value("#filters [name=text]") == "j"
        opened.tab.fill("#filters [name=text]", "")
        opened.tab.focus("#list button >> nth=3")
        opened.tab.keyboard.press("Enter")
        assert opened.current == ids[3]


def test_every_span_has_its_type_in_words_and_its_place_for_a_review(browser: Any, page: Path) -> None:
    with Opened(browser, page) as opened:
        marks = opened.tab.eval_on_selector_all(
            "#document mark", "all => all.map(m => [m.querySelector('b').textContent, {...m.dataset}])"
        )
        assert marks
        for text, data in marks:
            assert text == data["type"]
            assert data["document"] == opened.current
            assert int(data["start"]) < int(data["end"])


def contrast(browser: Any, page: Path, scheme: str) -> tuple[str, str]:
    with Opened(browser, page, color_scheme=scheme) as opened:
        style = "getComputedStyle(document.body)"
        return opened.tab.evaluate(f"{style}.color"), opened.tab.evaluate(f"{style}.backgroundColor")


def test_it_is_dark_where_the_reader_wants_that(browser: Any, page: Path) -> None:
    light, dark = (contrast(browser, page, scheme) for scheme in ("light", "dark"))
    assert light[1] == "rgb(255, 255, 255)"
    assert light != dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_and_a_phone_shows_it_whole(
    browser: Any, page: Path, scheme: str, size: dict[str, int]
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with Opened(browser, page, size=size, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True) as opened:
        assert opened.tab.evaluate("document.documentElement.scrollWidth") == size["width"]
        found = axe.run(opened.tab)
        assert found.violations_count == 0, found.generate_report()


def test_on_paper_there_are_documents_and_tables_alone(browser: Any, page: Path) -> None:
    with Opened(browser, page) as opened:
        opened.tab.emulate_media(media="print")
        assert not opened.tab.is_visible("#filters")
        assert not opened.tab.is_visible("#list")
        assert opened.tab.is_visible("#document")
        assert opened.tab.pdf()


def test_it_works_in_a_frame_that_allows_scripts_alone(browser: Any, page: Path, tmp_path: Path) -> None:
    """As MLflow shows artifacts."""
    frame = tmp_path / "frame.html"
    frame.write_text("<iframe sandbox='allow-scripts' width=900 height=900></iframe>")
    tab = browser.new_page()
    tab.goto(frame.as_uri())
    show = (
        "text => { document.querySelector('iframe').src = URL.createObjectURL(new Blob([text], {type: 'text/html'})) }"
    )
    tab.evaluate(show, page.read_text())
    inner = tab.frame_locator("iframe")
    assert inner.locator("#document h3").text_content() == viewer_of(page.read_bytes())["documents"][0]["id"]
    tab.close()


def test_without_scripts_the_figures_are_there(browser: Any, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert tab.is_visible("noscript p")
    assert tab.locator("table").count() > 4
    context.close()


def test_hostile_texts_are_texts(browser: Any, tmp_path: Path) -> None:
    file = written(run_page(str(hostile_run(tmp_path / "run"))).data, tmp_path)
    with Opened(browser, file) as opened:
        assert opened.said == []
        assert opened.tab.title() == "Run run"
        assert opened.tab.locator("img").count() == 0
        assert opened.current in (HOSTILE[0], "\ufffdabc\ufffd")
        assert HOSTILE[0] in str(opened.tab.text_content("#document"))
        assert opened.tab.evaluate("document.documentElement.scrollWidth") == DESK["width"]


def test_of_a_hundred_thousand_documents_the_page_is_small_and_opens_at_once(browser: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_up_run(run, 100_000)
    begun = time.perf_counter()
    data = run_page(str(run)).data
    assert len(data) < MOST_BYTES
    with Opened(browser, written(data, tmp_path)) as opened:
        assert opened.seconds < PATIENCE
        assert len(opened.shown) > 50
    assert time.perf_counter() - begun < 240


def made_up_run(folder: Path, documents: int) -> None:
    """A run of many documents of 40 tokens, of which each has other names, and a third another answer."""
    tokens = [[f"w{(i * 31 + t * t) % 5003}" for t in range(40)] for i in range(documents)]
    labels = [
        [f"B-{'PER' if (i + t) % 3 else 'ORG'}" if t % 8 == i % 8 else "O" for t in range(40)] for i in range(documents)
    ]
    alone = [["B-LOC" if i % 3 == 0 and name != "O" else name for name in row] for i, row in enumerate(labels)]
    empty = pa.array([[]] * documents, PREDICTIONS_LAYOUT.required.field("entities").type)
    columns: dict[str, Any] = {
        "doc_id": [f"document-{i}" for i in range(documents)],
        "tokens": tokens,
        "sentence_starts": pa.array([[0, 20]] * documents, PREDICTIONS_LAYOUT.required.field("sentence_starts").type),
        "labels": labels,
        "entities": empty,
        "engine": ["certify"] * documents,
        **{name: [0.0] * documents for name in ("local", "penalty", "objective", "bound")},
        "gap": [0.5 * (i % 50 == 0) for i in range(documents)],
        "status": ["optimal"] * documents,
        "certified": [i % 50 > 0 for i in range(documents)],
        "constraints": pa.array([[]] * documents, pa.list_(VIOLATION)),
        "model_digest": ["m"] * documents,
        "constraint_digest": ["c"] * documents,
        "viterbi_labels": alone,
    }
    (folder / "predictions").mkdir(parents=True)
    write_run(folder, pa.table(columns))
