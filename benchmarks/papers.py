"""Measures published tables again, and keeps their rows for the log in ``benchmarks/results``.

Corpora, models and cells stay in ``build/benchmarks/papers``: the same command again does only what is left. Tables
that were not asked for keep the rows that they have.

    python benchmarks/papers.py
    python benchmarks/papers.py chang
    python benchmarks/papers.py finkel --table 5
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import MADE, REAL, concord, known_figures, save

from concord.workers.published.paper_file import ALL, papers_of

NAME = "papers"
"""Of the results."""


def main() -> None:
    """Runs `concord papers`, and adds its tables to those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paper", nargs="?", choices=[*papers_of(ALL), ALL], default=ALL)
    parser.add_argument("--table", help="number of one table (default: all)")
    parser.add_argument("--out", type=Path, default=MADE / NAME)
    chosen = parser.parse_args()
    table = () if chosen.table is None else ("--table", chosen.table)
    report = concord("papers", chosen.paper, *table, "--data", REAL, "--out", chosen.out)
    kept = {_place(one): one for one in (*_there(), *report["tables"])}
    tables = [kept[place] for place in sorted(kept, key=_order)]
    save(NAME, {"cpu_seconds": sum(one["cpu_seconds"] for one in tables), "tables": tables})


def _there() -> list[dict[str, Any]]:
    """Tables that were measured before."""
    return list(known_figures(NAME).get("tables", []))


def _place(table: dict[str, Any]) -> tuple[str, str]:
    return table["paper"], table["table"]


def _order(place: tuple[str, str]) -> tuple[str, int, str]:
    paper, number = place
    return paper, int(number) if number.isdigit() else 100, number


if __name__ == "__main__":
    main()
