"""Tables of the log that stand beside papers' figures: what `benchmarks/papers.py` has measured.

As in `tables`, a function for each: the rows of a paper that were published, and those beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tables import TABLES, Results, Rows, against, count, plain, table

PAPERS = {
    "canisius": "Canisius",
    "chang": "Chang",
    "fersini": "Fersini",
    "finkel": "Finkel",
    "stokman": "Stokman",
}
"""How the titles of the papers begin."""

TOGETHER = "All five"

UNITS: dict[str, Callable[[float], str]] = {"pairs": count}
"""How figures are told that are neither per cent nor nats."""


def _tables_of(results: Results, begins: str) -> Iterator[Mapping[str, Any]]:
    return (own for own in results["papers"]["tables"] if own["paper"].startswith(begins))


def _told(row: Mapping[str, Any], name: str) -> str:
    return "" if row[name] is None else UNITS.get(row["figure"], plain)(row[name])


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"{plain(row['low'])} to {plain(row['high'])}"


def published(results: Results, begins: str) -> Rows:
    """Table, row, published and measured figure, interval, and where the published one lies; then what has no data."""
    for own in _tables_of(results, begins):
        rows = [row for row in own["rows"] if row["published"] is not None]
        for name in dict.fromkeys(row["name"] for row in rows if row["measured"] is not None):
            mine = [row for row in rows if row["name"] == name and row["measured"] is not None]
            figures = (" ".join(_told(row, which) for row in mine) for which in ("published", "measured"))
            lies = ", ".join(dict.fromkeys(row["lies"] for row in mine if row["lies"]))
            yield [own["table"], name, *figures, _interval(mine[0]), lies]
        absent = [row for row in rows if row["measured"] is None]
        for why in dict.fromkeys(row["why"] for row in absent):
            number = sum(row["why"] == why for row in absent)
            yield [own["table"], f"{number} figure{'s' * (number > 1)}: {why}", "", "", "", ""]


def beside(results: Results, begins: str, numbers: Sequence[str]) -> Rows:
    """Row, figure and interval of what no paper has, in some of its tables; lattices are on the page alone.

    Rows of several tables have their table first.
    """
    for own in _tables_of(results, begins):
        place = [own["table"]] if len(numbers) > 1 else []
        for row in own["rows"] if own["table"] in numbers else ():
            if row["published"] is None and row["measured"] is not None and row["column"] is None:
                yield [*place, row["name"], _told(row, "measured"), _interval(row)]


for paper, title in PAPERS.items():
    TABLES[f"{paper}-published"] = partial(published, begins=title)
for name, numbers in {
    "canisius": "234",
    "fersini-addresses": "5",
    "fersini-names": "6",
    "fersini-citations": "7",
    "finkel-names": "5",
    "finkel-talks": "6",
}.items():
    TABLES[f"{name}-beside"] = partial(beside, begins=PAPERS[name.partition("-")[0]], numbers=tuple(numbers))


def _by_size(results: Results, paper: str, number: str, names: Sequence[str]) -> Rows:
    """A line for each number of training documents, with the rows of these names: figure, and published one."""
    for own in _tables_of(results, PAPERS[paper]):
        rows = {row["name"]: row for row in own["rows"]}
        for size in ("5", "10", "20", "300") if own["table"] == number else ():
            found = (rows.get(name.format(size) if "{}" in name else f"{name}, {size}") for name in names)
            yield [size, *("" if row is None else _in_one(row) for row in found)]


def _in_one(row: Mapping[str, Any]) -> str:
    """Figure of a row, and what a paper has, or, of a difference, its interval."""
    if row["published"] is not None:
        return against(row["measured"], row["published"])
    is_difference = " less " in row["name"]
    told = plain(row["measured"], 1, "+" if is_difference else "")
    return f"{told} ({plain(row['low'], 1, '+')} to {plain(row['high'], 1, '+')})" if is_difference else told


@table
def little_gold(results: Results) -> Rows:
    """Hidden Markov models of few citations, constraints, and a pool."""
    titles = ("HMM", "L+wCI", "HMM semi-supervised", "L+wCI semi-supervised")
    return _by_size(results, "chang", "2", titles)


@table
def little_gold_ways(results: Results) -> Rows:
    """Other ways to use the same citations and pool."""
    names = (
        "L+wCI, {}, with a constraint more: a mark ends the field before it",
        "HMM, labels by marginals",
        "HMM semi-supervised, labels by marginals",
        "HMM semi-supervised by soft counts",
        "HMM semi-supervised, constraints only when answering",
        "semi-supervised under hard constraints",
    )
    return _by_size(results, "chang", "2", names)


@table
def constrained_learning(results: Results) -> Rows:
    """Perceptrons learned and answering under constraints."""
    ways = (f"{learn}{by}" for learn in ("CIBT", "wCIBT") for by in ("", ", learned by certify"))
    return _by_size(results, "chang", "3", ("L", "L+CI, counted weights", "L+CI", *ways))


@table
def orders(results: Results) -> Rows:
    """Hidden Markov models of first and second order."""
    kinds = ("first order", "second order", "second order less first")
    under = (kind.replace(" less", " under constraints less") for kind in kinds[2:])
    names = (*kinds, *(f"{kind} under constraints" for kind in kinds[:2]), *under)
    return _by_size(results, "stokman", "equation 48", names)


@table
def head_to_head(results: Results) -> Rows:
    """Each engine on each corpus: the first figure, nats from the proven optimum, and CPU seconds."""
    parts = {own["table"]: own["rows"] for own in _tables_of(results, TOGETHER)}
    for engine in dict.fromkeys(row["name"] for rows in parts.values() for row in rows):
        cells = [_raced(parts.get(number, []), engine) for number in ("names", "announcements", "citations")]
        yield [f"`{engine}`", *cells]


def _raced(rows: Sequence[Mapping[str, Any]], engine: str) -> str:
    own = {row["figure"]: _told(row, "measured") for row in reversed(rows) if row["name"] == engine}
    first = next((_told(row, "measured") for row in rows if row["name"] == engine), None)
    return "not measured yet" if first is None else f"{first}; {own['objective']}; {own['cpu']}"


@table
def papers_cost(results: Results) -> Rows:
    """CPU seconds by table."""
    for own in results["papers"]["tables"]:
        if own["cpu_seconds"]:
            yield [own["paper"], own["table"], plain(own["cpu_seconds"], 0)]


@table
def csi(results: Results) -> Rows:
    """Candidates of memory-based trigrams: table 5 of Canisius et al. (2011), and the oracle of table 2."""
    parts = [results["csi_chunks"], results["csi_names"]]
    yield "F1 of the best labelling", *(against(own["oracle"], p) for own, p in zip(parts, (96.2, 88.9), strict=True))
    right = zip(parts, (88.2, 92.3), strict=True)
    yield "trigrams right", *(against(100.0 * own["trigrams_right"], p) for own, p in right)
    told = [
        f"{against(own['sequences_mean'], p)}, {own['sequences_median']:.0f}, {own['sequences_largest']:,.0f}"
        for own, p in zip(parts, (57.8, 19.1), strict=True)
    ]
    yield "labellings of a sentence: mean, median, most", *told
