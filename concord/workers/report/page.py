"""Sections and documents as one HTML file, which needs no network and no second file."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from concord.schemas.blocks import Remark, Table, Tone
from concord.schemas.secrets import redact
from concord.schemas.visible import visible
from concord.workers.report.sections import PageChart, PageSection

TEMPLATE, SCRIPT = "page.html", "page.js"
"""Files beside this one; the template includes the style, and the script if there is something to draw."""


class PageTitle(NamedTuple):
    """The head of a page: what it is about, what it comes to in a line, and its first facts, each with a name."""

    title: str
    headline: str
    facts: Sequence[tuple[str, str]] = ()


class LivePart(NamedTuple):
    """The part of a page that a script draws.

    - ``name``: of its files beside this one: markup (``.html``), style (``.css``) and script (``.js``)
    - ``content``: what the script is given, as JSON has it
    - ``words``: what the markup says
    """

    name: str
    content: Mapping[str, Any]
    words: Mapping[str, str]


def viewer(layers: Sequence[str], documents: Sequence[Mapping[str, Any]], total: int) -> LivePart | None:
    """The viewer of documents; None where there are none.

    - ``layers``: names of the labellings, in the order in which documents have them
    - ``documents``: see `workers.report.viewed.viewed`
    - ``total``: number of documents of the run
    """
    words = {"shown": f"{len(documents):,}", "total": f"{total:,}"}
    return LivePart("viewer", {"layers": layers, "documents": documents}, words) if documents else None


def page(head: PageTitle, sections: Sequence[PageSection], part: LivePart | None = None) -> bytes:
    """The page; the same content gives the same bytes. Texts in it are no markup and have no secrets."""
    environment = _environment()
    scripts = () if part is None else (SCRIPT, f"{part.name}.js")
    script = "".join(environment.get_template(name).render() for name in scripts)
    text = environment.get_template(TEMPLATE).render(
        head=head,
        sections=sections,
        part=part,
        scripts=scripts,
        data=None if part is None else packed(part.content),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text.encode()


def packed(content: Mapping[str, Any]) -> str:
    """JSON, compressed, in letters that no markup has."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()


def printable(text: str) -> str:
    """A text in the page: without secrets and without characters that steer what shows it."""
    return visible(redact(text))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.filters["percent"] = lambda fraction: f"{100 * max(0.0, min(1.0, fraction)):.2f}"
    environment.tests |= {
        "chart": lambda block: isinstance(block, PageChart),
        "rows": lambda block: isinstance(block, Table),
        "remark": lambda block: isinstance(block, Remark),
        "strong": lambda tone: tone is Tone.STRONG,
    }
    return environment
