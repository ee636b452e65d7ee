"""Evaluations as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from concord.flows.cli.plain_tables import figures_table
from concord.flows.labelling.evaluate import Evaluation
from concord.schemas.reports import AgainstReport, MeasureReport
from concord.schemas.run import SampleRow, SelectionRow
from concord.workers.evaluation.measures import MACRO


def measure_table(measure: str, evaluation: Evaluation) -> Table:
    """Precision, recall and F1 (per cent) of each name and over all names, beside Viterbi's F1; mean and overlap.

    If every item has one gold and one predicted name, all three over all names are the accuracy.
    """
    after, before = evaluation.tally.after[measure], evaluation.tally.before[measure]
    report = evaluation.report.measures[measure]
    table = figures_table(measure, "gold", "found", "right", "precision", "recall", "F1", "Viterbi\nF1", "change")
    for name, row in report.names.items():
        counts = (row.gold, row.predicted, row.correct)
        table.add_row(name, *_cells(counts, (row.precision, row.recall, row.f1), before.f1(name)))
    table.add_section()
    totals = tuple(after.total(kind) for kind in after.kinds)
    if len(report.names) > 1:
        all_names = (after.precision(), after.recall(), after.f1())
        table.add_row(
            "accuracy" if "accuracy" in report.figures else "all", *_cells(totals, all_names, before.f1()), style="bold"
        )
    if "macro_f1" in report.figures:
        macro = tuple(report.figures[name] for name in MACRO)
        table.add_row("macro", *_cells((), macro, report.viterbi["macro_f1"]), style="bold")
    if "overlap" in report.figures:
        table.add_row("overlap", *_cells((), (report.figures["overlap"],), report.viterbi["overlap"]), style="bold")
    return table


def interval_line(measure: str, report: MeasureReport) -> str:
    """The intervals of a measure's figures, in per cent."""
    ends = (f"{_words(figure)} {report.interval(figure)}" for figure in report.intervals)
    return f"{measure}, intervals of 95 % over documents: {', '.join(ends)}"


def against_table(against: AgainstReport) -> Table:
    """Figures (per cent) beside another run's, with the difference, its interval of 95 % and the p-value."""
    table = figures_table("measure", "other", "here", "change", "from", "to", "p")
    for measure, figures in against.measures.items():
        for figure, row in figures.items():
            changes = (f"{100 * value:+.2f}" for value in (row.difference, row.low, row.high))
            levels = (f"{100 * value:.2f}" for value in (row.other, row.other + row.difference))
            table.add_row(f"{measure} {_words(figure)}", *levels, *changes, f"{row.p_value:.3f}")
        table.add_section()
    return table


def evaluation_lines(evaluation: Evaluation) -> list[str]:
    """Lines about counts, token accuracy, and changes against Viterbi."""
    report, changes, tokens = evaluation.report, evaluation.tally.changes, evaluation.tally.token_changes
    bound = "none" if report.max_gap is None else f"{report.max_gap:.6g} nats"
    return [
        f"{report.documents:,} documents, {report.tokens:,} tokens; token accuracy {report.token_accuracy:.2%}; "
        f"certified {report.certified:.1%} ({report.by_solver:.1%} on a solver's word), largest gap {bound}",
        f"against Viterbi: {changes.total('fixed'):,} entities fixed, {changes.total('broken'):,} broken, "
        f"{changes.total('removed'):,} wrong ones gone, {changes.total('added'):,} wrong ones new; "
        f"{tokens.total('fixed'):,} tokens fixed, {tokens.total('broken'):,} broken, "
        f"{tokens.total('both_wrong'):,} changed and still wrong",
    ]


def against_lines(against: AgainstReport, documents: int) -> list[str]:
    """Lines about the documents compared, and those that only one run has."""
    found = [f"against {against.run}: paired bootstrap over {documents:,} documents, intervals of 95 %"]
    for where, ids in (("not in that run", against.only_here), ("in that run alone", against.only_there)):
        if ids:
            found.append(f"{len(ids):,} gold documents {where}, left out; the first is {ids[0]!r}")
    return found


def selection_table(rows: Sequence[SelectionRow]) -> Table:
    """Settings that a training chose from: F1 in cross-validation, and the gain over the first row (points, interval of
    95 %). The chosen row is bold."""
    names = list(rows[0].chosen)
    table = figures_table(names[0], *names[1:], "F1", "gain", "from", "to")
    best = max(rows, key=lambda row: row.f1)
    for row in rows:
        chosen = [value if isinstance(value, str) else f"{value:g}" for value in row.chosen.values()]
        gains = (f"{100 * value:+.2f}" for value in (row.gain, row.low, row.high))
        table.add_row(*chosen, f"{100 * row.f1:.2f}", *gains, style="bold" if row is best else None)
    return table


def samples_table(rows: Sequence[SampleRow]) -> Table:
    """A line for each sample of wrapped progressive sampling: number of settings tried and left, and the best setting.

    Accuracy is the share of right classes, in per cent. The best setting of the last line is chosen.
    """
    names = list(rows[0].best)
    table = figures_table("tokens", "tested", "tried", "left", *names, "right", "default", "CPU s")
    for row in rows:
        best = [value if isinstance(value, str) else f"{value:g}" for value in row.best.values()]
        counts = (f"{count:,}" for count in (row.tokens, row.tested, row.tried, row.left))
        shares = (f"{100 * share:.2f}" for share in (row.accuracy, row.default))
        table.add_row(*counts, *best, *shares, f"{row.seconds:,.1f}", style="bold" if row is rows[-1] else None)
    return table


def _words(figure: str) -> str:
    return figure.replace("_", " ").replace("f1", "F1")


def _cells(counts: tuple[int, ...], figures: tuple[float, ...], before: float) -> list[str]:
    """Cells of a row: counts and figures, padded with blanks to six, then Viterbi's figure and the change."""
    change = 100 * (figures[-1] - before)
    shown = [
        *(f"{n:,}" for n in counts),
        *([""] * (6 - len(counts) - len(figures))),
        *(f"{100 * f:.2f}" for f in figures),
    ]
    return [*shown, f"{100 * before:.2f}", f"{change:+.2f}"]
