"""Entries of `concord list`: all parts that a user can choose, with their options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from concord.flows.cli.arguments import print_json
from concord.flows.cli.option_lists import options_of, plain_value, told_meaning
from concord.flows.screen.progress import show
from concord.flows.screen.terminal import grid
from concord.schemas.blocks import Table, row, text_columns
from concord.schemas.distribution import DISTRIBUTION
from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.reports import EngineReport, EntryReport, OptionReport
from concord.schemas.settings import Settings
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.tokenizers.registry import TOKENIZERS
from concord.workers.corpus.writers.registry import WRITERS
from concord.workers.evaluation.measures import MEASURES
from concord.workers.features.resources import Resource, known_resources
from concord.workers.features.settings import ClusterSettings, TreeSettings
from concord.workers.features.templates import FEATURE_SETS, PAPER_SETS, SUMMARIES
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.learning.weights.penalties import PENALTIES


def engines() -> list[EngineReport]:
    """Every engine."""
    return [
        EngineReport.from_results(solver, name=name, options=options_of(solver.settings))
        for name, solver in SOLVERS.items()
    ]


def trainers() -> list[EntryReport]:
    """Every trainer; its summary is the first line of its module."""
    return [
        EntryReport(
            name=name,
            summary=_first_line(sys.modules[trainer.train.__module__].__doc__),
            options=options_of(trainer.settings),
            comparison=trainer.comparison,
        )
        for name, trainer in TRAINERS.items()
    ]


def readers() -> list[EntryReport]:
    """Every reader."""
    return [
        EntryReport(name=name, summary=entry.summary, options=options_of(entry.settings))
        for name, entry in READERS.items()
    ]


def writers() -> list[EntryReport]:
    """Every writer."""
    return [
        EntryReport(name=name, summary=entry.summary, options=options_of(entry.settings))
        for name, entry in WRITERS.items()
    ]


def tokenizers() -> list[EntryReport]:
    """Every tokenizer, with the version that is installed."""
    return [
        EntryReport(name=name, summary=f"{_sentence(entry.summary)} {_version(entry.installed())}", options=())
        for name, entry in TOKENIZERS.items()
    ]


def _version(installed: str | None) -> str:
    return "Not installed." if installed is None else f"Version {installed}."


def features() -> list[EntryReport]:
    """Every feature set; its summary names the options or columns that it needs."""
    packages = {name: FEATURE_SETS.distribution(name) for name in FEATURE_SETS if name not in SUMMARIES}
    others = {
        name: ROW_OF_A_TABLE if package == DISTRIBUTION else f"of the package {package}"
        for name, package in packages.items()
    }
    return [
        EntryReport(name=name, summary=summary, options=(), comparison=name in PAPER_SETS or summary == ROW_OF_A_TABLE)
        for name, summary in (SUMMARIES | others).items()
    ]


ROW_OF_A_TABLE = "a row of a published table"


def templates() -> list[EntryReport]:
    """Every constraint template; options are the keys of its entry in a constraint file."""
    return [
        EntryReport(name=name, summary=_first_line(template.__doc__), options=tuple(_keys(template)))
        for name, template in TEMPLATES.items()
    ]


KEYS = {
    "name": "Name in reports (default: made from the content).",
    "weight": "Price of a unit of degree: hard, or nats.",
    "first": "Labels A, on the left.",
    "second": "Labels B, on the right.",
    "reach": "Largest distance of the two, in tokens (default: to the end of the scope).",
    "scope": "What is looked at as a whole.",
    "delimiters": "Tokens that delimit: words, or a test.",
    "before": "Labels of the token on the left.",
    "after": "Labels of the token on the right.",
    "begin": "Labels A of the first token.",
    "end": "Labels B of the last token.",
    "labels": "Labels, types or levels that the entry speaks of.",
    "separators": "Labels that separate one side from the other.",
    "tokens": "Tokens that the entry speaks of: words, or a test.",
    "side": "Token of a change that is looked at.",
    "words": "Words that the entry speaks of, or a test.",
    "position": "Position of the token in the document; a negative one counts from its end.",
    "label": "Labels that need others.",
    "implies": "Labels that are needed.",
    "counted": "Ask for as many of the one as of the other, not for one alone.",
    "limit": "Number of runs.",
    "terms": "Terms of the sum: labels with a coefficient, and tests of tokens.",
    "sense": "How the sum compares with the bound.",
    "bound": "Number that the sum is compared with.",
    "each": "What has a row: each document, sentence or token.",
    "value": "How the words of a span become a value.",
    "per_token": "Charge a pair for each token of the shorter span.",
}
"""Meaning of the keys of templates; the summary of a template says how it uses them."""


def _keys(template: type[Settings]) -> Iterator[OptionReport]:
    for key in options_of(template):
        meaning = template.model_fields[key.name].description or KEYS.get(key.name, key.meaning)
        yield key.model_copy(update={"meaning": meaning})


def measures() -> list[EntryReport]:
    """Every measure."""
    return [EntryReport(name=name, summary=_sentence(entry.summary), options=()) for name, entry in MEASURES.items()]


def penalties() -> list[EntryReport]:
    """Every way to weigh constraints."""
    return [
        EntryReport(name=name, summary=_sentence(entry.summary), options=options_of(entry.settings))
        for name, entry in PENALTIES.items()
    ]


def methods() -> list[EntryReport]:
    """Every method of mining constraints; its summary is the first line of its function."""
    from concord.workers.learning.mining.registry import MINERS  # with all that mines, which no other list needs

    return [
        EntryReport(name=name, summary=_first_line(entry.mine.__doc__), options=options_of(entry.settings))
        for name, entry in MINERS.items()
    ]


def resources() -> list[EntryReport]:
    """Every resource, with its licence, and how to get it where it is not there."""
    return [
        EntryReport(name=f"{kind}={name}", summary=_resource(name, one), options=())
        for kind, named in known_resources().items()
        for name, one in named.items()
    ]


def _resource(name: str, resource: Resource) -> str:
    where = resource.missing_line(name) if resource.missing else f"is there, {resource.size / 1e6:,.1f} MB"
    return f"{resource.summary} ({', '.join(resource.languages)}; {resource.licence}; {where})"


def clusters() -> list[EntryReport]:
    """Every command that puts words into clusters."""
    return [
        EntryReport(name=name, summary=_first_line(kind.__doc__), options=options_of(kind))
        for name, kind in CLUSTER_COMMANDS.items()
    ]


CLUSTER_COMMANDS: dict[str, type[Settings]] = {
    "import": ClusterSettings,
    "paths": TreeSettings,
}
LISTS: dict[str, Callable[[], Sequence[EntryReport]]] = {
    "engines": engines,
    "trainers": trainers,
    "features": features,
    "readers": readers,
    "writers": writers,
    "tokenizers": tokenizers,
    "templates": templates,
    "measures": measures,
    "penalties": penalties,
    "methods": methods,
    "clusters": clusters,
    "resources": resources,
}


def show_entries(kind: str, name: str | None, *, as_json: bool) -> None:
    """Prints the entries of a kind, or the one of a name: a table for each, or one JSON object with all of them under
    the name of their kind. Raises `UsageError` where there is no part of that name."""
    entries = [entry for entry in LISTS[kind]() if name in (None, entry.name)]
    if not entries and name is not None:
        raise UsageError(unknown("part of this kind", name, (entry.name for entry in LISTS[kind]())))
    if as_json:
        print_json(json.dumps({kind: [entry.model_dump() for entry in entries]}))
        return
    show(listing(entries))


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


# For people

COMPARISON_HEADING = Text("For comparison with papers, or as a check; for work choose one above.", style="italic")


def listing(entries: Sequence[EntryReport]) -> Group:
    """A heading and a table of options for each entry, those that stand for comparison below the others."""
    own = [part for entry in entries if not entry.comparison for part in _shown(entry)]
    compared = [part for entry in entries if entry.comparison for part in _shown(entry)]
    return Group(*own, *([COMPARISON_HEADING, Text(), *compared] if compared else []))


def _shown(entry: EntryReport) -> Iterator[Text | Grid]:
    exact = " (exact)" if isinstance(entry, EngineReport) and entry.exact else ""
    yield Text.assemble((entry.name, "bold"), f"{exact}  {entry.summary}")
    if entry.options:
        rows = (
            row(
                f"  {option.name}",
                "needed" if option.needed else plain_value(option.default),
                told_meaning(option),
            )
            for option in entry.options
        )
        yield grid(Table(text_columns("  option", "default", "meaning"), tuple(rows)))
    yield Text()
