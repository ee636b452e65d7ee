"""Fills the tables of the log and of the docs in from ``benchmarks/results``, so that no figure is older than its run.

A table stands between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``. Its head is the page's own, its rows
are those of the function NAME in `tables` or `paper_tables`.

    python benchmarks/figures.py            # writes the tables
    python benchmarks/figures.py --check    # tells tables that differ from their results; a test runs it
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import paper_tables  # noqa: F401 - registers its tables
from tables import TABLES

HERE = Path(__file__).resolve().parent
FOLDERS = (HERE / "results", HERE.parent / "docs")
"""The log, and the pages of the site, which show few of its tables."""

MARKED = re.compile(
    r"(<!-- figures: (\S+) -->\n\n(\|[^\n]*\|)\n\|[-:|]+\|\n)(.*?)\n\n(<!-- end of figures -->)", re.DOTALL
)
"""A table between its marks: all to the rule below its head, name, head, rows."""


def results() -> dict[str, Any]:
    """What each benchmark wrote, by the name of its file."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "results").glob("*.json"))}


def rows(name: str, head: str, given: Mapping[str, Any]) -> str:
    """The rows of a table in Markdown. Raises `KeyError` for what the results do not have."""
    columns = head.count("|") - 1
    found = list(TABLES[name](given)) or [["not measured yet", *[""] * (columns - 1)]]
    if any(len(row) != columns for row in found):
        raise SystemExit(f"table {name}: a row has other columns than the {columns} of the page")
    return "\n".join(re.sub(r" +(?= \|)", "", f"| {' | '.join(row)} |") for row in found)


def pages() -> Iterator[tuple[Path, str]]:
    """Yields the pages that have tables, with the rows filled in. A table without a page is an error."""
    given, left = results(), set(TABLES)
    for path in sorted(page for folder in FOLDERS for page in folder.glob("*.md")):

        def filled(found: re.Match[str]) -> str:
            start, name, head, _, end = found.groups()
            left.discard(name)
            return f"{start}{rows(name, head, given)}\n\n{end}"

        text, number = MARKED.subn(filled, path.read_text())
        if number:
            yield path, text
    if left:
        raise SystemExit(f"tables.py: no page has {', '.join(sorted(left))}")


def main() -> None:
    """Writes the pages, or says which ones would change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table differs")
    check = parser.parse_args().check
    stale = [(path, text) for path, text in pages() if text != path.read_text()]
    for path, text in stale:
        name = path.relative_to(HERE.parent)
        if check:
            lines = set(path.read_text().splitlines())
            print(f"{name}: these rows follow from the results, and are not there:")
            print(*(line for line in text.splitlines() if line not in lines), sep="\n")
        else:
            path.write_text(text)
            print(f"{name}: filled in")
    if check and stale:
        sys.exit("run `python benchmarks/figures.py`")


if __name__ == "__main__":
    main()
