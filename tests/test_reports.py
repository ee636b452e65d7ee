"""Contract of reports: each says what it has to tell, and a terminal, a page and a notebook show all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import concord.flows.cli.app
import concord.schemas.audit
import concord.schemas.challenge
import concord.schemas.codl
import concord.schemas.doctor
import concord.schemas.labelled
import concord.schemas.nights
import concord.schemas.published
import concord.schemas.reports
import concord.schemas.run_report
import concord.schemas.sweep
import concord.schemas.train_report  # noqa: F401
from concord.flows.screen.pages import cell, page_of
from concord.flows.screen.terminal import show_report
from concord.schemas.blocks import AnyBlock, Headline, Passage, Remark, Table
from concord.schemas.nights import MonthReport
from concord.schemas.shown import Report
from concord.schemas.visible import visible

HOSTILE = "<b>*x*</b>\x1b[31m|`_[link](y)\u202e"
"""A text that would be markup in HTML and Markdown, and steer a terminal."""


def classes(of: type[Report] = Report) -> Iterator[type[Report]]:
    """Every report of the package, and every part of one."""
    for kind in of.__subclasses__():
        if kind.__module__.startswith("concord."):
            yield kind
        yield from classes(kind)


EVERY = sorted(set(classes()), key=lambda kind: kind.__name__)
SAYING = [kind for kind in EVERY if kind.blocks is not Report.blocks]
"""Reports that say more than the values of their fields."""


def made(kind: type[Report], *, full: bool) -> Report:
    """A report whose texts are all hostile; ``full``: with all that need not be there."""
    fields = {
        name: _value(field.annotation, full=full, name=name)
        for name, field in kind.model_fields.items()
        if full or field.is_required()
    }
    return kind.model_validate(fields | GIVEN.get(kind.__name__, {}))


GIVEN: dict[str, dict[str, Any]] = {
    # Fields that belong together.
    "ClusterReport": {"clusterings": (HOSTILE,), "examples": [[HOSTILE]]},
    "Explanation": dict.fromkeys(("tokens", "unconstrained", "labels", "gold"), (HOSTILE,)),
    "MonthReport": {"markdown": "the page"},
    "RunReport": {"search_errors": dict.fromkeys(("search", "model", "open"), 1)},
    "EvaluationReport": {
        "entity_changes": dict.fromkeys(("fixed", "broken", "removed", "added"), 1),
        "token_changes": dict.fromkeys(("fixed", "broken", "both_wrong"), 1),
    },
    "MeasureReport": {
        name: dict.fromkeys(("macro_precision", "macro_recall", "macro_f1", "overlap"), 0.5)
        for name in ("figures", "viterbi")
    }
    | {"intervals": {"macro_f1": (0.25, 0.75)}},
    "ReviewQuestion": {"entities": ({"type": HOSTILE, "start": 0, "end": 1},)},
}


def _value(kind: Any, *, full: bool, name: str) -> Any:
    """A value of a type."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Report):
        return made(kind, full=full)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind()
    if origin is Literal:
        return parts[0]
    if origin is UnionType or type(None) in parts:
        some = next(part for part in parts if part is not type(None))
        return _value(some, full=full, name=name) if full or type(None) not in parts else None
    if origin is tuple:
        return tuple(_value(part, full=full, name=name) for part in parts if part is not Ellipsis)
    if origin is list:
        return [_value(parts[0], full=full, name=name)]
    if origin is not None and len(parts) == 2:
        return {_value(parts[0], full=full, name=name): _value(parts[1], full=full, name=name)}
    if isinstance(kind, type) and issubclass(kind, bool):
        return full
    if isinstance(kind, type) and hasattr(kind, "__members__"):
        return next(iter(kind.__members__.values()))
    if isinstance(kind, type) and issubclass(kind, tuple):  # a named one
        return kind(*(_value(part, full=full, name=name) for part in get_type_hints(kind).values()))
    plain: dict[Any, Any] = {int: 1, float: 0.5, str: HOSTILE, Any: HOSTILE, Remark: Remark(HOSTILE)}
    return plain[kind]


def texts(block: AnyBlock) -> Iterator[str]:
    """All that a block says."""
    match block:
        case Headline():
            yield block.text
        case Remark():
            yield block.text
        case Table():
            yield from (block.title, *block.heads)
            yield from (text for one in block.rows for text in one.cells)
        case Passage():
            yield block.lead
            yield from (str(entity["type"]) for entity in block.entities)


def letters(text: str) -> str:
    """The text without what a line break or a fold changes."""
    return re.sub(r"\s", "", text)


class Plain(HTMLParser):
    """The text of HTML, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.tags = "", set[str]()
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)


def test_all_reports_are_of_one_base() -> None:
    kinds = {kind.__name__ for kind in EVERY}
    assert len(kinds) == len(EVERY) > 60
    answers = {name for name in kinds if name.endswith(("Report", "Plan")) or name in ("Explanation", "LabelledText")}
    parts = {"OptionReport", "EntryReport", "EngineReport", "ShardReport", "MeasureReport", "ConsistencyReport"}
    parts |= {"LayersReport", "RulesReport", "SearchReport", "TemperatureReport", "OutsideCostReport"}
    assert answers - {kind.__name__ for kind in SAYING} == parts


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", SAYING, ids=lambda kind: kind.__name__)
def test_a_report_shows_all_that_it_says_everywhere(
    kind: type[Report], full: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20000")
    report = made(kind, full=full)
    blocks = list(report.blocks())
    assert sum(isinstance(block, Headline) for block in blocks) == 1
    show_report(report)
    printed = letters(capsys.readouterr().out)
    page, notebook, text_of_it = page_of(report), Plain(report._repr_html_()), str(report)
    if kind.__repr__ is Report.__repr__:  # others say their text with its entities
        assert sorted(letters(text_of_it)) == sorted(printed), "in tables, cells may be folded"
        assert "\x1b" not in text_of_it
    assert page is not None
    for block in blocks:
        for text in texts(block):
            for word in visible(text).split():
                assert word in printed or (isinstance(block, Table) and block.detail)
                assert word in notebook.text
            if not isinstance(report, MonthReport):
                assert letters(cell(text)) in letters(page.markdown), text
    assert not notebook.tags - {"p", "table", "caption", "thead", "tbody", "tr", "th", "td", "mark", "small", "a", "br"}
    assert "\x1b" not in printed + page.markdown + notebook.text
    assert "<b>" not in page.markdown.replace("\\<", "")


def test_what_a_report_says_beside_its_json_is_not_in_it() -> None:
    for kind in EVERY:
        hidden = [name for name, field in kind.model_fields.items() if _is_hidden(field)]
        assert not set(hidden) & set(made(kind, full=True).model_dump()) if hidden else True


def _is_hidden(field: FieldInfo) -> bool:
    return bool(field.exclude)


class _Sum(Report):
    """A report of two results."""

    count: int
    share: float


class _Counted(BaseModel):
    count: int = 2


class _Shared(BaseModel):
    count: int = 3
    share: float = 0.5


def test_a_field_that_two_results_have_is_given_by_name() -> None:
    with pytest.raises(TypeError, match="_Sum: _Counted and _Shared have 'count'"):
        _Sum.from_results(_Counted(), _Shared())
    assert _Sum.from_results(_Counted(), _Shared(), count=4) == _Sum(count=4, share=0.5)
