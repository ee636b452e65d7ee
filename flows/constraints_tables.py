"""Checks and explanations of constraints as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from schemas.audit import Breaches, CheckReport, ConstraintEffect, Explanation, LabelChange
from workers.constraints.templates import TEMPLATES

SHOWN = 12
"""Changes of one constraint that are written out."""


def check_table(report: CheckReport) -> Table:
    """A line a constraint: where it applies, and where gold and the model's output break it."""
    table = Table(box=None, show_edge=False, pad_edge=False, show_header=True)
    table.add_column("constraint", overflow="fold")
    heads = ("weight", "documents", "places", "gold breaks", "documents", "model breaks", "documents", "penalty")
    for column in heads:
        table.add_column(column, justify="right", no_wrap=True)
    for row in report.constraints:
        penalty = "–" if row.model is None else f"{row.model.penalty:,.1f}"
        gold, model = _breach_cells(row.gold), _breach_cells(row.model)
        cells = (_nats(row.weight), f"{row.documents:,}", f"{row.places:,}", *gold, *model, penalty)
        table.add_row(Text(row.name), *cells)
    return table


def check_lines(report: CheckReport) -> Iterator[str]:
    """Counts, warnings and contradictions, one line each."""
    yield f"{report.documents:,} documents, {report.tokens:,} tokens, {report.with_gold:,} documents with gold labels"
    for row in report.constraints:
        yield from (f"warning: {row.name}: {warning}" for warning in row.warnings if "contradicts" not in warning)
    for conflict in report.conflicts:
        kind = "cannot hold together (all hard: no labelling is left)" if conflict.hard else "cannot hold together"
        names = " + ".join(conflict.constraints)
        yield f"contradiction: {names} {kind} in {conflict.documents} documents, first {conflict.doc_id}"
    undecided = f", {report.undecided} undecided" if report.undecided else ""
    yield f"searched {report.searched:,} documents for contradictions{undecided}"


def labels_table(found: Explanation) -> Table:
    """The document token by token: gold, without constraints, with them."""
    table = Table(box=None, show_edge=False, pad_edge=False)
    columns = ("token", "gold", "unconstrained", "constrained")
    for column in columns if found.gold is not None else (columns[0], *columns[2:]):
        table.add_column(column)
    for t, token in enumerate(found.tokens):
        before, after = found.unconstrained[t], found.labels[t]
        gold = [] if found.gold is None else [Text(found.gold[t])]
        table.add_row(Text(token), *gold, Text(before), Text(after, style="" if before == after else "bold"))
    return table


def effects_table(found: Explanation) -> Table:
    """A line an entry that is broken or changes anything: degree, penalty, changes and what they cost."""
    table = Table(box=None, show_edge=False, pad_edge=False)
    table.add_column("constraint", overflow="fold")
    for column in ("degree before", "after", "penalty", "local score given up"):
        table.add_column(column, justify="right")
    table.add_column("changes (without → with)", overflow="fold")
    for effect in filter(_does_something, found.effects):
        figures = (effect.degree_before, effect.degree, effect.penalty, effect.cost)
        cells = ("–" if figure is None else f"{figure:,.4g}" for figure in figures)
        table.add_row(Text(effect.name), *cells, Text(_changes(effect.changes)))
    return table


def summary_line(found: Explanation) -> str:
    """How many entries the table leaves out; status and scores of the constrained answer."""
    idle = sum(not _does_something(effect) for effect in found.effects)
    return (
        f"{idle} of {len(found.effects)} constraints hold and change nothing here\n"
        f"{found.doc_id}: {found.status}, local score {found.local:,.4f} nats, penalty {found.penalty:,.4f}, "
        f"gap {found.gap:.2g}"
    )


def templates_table() -> Table:
    """A line a template: its name, the keys it takes, and what it says."""
    table = Table(box=None, show_edge=False, pad_edge=False)
    table.add_column("template", no_wrap=True)
    table.add_column("keys ([bold]needed[/bold])", overflow="fold")
    table.add_column("what it says", overflow="fold")
    for name, template in TEMPLATES.items():
        keys = Text(", ").join(
            Text(key, style="bold" if field.is_required() else "")
            for key, field in template.model_fields.items()
            if key != "name"
        )
        table.add_row(name, keys, Text((template.__doc__ or "").partition("\n")[0]))
    return table


def _does_something(effect: ConstraintEffect) -> bool:
    return bool(effect.degree_before or effect.degree or effect.changes)


def _changes(changes: Iterable[LabelChange]) -> str:
    parts = [f"{c.token} {c.without} → {c.label}" for c in changes]
    more = [f"and {len(parts) - SHOWN} more"] if len(parts) > SHOWN else []
    return "; ".join(parts[:SHOWN] + more)


def _breach_cells(breaches: Breaches | None) -> tuple[str, str]:
    return ("–", "–") if breaches is None else (f"{breaches.places:,}", f"{breaches.documents:,}")


def _nats(weight: float) -> str:
    return "hard" if weight == float("inf") else f"{weight:g}"
