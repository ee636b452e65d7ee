"""Pages for people as HTML, whole in one file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .2em .7em; text-align: left; vertical-align: top; }}
{style}</style></head><body>
<h1>{title}</h1>"""


def html_page(title: str, body: Iterable[str], *, style: str = "") -> str:
    """The page of this title.

    - ``body``: its lines below the title, as HTML
    - ``style``: rules of CSS beside those of all pages, each with its line break
    """
    return "\n".join([HEAD.format(title=escape(title), style=style), *body, "</body></html>"]) + "\n"
