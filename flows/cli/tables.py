"""Evaluations as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from flows.cli.plain_tables import figures_table
from flows.commands.evaluate import Evaluation
from schemas.run import SelectionRow
from workers.evaluation.conlleval import EntityCounts


def evaluation_table(evaluation: Evaluation) -> Table:
    """Precision, recall and F1 (per cent) by type and overall, beside Viterbi's F1."""
    table = figures_table("type", "gold", "found", "right", "precision", "recall", "F1", "Viterbi\nF1", "change")
    entity = evaluation.report.entity
    for name, row in entity.types.items():
        counts = (row.gold, row.predicted, row.correct)
        table.add_row(name, *_cells(counts, (row.precision, row.recall, row.f1), _f1(evaluation.before, name)))
    table.add_section()
    totals = [sum(getattr(row, kind) for row in entity.types.values()) for kind in ("gold", "predicted", "correct")]
    figures = (entity.precision, entity.recall, entity.f1)
    table.add_row("all", *_cells(tuple(totals), figures, evaluation.before.f1()), style="bold")
    return table


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """Counts, token accuracy, and what changed against Viterbi, one line each."""
    report, changes = evaluation.report, evaluation.changes
    bound = "none" if report.max_gap is None else f"{report.max_gap:.6g} nats"
    return [
        f"{report.documents:,} documents, {report.tokens:,} tokens; token accuracy {report.token_accuracy:.2%}; "
        f"certified {report.certified:.1%} ({report.by_solver:.1%} on a solver's word), largest gap {bound}",
        f"against Viterbi: {changes.total('fixed'):,} entities fixed, {changes.total('broken'):,} broken, "
        f"{changes.total('removed'):,} wrong ones gone, {changes.total('added'):,} wrong ones new",
    ]


def selection_table(rows: Sequence[SelectionRow]) -> Table:
    """What a training chose from: F1 in cross-validation, and the gain over the first row (points, interval of 95 %).

    The chosen row is bold.
    """
    names = list(rows[0].chosen)
    table = figures_table(names[0], *names[1:], "F1", "gain", "from", "to")
    best = max(rows, key=lambda row: row.f1)
    for row in rows:
        chosen = [value if isinstance(value, str) else f"{value:g}" for value in row.chosen.values()]
        gains = (f"{100 * value:+.2f}" for value in (row.gain, row.low, row.high))
        table.add_row(*chosen, f"{100 * row.f1:.2f}", *gains, style="bold" if row is best else None)
    return table


def _f1(counts: EntityCounts, name: str) -> float:
    return counts.f1(name) if name in counts.names else 0.0


def _cells(counts: tuple[int, ...], figures: tuple[float, ...], before: float) -> list[str]:
    change = 100 * (figures[-1] - before)
    return [*(f"{n:,}" for n in counts), *(f"{100 * f:.2f}" for f in figures), f"{100 * before:.2f}", f"{change:+.2f}"]
