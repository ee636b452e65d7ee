"""Checks and explanations of constraints as tables for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from concord.flows.cli.plain_tables import figures_table, text_table
from concord.schemas.audit import (
    Breaches,
    CheckReport,
    ConstraintEffect,
    Explanation,
    FigureEffect,
    JudgementReport,
    LearningReport,
    MeasuredEffect,
    MineReport,
    TuningReport,
    WeighReport,
    first_changes,
)
from concord.schemas.settings import Validation

SPANS = "spans"
"""The measure whose interval is in the table: each label scheme has it, and most users care for it."""


def check_table(report: CheckReport) -> Table:
    """A line for each constraint: number of places where it applies, and how many of the bearing rows gold and the
    model's answers break."""
    gold = ("gold\nbreaks", "of", "in\ndocs") if any(row.gold for row in report.constraints) else ()
    model = (
        ("model\nbreaks", "of", "in\ndocs", "penalty,\nnats") if any(row.model for row in report.constraints) else ()
    )
    table = figures_table("constraint", "weight", "places", "in\ndocs", *gold, *model)
    for row in report.constraints:
        cells = [_nats(row.weight), f"{row.places:,}", f"{row.documents:,}"]
        cells += _breach_cells(row.gold)
        cells += [*_breach_cells(row.model), f"{row.model.penalty:,.1f}"] if row.model else []
        table.add_row(Text(row.name), *cells)
    return table


def gains_table(report: CheckReport) -> Table:
    """A line for all constraints and for each that changes an answer: the documents that it changes, its gain by each
    measure in points, and the interval of that in spans."""
    assert report.effect is not None
    heads = [head for one in report.effect.figures for head in _gain_heads(one)]
    table = figures_table("gain, points", "docs\nchanged", *heads)
    for name, effect in [("all of them", report.effect), *((row.name, row.effect) for row in report.constraints)]:
        if effect is not None and effect.documents:
            cells = [cell for one in effect.figures for cell in _gain_cells(one)]
            table.add_row(Text(name), f"{effect.documents:,}", *cells)
    return table


def _gain_heads(effect: FigureEffect) -> list[str]:
    head = f"{effect.measure},\n{effect.figure}"
    return [head, "95 %"] if effect.measure == SPANS else [head]


def _gain_cells(effect: FigureEffect) -> list[str]:
    gain = f"{100 * (effect.after - effect.before):+.2f}"
    return [gain, f"{100 * effect.low:+.2f} to {100 * effect.high:+.2f}"] if effect.measure == SPANS else [gain]


def check_lines(report: CheckReport) -> Iterator[str]:
    """Counts, warnings and contradictions, one line each."""
    yield f"{report.documents:,} documents, {report.tokens:,} tokens, {report.with_gold:,} documents with gold labels"
    if report.effect is not None:
        yield from _gain_lines(report.effect)
    for row in report.constraints:
        yield from (f"warning: {row.name}: {warning}" for warning in row.warnings if "contradicts" not in warning)
    for conflict in report.conflicts:
        kind = "cannot hold together (all hard: no labelling is left)" if conflict.hard else "cannot hold together"
        names = " + ".join(conflict.constraints)
        yield f"contradiction: {names} {kind} in {conflict.documents} documents, first {conflict.doc_id}"
    undecided = f", {report.undecided} undecided" if report.undecided else ""
    yield f"searched {report.searched:,} documents for contradictions{undecided}"


def _gain_lines(effect: MeasuredEffect) -> Iterator[str]:
    """What all constraints together change."""
    for one in effect.figures:
        line = f"{one.figure} of {one.measure}: {one.before:.2%} without constraints"
        if effect.documents:
            yield f"{line}, {one.after:.2%} with them ({100 * one.low:+.2f} to {100 * one.high:+.2f} points)"
        else:
            yield f"{line} and with them"


def weigh_table(report: WeighReport) -> Table:
    """A line for each constraint: its rows in gold, its old weight, and its new one with the interval."""
    table = figures_table("constraint", "rows", "vacuous", "broken", "weight\nbefore", "weight", "95 %")
    for row in report.constraints:
        counts = [f"{count:,}" for count in (row.rows, row.vacuous, row.broken)]
        interval = f"{row.low:.2f} to {row.high:.2f}"
        table.add_row(Text(row.name), *counts, _nats(row.before), _nats(row.weight), interval)
    return table


def weigh_lines(report: WeighReport) -> Iterator[str]:
    """Lines about the documents counted, constraints with little evidence, and the place of the weights."""
    yield f"penalty {report.penalty}, counted on {report.documents:,} documents with gold labels"
    if report.without_gold or report.rejected:
        yield f"left out: {report.without_gold:,} documents without gold labels, {report.rejected:,} rejected rows"
    yield "vacuous rows hold for want of what they speak of; they are no evidence and do not count"
    if report.tuning is not None:
        yield from _tuning_lines(report.tuning)
    if report.learning is not None:
        yield from _learning_lines(report.learning)
    for row in report.constraints:
        if not row.rows:
            yield f"warning: {row.name}: gold never has what it speaks of; its weight rests on nothing"
        elif row.weight == 0.0:
            yield f"warning: {row.name}: gold breaks it more than it keeps it; it weighs nothing"
    if report.out is None:
        yield "nothing was written; --out FILE keeps these weights"
    elif not report.written:
        yield f"no constraint helps: the list in {report.out} is empty"
    else:
        yield f"weights in {report.out}"


def _tuning_lines(tuning: TuningReport) -> Iterator[str]:
    factors = ", ".join(f"{family} × {factor:g}" for family, factor in tuning.factors.items())
    tried = f"the best of {tuning.trials} on {tuning.documents:,} held-out documents"
    yield f"{tuning.base} times factors, {tried}: {factors}"
    yield (
        f"{tuning.figure} of {tuning.measure} there {tuning.before:.2%} as counted, {tuning.after:.2%} with them "
        f"(gain {tuning.low:+.2%} to {tuning.high:+.2%}, on the documents they were chosen on)"
    )


def _learning_lines(learning: LearningReport) -> Iterator[str]:
    yield (
        f"learned in {learning.passes} passes at rate {learning.rate:g}, times {learning.scale:g}; "
        f"{learning.dropped:,} got no weight"
    )
    random = learning.validation is Validation.RANDOM
    halves = "halves, with weights of the other half" if random else "the later half, with weights of the earlier half"
    yield (
        f"{learning.figure} of {learning.measure} on {halves}: {learning.before:.2%} "
        f"without, {learning.after:.2%} with them (gain {learning.low:+.2%} to {learning.high:+.2%}, rate, passes and "
        "scale were chosen by it)"
    )
    if not learning.stopped:
        yield "warning: it still rose with the last pass; --set passes=N allows more"


def mine_table(report: MineReport) -> Table:
    """A line for each rule: documents where it binds, how many break it, how many would by chance, and its weight with
    the interval."""
    table = figures_table("rule", "documents", "broken", "by chance\nhold, %", "p", "weight", "95 %")
    for rule in report.rules:
        figures = [f"{rule.n:,}", f"{rule.broken:,}", f"{100 * rule.chance:.1f}", f"{rule.p:.1e}", _nats(rule.weight)]
        table.add_row(Text(rule.name), *figures, f"{rule.low:.2f} to {rule.high:.2f}")
    return table


def helps_table(judgement: JudgementReport) -> Table:
    """A line for each rule that helps: documents that it changes, its gain with the interval, and its weight."""
    table = figures_table("rule that helps", "documents\nchanged", "gain,\npoints", "95 %", "weight")
    for rule in judgement.rules:
        interval = f"{100 * rule.low:+.2f} to {100 * rule.high:+.2f}"
        table.add_row(Text(rule.name), f"{rule.documents:,}", f"{100 * rule.gain:+.2f}", interval, _nats(rule.weight))
    return table


def mine_lines(report: MineReport) -> Iterator[str]:
    """Lines about the documents counted, the number of rules that hold and that help, and the file."""
    yield f"counted on {report.with_gold:,} of {report.documents:,} documents, {report.rejected:,} rejected rows"
    yield from report.remarks
    yield f"{report.candidates:,} rules bind somewhere, {report.significant:,} hold more often than chance lets them"
    yield from (one.sentence for one in report.unsaid)
    if report.judgement is not None and report.rules:
        yield report.judgement.sentence
    if report.written:
        yield f"{report.written} of {len(report.rules)} rules that hold in {report.out}"
    else:
        why = "no rule was found" if not report.rules else "no rule helps"
        yield f"{why}: the list in {report.out} is empty"


def labels_table(found: Explanation) -> Table:
    """The document token by token: gold, without constraints, with them."""
    table = text_table("token", *([] if found.gold is None else ["gold"]), "unconstrained", "constrained")
    for t, token in enumerate(found.tokens):
        before, after = found.unconstrained[t], found.labels[t]
        gold = [] if found.gold is None else [Text(found.gold[t])]
        table.add_row(Text(token), *gold, Text(before), Text(after, style="" if before == after else "bold"))
    return table


def effects_table(found: Explanation) -> Table:
    """A line for each entry that is broken or changes a label: degree, penalty, changes and their cost."""
    table = figures_table("constraint", "degree\nbefore", "after", "penalty", "local\nscore\ngiven up")
    table.add_column("changes (without → with)", overflow="fold")
    for effect in filter(_does_something, found.effects):
        figures = (effect.degree_before, effect.degree, effect.penalty, effect.cost)
        cells = ("–" if figure is None else f"{figure:,.4g}" for figure in figures)
        table.add_row(Text(effect.name), *cells, Text(first_changes(effect.changes)))
    if len(found.effects) > 1:
        table.add_section()
        changes = Text(first_changes(found.together))
        table.add_row("together", "", "", f"{found.penalty:,.4g}", f"{found.cost:,.4g}", changes)
    return table


def summary_line(found: Explanation) -> str:
    """Line about the number of entries that the table leaves out, and about status and scores of the answer."""
    idle = sum(not _does_something(effect) for effect in found.effects)
    return (
        f"{idle} of {len(found.effects)} constraints hold and change nothing here\n"
        f"{found.doc_id}: {found.status}, local score {found.local:,.4f} nats, penalty {found.penalty:,.4f}, "
        f"gap {found.gap:.2g}"
    )


def _does_something(effect: ConstraintEffect) -> bool:
    return bool(effect.degree_before or effect.degree or effect.changes)


def _breach_cells(breaches: Breaches | None) -> list[str]:
    if breaches is None:
        return []
    return [f"{breaches.places:,}", f"{breaches.bearing:,}", f"{breaches.documents:,}"]


def _nats(weight: float) -> str:
    return "hard" if weight == float("inf") else f"{weight:g}"
