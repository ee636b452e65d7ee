"""What a notebook shows: results as escaped HTML, errors in a line, progress in its place."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from concord.flows.cluster.deaths import ClusterError
from concord.flows.cluster.reaching import reach
from concord.flows.errors import ShardsFailedError
from concord.flows.screen import in_place
from concord.flows.watched import watched
from concord.predictions import PredictedDocument
from concord.schemas.audit import ConstraintEffect, Explanation, LabelChange
from concord.schemas.errors import FlowInterrupt, InputError
from concord.schemas.labelled import LabelledText
from concord.schemas.requests import FlowRequest
from concord.schemas.shown import COLOURS, INK
from concord.workers.corpus.ingestion import IngestReport
from tests.support.made_reports import run_report

SCRIPT = "<script>alert(1)</script>"
ALLOWED = {"p", "br", "mark", "small", "table", "caption", "thead", "tbody", "tr", "th", "td", "div", "progress"}


class Tags(HTMLParser):
    """The tags of a page, its text, and how many are open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"style", "value", "max"}
        assert "url(" not in str(attrs)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Tags:
    """A fragment of HTML, whole and without a tag of the text's own."""
    found = Tags(html)
    assert set(found.tags) <= ALLOWED
    assert found.open == []
    return found


def answer() -> LabelledText:
    entity = {"type": SCRIPT, "start": 0, "end": 1, "char_start": 0, "char_end": len(SCRIPT), "text": SCRIPT}
    return LabelledText.model_validate(
        {
            "doc_id": SCRIPT,
            "text": f"{SCRIPT} & more",
            "tokens": (SCRIPT, "&", "more"),
            "sentence_starts": (0,),
            "labels": ("B-X", "O", "O"),
            "viterbi_labels": ("O", "O", "O"),
            "entities": [entity],
            "viterbi_entities": [],
            "viterbi_local": 0.0,
            "viterbi_penalty": 0.0,
            "score": 1.0,
            "local": 2.5,
            "penalty": 1.5,
            "bound": 1.0,
            "gap": 0.0,
            "status": "optimal",
            "constraints": [
                {"name": SCRIPT, "degree": 2.0, "penalty": 1.5},
                {"name": "held", "degree": 0.0, "penalty": 0.0},
            ],
        }
    )


def test_a_text_is_no_markup_and_shows_what_it_breaks() -> None:
    shown = read(answer()._repr_html_())
    assert SCRIPT in shown.text
    assert f"breaks {SCRIPT}: degree 2, penalty 1.5 nats" in shown.text
    assert "held" not in shown.text
    assert repr(answer()).splitlines()[-1] == f"breaks {SCRIPT}: degree 2, penalty 1.5 nats"


def test_a_document_of_a_run_is_no_markup_and_shows_what_it_breaks() -> None:
    entity: Mapping[str, Any] = {"type": "PER", "start": 0, "end": 1, "text": SCRIPT}
    broken: list[Mapping[str, Any]] = [{"name": SCRIPT, "degree": 1.0, "penalty": 3.0}]
    row = {"tokens": [SCRIPT]}
    shown = read(PredictedDocument(SCRIPT, [SCRIPT], [], [entity], broken, 1.0, 0.0, "optimal", row)._repr_html_())
    assert shown.text == (
        f"{SCRIPT} PER{SCRIPT}: optimal: no labelling scores higherbreaks {SCRIPT}: degree 1, penalty 3 nats"
    )


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    full = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    parts = [int(full[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_marked_text_can_be_read_on_dark_and_light_pages() -> None:
    assert re.findall(r"background:(#\w+);color:(#\w+)", answer()._repr_html_()) == [(COLOURS[0], INK)]
    for colour in COLOURS:
        assert (luminance(colour) + 0.05) / (luminance(INK) + 0.05) > 7, colour


def test_a_run_shows_its_counts_reuse_penalty_and_place() -> None:
    report = run_report(
        documents=10, labelled=4, shards_done=1, certified=0.9, penalty_before=8.25, penalty=1.5, out=f"/{SCRIPT}"
    )
    shown = read(report._repr_html_()).text
    assert shown.startswith("labelled 4 of 10 documents; 90.0% certified")
    assert "8.2 → 1.5" in shown
    assert shown.endswith(f"predictions in /{SCRIPT}MLflow run run")


def test_reports_and_explanations_are_tables() -> None:
    change = LabelChange(position=0, token=SCRIPT, without="O", label="PER")
    effect = ConstraintEffect(name=SCRIPT, degree_before=1.0, degree=0.0, penalty=0.0, cost=0.5, changes=(change,))
    local = effect.model_copy(update={"degree": None, "penalty": None})
    made = Explanation(
        doc_id="d",
        tokens=(SCRIPT,),
        gold=None,
        unconstrained=("O",),
        labels=("PER",),
        local=0.0,
        penalty=0.0,
        cost=0.25,
        gap=0.0,
        status="optimal",
        effects=(effect, local),
    )
    shown = read(made._repr_html_()).text
    assert f"{SCRIPT}1000.5{SCRIPT} O → PER{SCRIPT}1––0.5{SCRIPT} O → PER" in shown
    assert f"together00.25{SCRIPT} O → PER" in shown
    assert "read3" in read(IngestReport(read=3)._repr_html_()).text
    assert repr(IngestReport(read=3)).splitlines()[1].split() == ["read", "3"]


class Cells(InteractiveShell):
    """IPython as a kernel runs it: what each cell shows of its error."""

    told: tuple[str, ...] = ()

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        self.told += tuple(stb)

    def run(self, code: str) -> str:
        self.told = ()
        self.run_cell(code)  # type: ignore[no-untyped-call]
        return "\n".join(self.told)


def test_an_error_is_one_line_and_its_traceback_is_kept() -> None:
    cells = Cells()  # type: ignore[no-untyped-call]
    cells.run("import concord")
    line = cells.run('concord.read_predictions("nowhere")')
    assert line.partition(": ")[0].endswith("Error")
    assert "nowhere" in line
    assert line.count("\n") == 0
    whole = cells.run("%tb")
    assert "Traceback (most recent call last)" in whole
    assert whole.splitlines()[-1].endswith(line.partition(": ")[2])
    assert cells.run("raise OSError").count("\n") > 1  # those of others are as they were


def test_every_error_of_ours_is_a_line_without_secrets_or_signals() -> None:
    told = InputError("postgresql://me:secret@host/x \x1b[31m")
    (line,) = told._render_traceback_()
    assert "secret" not in line
    assert "\x1b" not in line
    failed = ShardsFailedError(run_report(shards_failed=1, errors=("a: b",)))
    assert failed._render_traceback_() == ["ShardsFailedError: 1 of 1 shards failed: a: b"]


def test_an_interrupt_stays_one_and_is_a_line() -> None:
    @watched("label", FlowRequest, run_name="label")
    def label(_request: FlowRequest) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        label()
    assert isinstance(caught.value, FlowInterrupt)
    assert caught.value._render_traceback_() == [
        "FlowInterrupt: label was interrupted; the same call does what is not done yet"
    ]


def test_the_client_of_ray_is_refused_in_a_line() -> None:
    with pytest.raises(ClusterError, match=r"^ray://head:10001: .*HOST:PORT.*ray job submit") as caught:
        reach("ray://head:10001")
    assert "\n" not in str(caught.value)


class Displays:
    """Stands for IPython's display."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        self.places = 0

    def display(self, content: dict[str, str], *, raw: bool, display_id: bool) -> Displays:
        assert raw
        assert display_id
        self.places += 1
        self.shown.append(content)
        return self

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(content)


def test_a_bar_stays_in_one_place_and_ends_as_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    displays, now = Displays(), 100.0
    modules: dict[str, Any] = {"IPython.display": displays}
    monkeypatch.setattr(in_place, "import_module", modules.__getitem__)
    monkeypatch.setattr("time.monotonic", lambda: now)
    bar = in_place.InPlaceBar()
    bar.draw(SCRIPT, 0, 4)
    bar.draw("too soon", 1, 4)
    now += 1
    bar.draw("unknown", 1, None)
    bar.draw(SCRIPT, 4, 4, last=True)
    assert displays.places == 1
    assert [one["text/plain"] for one in displays.shown] == [SCRIPT, "unknown", SCRIPT]
    htmls = [one["text/html"] for one in displays.shown]
    assert [read(html).tags for html in htmls] == [["div", "progress"], ["div", "progress"], ["div"]]
    assert ['value="0" max="4"' in html for html in htmls] == [True, False, False]


def test_without_a_notebook_nothing_of_ipython_is_imported() -> None:
    script = "import sys, concord.flows.screen.progress; print('IPython' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
