"""Reports as pages in Markdown, for Prefect and MLflow: a line, tags and a page, all without secrets."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from typing import NamedTuple
from urllib.parse import quote

from concord.schemas.blocks import AnyBlock, Headline, Passage, Remark, Table, Tone
from concord.schemas.nights import MonthReport
from concord.schemas.run_report import RunReport
from concord.schemas.secrets import redact
from concord.schemas.shown import Report, headline_first, marked_text
from concord.schemas.visible import visible

ADDRESS = ":/?#@!$&'*+,;=%~"
"""Characters that stay as they are in the address of a link, beside letters and digits."""

INTERRUPTED = "interrupted; the same command again does what is left"
"""What is shown of a run that a signal has ended."""


class Page(NamedTuple):
    """The line and the page of a run that has ended.

    - ``name``: what the run is about, the same every night
    - ``headline``: one line
    - ``markdown``: the page
    - ``tags``: what runs are looked for by
    - ``title``: what the run came to, in the few words that tell it from others in a list; empty for most
    """

    name: str
    headline: str
    markdown: str
    tags: tuple[str, ...] = ()
    title: str = ""


def page_of(report: object) -> Page | None:
    """The page of a report; None for what is none."""
    if not isinstance(report, Report):
        return None
    text = report.markdown if isinstance(report, MonthReport) else markdown(report.subject, report.blocks())
    title = report.title if isinstance(report, RunReport) else ""
    return Page(redact(report.subject), line_of(report.headline), text, report.page_tags, title)


def cancelled_page(name: str) -> Page:
    """The page of a run that a signal has ended, and of which no report is known; ``name``: what the run is about."""
    return Page(redact(name), INTERRUPTED, markdown(name, [Headline(INTERRUPTED)]), ("cancelled",))


def markdown(title: str, blocks: Iterable[AnyBlock]) -> str:
    """Blocks as a page in Markdown; no text in them is markup."""
    parts = [f"# {cell(title)}", *map(_markdown, headline_first(blocks))]
    return "\n\n".join(parts) + "\n"


def line_of(text: str) -> str:
    """A text of whatever origin in one line, without secrets and control characters."""
    return " ".join(visible(redact(text)).split())


def cell(text: str) -> str:
    """A text without secrets that is no markup: it may come from a corpus or a file."""
    plain = line_of(text)
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in plain)


@singledispatch
def _markdown(block: AnyBlock) -> str:
    raise TypeError(f"no page shows {block!r}")


@_markdown.register
def _(block: Headline) -> str:
    return cell(block.text)


@_markdown.register
def _(block: Remark) -> str:
    text = cell(block.text)
    if block.link is not None:
        text = f"[{text}]({quote(redact(block.link), safe=ADDRESS)})"
    return f"**{text}**" if block.tone is Tone.WRONG else text


@_markdown.register
def _(block: Table) -> str:
    lines = [block.heads, ["---:" if column.figures else "---" for column in block.columns]]
    rows = [f"| {' | '.join(map(cell, line))} |" for line in (*lines, *(one.cells for one in block.rows))]
    title = [f"## {cell(block.title)}\n"] if block.title else []
    return "\n".join([*title, *rows])


@_markdown.register
def _(block: Passage) -> str:
    return cell(block.lead + marked_text(block.text, block.entities))
