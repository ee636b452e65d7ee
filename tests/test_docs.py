"""What README and docs name is there: commands, options, engines, files; and what they declare can be used."""

from __future__ import annotations

import re
import shlex
import statistics
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from concord.flows.cli.app import app
from concord.flows.inputs.options import OptionError, option_values, parse_options
from concord.schemas.codl import CodlSettings
from concord.schemas.run import ENGINE
from concord.schemas.settings import Settings
from concord.workers.constraints.constraint_file import parse_constraints
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.features.settings import ClusterSettings, PhraseSettings, TreeSettings
from concord.workers.features.templates import PAPER_SETS, SUMMARIES
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.mining.registry import MINERS
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.weights.penalties import PENALTIES

ROOT = Path(__file__).parents[1]
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md")
LOG = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
"""What was measured: no part of the site."""
PAGES = [*(ROOT / name for name in TOP), *sorted((ROOT / "docs").glob("*.md")), *LOG]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    (\S.*)$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
BEFORE = re.compile(r"(?<=\n)  \|[^|\n]*\|(?=[^|\n]*\|\n)")
"""The first of two columns of an indented table: how something was written once."""
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def code(page: Path) -> Iterator[str]:
    """Every command line and code span of a page, in one line each."""
    text = page.read_text()
    for _, block in FENCE.findall(text):
        yield from block.replace("\\\n", " ").splitlines()
    prose = BEFORE.sub("|", FENCE.sub("", text))
    yield from INDENTED.findall(prose)
    yield from (" ".join(span.split()) for span in SPAN.findall(prose))


@cache
def options() -> dict[str, set[str]]:
    """The options of every command by its name (``constraints check``); under "" those of them all."""
    found: dict[str, set[str]] = {}

    def walk(command: Any, name: str) -> None:
        found[name] = {text for part in command.params for text in (*part.opts, *part.secondary_opts)} | {"--help"}
        for below, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{name} {below}".strip())

    walk(typer.main.get_command(app), "")
    found[""] |= set[str]().union(*found.values())
    return found


@cache
def benchmark_options() -> set[str]:
    """Those of all scripts: they share a few."""
    texts = (path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))
    return {option for text in texts for option in re.findall(r'"(--[a-z0-9-]+)"', text)}


def known_options(line: str) -> set[str] | None:
    """The options that a line of code may name; None where it is another program's."""
    if "benchmarks/" in line:
        return benchmark_options()
    words = shlex.split(line, comments=True, posix=False)
    if words and words[0].endswith("concord"):
        called = " ".join(words[1:])
        return next(options()[name] for name in sorted(options(), reverse=True) if called.startswith(name))
    return options()[""] | benchmark_options() if line.startswith("--") else None


COMPARED = (*(name for name, solver in SOLVERS.items() if solver.comparison), *PAPER_SETS)
"""Engines and feature sets that stand for the comparison with a paper, or for that of engines."""
COMPARING = ("benchmarks", "changelog", "papers", "quality", "speed")
"""Pages of which that is the subject."""


def shown() -> Iterator[tuple[str, str]]:
    """Every command that a page, a help text, the demonstration or a file to start with shows, and where."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        if page.stem not in COMPARING:
            for _, block in FENCE.findall(page.read_text()):
                yield from ((str(page.relative_to(ROOT)), line) for line in block.replace("\\\n", " ").splitlines())
    flows = ROOT / "concord" / "flows"
    for file in [flows / "cli" / "demo.py", *(flows / "starting").glob("*.yaml")]:
        yield from ((file.name, line) for line in file.read_text().splitlines())
    yield from (("help", epilog) for epilog in epilogs())


def epilogs() -> Iterator[str]:
    """The example of every command."""

    def walk(command: Any) -> Iterator[str]:
        if command.epilog:
            yield command.epilog
        for inner in getattr(command, "commands", {}).values():
            yield from walk(inner)

    return walk(typer.main.get_command(app))


def worse(line: str) -> str | None:
    """What a command line shows though we would choose something else; None for nothing."""
    engine = re.search(r"(?:--engine |\bengine: )([a-z-]+)", line)
    if engine is not None and engine[1] in COMPARED:
        return engine[1]
    features = re.search(r"(?:--features |\bfeatures: ?|\"features\": \")([a-z+-]+)", line)
    sets = set() if features is None else set(features[1].split("+"))
    if sets & set(COMPARED) and "--trainer semicrf" not in line:  # that trainer's whole point is a comparison
        return "+".join(sorted(sets & set(COMPARED)))
    return "core alone" if "core" in sets and not sets >= {"mentions", "entities"} else None


@pytest.mark.parametrize(
    "line",
    [
        "concord train --corpus c/ --features finkel --out m/",
        'options={"features": "finkel"},',
        "  a: {options: {features: core}}",
        "concord train --features core+pos+mentions --out m/",
        "concord reprocess --engine beam --out out/",
    ],
)
def test_a_choice_that_is_worse_than_the_default_is_seen(line: str) -> None:
    assert worse(line)


def test_examples_show_what_we_would_choose() -> None:
    lines = list(shown())
    assert len(lines) > 400
    assert not [f"{place}: {line.strip()}" for place, line in lines if worse(line)]


def anchors(page: Path) -> set[str]:
    """What the headings of a page are reached by, as most hosts make it of their words."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_an_anchor_is_made_of_the_words_of_a_heading(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A tour, by `use`\n```\n# no heading\n```\n## What it shows\n")
    assert anchors(tmp_path / "a.md") == {"a-tour-by-use", "what-it-shows"}


@pages
def test_every_option_that_is_named_is_there(page: Path) -> None:
    for line in code(page):
        known = known_options(line)
        strange = set() if known is None else set(FLAG.findall(line)) - known
        assert not strange, f"{page.name}: {line}: {strange}"


@pages
def test_every_command_that_is_named_is_there(page: Path) -> None:
    names = {name.split()[0] for name in options() if name}
    for line in code(page):
        called = re.match(r"(?:\S+/)?concord (?!-)(\S+)", line)
        assert called is None or called[1].isupper() or called[1] in names, f"{page.name}: {line}"
        engine = re.search(r"--engine ([a-z-]+)", line)
        assert engine is None or engine[1] in SOLVERS, f"{page.name}: {line}"


@pages
def test_every_link_and_file_is_there(page: Path) -> None:
    text = page.read_text()
    for target, anchor in LINK.findall(FENCE.sub("", text)):
        if "://" in target:
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}#{anchor}"
    for span in SPAN.findall(FENCE.sub("", text)):
        named = re.fullmatch(r"(?:docs|flows|workers|schemas|infra|benchmarks|tests)/[\w./-]*", span)
        assert named is None or (ROOT / span).exists() or "NAME" in span, f"{page.name}: {span}"


def test_the_examples_of_the_page_on_constraints_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for language, block in FENCE.findall((ROOT / "docs" / "constraints.md").read_text()):
        if language == "yaml":
            assert len(parse_constraints(block, file="docs/constraints.md").names) >= 1
        else:
            assert language == "python"
            exec(compile(block, "docs/constraints.md", "exec"), {})


def test_every_option_of_a_command_line_can_be_given_as_it_is_written() -> None:
    entries: list[Any] = [
        entry for registry in (SOLVERS, TRAINERS, READERS, WRITERS, PENALTIES, MINERS) for entry in registry.values()
    ]
    kinds: list[type[Settings]] = [
        PhraseSettings,
        ClusterSettings,
        CodlSettings,
        TreeSettings,
    ]
    kinds += {entry.settings for entry in entries}
    said = 0
    for page in PAGES:
        for line in code(page):
            for word in re.findall(r"--set ('[^']*=[^']*'|[^\s='…]+=[^\s'…]+)", line):
                (pair,) = shlex.split(word)
                if "$" not in pair and not re.search(r"\bNAME=|=VALUE\b", pair):
                    assert any(_takes(kind, pair) for kind in kinds), f"{page.name}: --set {word}"
                    said += 1
    assert said > 50


def _takes(kind: type[Settings], pair: str) -> bool:
    try:
        option_values([pair], kind, owner="this")
    except OptionError:
        return False
    return True


def test_every_engine_is_on_the_page_on_engines() -> None:
    text = (ROOT / "docs" / "engines.md").read_text()
    assert not [name for name in SOLVERS if f"`{name}`" not in text]


def races() -> Iterator[dict[str, tuple[float, float]]]:
    """Mean gap in nats and mean CPU time in ms of each engine, in each race of the log."""
    text = (ROOT / "benchmarks" / "results" / "speed.md").read_text()
    for block in re.findall(r"<!-- figures: race-\w+ -->\n(.*?)<!-- end", text, re.DOTALL):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.strip().splitlines()[2:]]
        yield {row[0]: (float(row[2]), float(row[5].replace(",", ""))) for row in rows}


def test_no_engine_is_recommended_that_loses_in_every_race() -> None:
    """By gap and by time, to the default."""
    found = list(races())
    assert len(found) == 2
    losers = {name for name in found[0] if all(r[name] >= r[ENGINE] and r[name][1] > r[ENGINE][1] for r in found)}
    assert {"beam", "astar", "discrepancy", "evolution", "anytime", "csp", "cpsat"} == losers
    text = (ROOT / "docs" / "engines.md").read_text()
    recommended = text.partition("| use it |")[2].partition("\n\n")[0]
    assert not [name for name in losers if f"`{name}`" in recommended]


def test_every_feature_set_is_on_the_page_on_features() -> None:
    text = (ROOT / "docs" / "features.md").read_text()
    assert not [name for name in SUMMARIES if f"`{name}`" not in text]


def test_the_page_on_readers_names_them_all_and_its_options_are_theirs() -> None:
    page = ROOT / "docs" / "readers.md"
    assert not [name for name in READERS if f"`{name}`" not in page.read_text()]
    for line in code(page):
        if line.startswith("concord ingest ") and "READER" not in line:
            words = shlex.split(line, comments=True)
            pairs = [value for option, value in pairwise(words) if option == "--set"]
            parse_options(pairs, READERS[words[2]].settings, owner=words[2])


SITE = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "reference"]
"""The pages of the site that are written by hand."""


def title_of(page: Path) -> str | None:
    found = re.match(r"# (.+)\n", page.read_text())
    return None if found is None else found[1]


def test_pages_are_short_and_what_was_measured_is_elsewhere() -> None:
    """Pages say what a user should do; a table of figures belongs to the log, but for two."""
    words = {page.name: len(page.read_text().split()) for page in SITE}
    assert sum(words.values()) <= 48_000
    assert not [name for name, count in words.items() if count > 3_000]
    assert statistics.median(words.values()) <= 700
    assert sum(len(re.findall(r"<!-- figures: ", page.read_text())) for page in SITE) == 2


def test_titles_are_unlike_each_other() -> None:
    titles = [title for page in SITE if (title := title_of(page)) is not None]
    assert len({title.lower() for title in titles}) == len(titles) > 45


@pytest.mark.parametrize(
    ("word", "page"),
    [("duckdb", "table"), ("resume", "rerun"), ("gpu", "cluster"), ("gpu", "install"), ("schedule", "schedule")],
)
def test_a_word_that_people_search_for_is_on_the_page_about_it(word: str, page: str) -> None:
    assert re.search(rf"\b{word}\b", (ROOT / "docs" / f"{page}.md").read_text(), re.IGNORECASE)


def test_every_page_is_in_the_contents() -> None:
    listed = re.findall(r"^(?:.* <)?([\w/-]+)>?$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    assert not {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in SITE} - {"index", *listed}


def test_the_figures_of_the_readme_are_those_of_the_page_of_what_to_expect() -> None:
    """That page is filled in from results."""
    (told,) = re.findall(
        r"^\*\*Measured\*\*: (.*?)\(\[more\]", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    expected = (ROOT / "docs" / "benchmarks.md").read_text()
    figures = re.findall(r"\d[\d,.]*\d|\b\d\b", told.replace("F1", ""))
    assert len(figures) == 8
    assert not [
        figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", expected)
    ]
