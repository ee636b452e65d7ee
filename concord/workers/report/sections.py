"""The sections of a run's page, in words for somebody who has never seen the project, with tables and bars."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from concord.schemas.blocks import Remark, Table, TableRow, Tone, figure_columns, row, text_columns
from concord.schemas.decoded import Status
from concord.schemas.nights import DIFFERENCES, NightLine
from concord.schemas.reports import EvaluationReport, MeasureReport
from concord.schemas.run import RunManifest
from concord.workers.report.places import GoldVerdict
from concord.workers.report.summary import GAP_EDGES, SECOND_EDGES, Changes, RunSummary

SHOWN_DIGEST = 16
"""Digits of a digest that are shown."""

MOST_ROWS = 30
"""Largest number of rows of a table of changes, of constraints, of reasons or of nights."""


@dataclass(frozen=True, slots=True)
class PageBar:
    """A bar beside a row: its length, and the ends of an interval around it, as fractions of the longest possible."""

    length: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PageChart:
    """A table whose rows have bars; ``head`` says what their length is."""

    table: Table
    head: str
    bars: tuple[PageBar | None, ...]


@dataclass(frozen=True, slots=True)
class PageSection:
    """A part of a page: ``lead`` says in plain words what it shows and how to read it."""

    title: str
    lead: str
    blocks: tuple[Remark | Table | PageChart, ...]


class RunFacts(NamedTuple):
    """What is known of a run beside the counts of its documents.

    - ``run``, ``against``, ``gold``: places of the run, of another one and of the corpus with gold; None for none
    - ``sources``: what it was made from, as it was named
    - ``nights``: the record of the folder, oldest first
    - ``night``: the one that published the run; None where the record does not say
    - ``evaluation``: scores; None without gold
    - ``promise``: what a review promises, in a line; None without a review
    """

    run: str
    against: str | None
    gold: str | None
    sources: Mapping[str, str]
    manifest: RunManifest
    nights: Sequence[NightLine]
    night: NightLine | None
    evaluation: EvaluationReport | None
    promise: str | None


def in_words(facts: RunFacts, summary: RunSummary) -> str:
    """What a run is and came to, for somebody who has never seen the project."""
    totals = facts.manifest.totals
    return (
        f"concord labelled {_count(totals.documents, 'document')} of {totals.tokens:,} words and signs: it marked "
        f"{_count(summary.entities.total(), 'span')}, such as names or fields, and gave each a type. In "
        f"{_count(summary.changed, 'document')} ({_percent(summary.changed, totals.documents)}) the answer is another "
        f"one than the model alone would give. Of {_count(totals.certified, 'document')} "
        f"({_percent(totals.certified, totals.documents)}) it is proven that no answer scores higher. "
        f"{_count(totals.rejected, 'row')} could not be labelled."
    )


def at_a_glance(facts: RunFacts) -> tuple[tuple[str, str], ...]:
    """What a reader wants first, each with its name: verdict, score, model, date, and what changed since the last run.

    Date and changes are those of the night that published the run, as the folder's record has it.
    """
    night, model = facts.night, facts.manifest.run.model[:SHOWN_DIGEST]
    lines = {
        "Verdict": _verdict(facts),
        "Score": _score(facts),
        "Model": ", ".join(filter(None, [facts.sources.get("model"), f"digest {model}"])),
        "Date": "" if night is None else f"{night.time[:16].replace('T', ' ')} UTC, run {night.night} of the folder",
        "Since the last run": _since(night),
    }
    return tuple((name, text) for name, text in lines.items() if text)


def _verdict(facts: RunFacts) -> str:
    """Is all well? Otherwise all that somebody has to look at."""
    night, last = facts.night, facts.nights[-1] if facts.nights else None
    drift = None if night is None else night.drift
    to_look_at = {
        f"{_count(facts.manifest.totals.rejected, 'row')} rejected": facts.manifest.totals.rejected > 0,
        "" if drift is None else drift.told_gone: drift is not None and bool(drift.told_gone),
        "" if drift is None else f"drift in {', '.join(move.name for move in drift.breaches)}": bool(
            drift is not None and drift.breaches
        ),
        "" if last is None else f"a later run, {last.night}: {last.end}": last is not None and not last.published,
    }
    listed = "; ".join(text for text, is_so in to_look_at.items() if is_so)
    return f"look at: {listed}" if listed else "all is well"


def _score(facts: RunFacts) -> str:
    """F1, or else accuracy, of each measure with its interval, in per cent; blank without gold."""
    if facts.evaluation is None:
        return ""
    scores = (one.best_line(name) for name, one in facts.evaluation.measures.items())
    return f"{'; '.join(filter(None, scores))}; beside {facts.gold}"


def _since(night: NightLine | None) -> str:
    if night is None:
        return ""
    if night.drift is None:
        return "this is the first run of the folder, or nothing is known of the one before"
    otherwise = f"; otherwise: {', '.join(night.differences)}" if night.differences else ""
    return f"{night.drift.line}{otherwise}"


def sections_of(facts: RunFacts, summary: RunSummary) -> list[PageSection]:
    """The sections, in the order in which they are read; the viewer of documents comes before them."""
    sections = [
        _scores(facts, summary),
        _promise(facts),
        _changed(
            "What the constraints changed",
            "Each sentence is first read by itself, by the model alone (Viterbi). Then the document is read as a "
            "whole, so that mentions of one name agree and declared rules hold. This is what that changed.",
            summary.changes,
            summary.changed,
            summary,
        ),
        _against(facts, summary),
        _rules(facts, summary),
        _gaps(facts, summary),
        _speed(facts, summary),
        _rejects(facts, summary),
        _drift(facts),
        _about(facts, summary),
    ]
    return [section for section in sections if section is not None]


def _about(facts: RunFacts, summary: RunSummary) -> PageSection:
    settings = facts.manifest.run.settings
    lead = "The types that it gave, and what it was made from: the same again give the same answers, byte for byte."
    longest = max(summary.entities.values(), default=1)
    kinds = summary.entities.most_common(MOST_ROWS)
    entities = PageChart(
        Table(figure_columns("type", "spans"), tuple(row(kind, f"{n:,}") for kind, n in kinds), "What it marked"),
        "share of the most frequent type",
        tuple(PageBar(n / longest) for _, n in kinds),
    )
    sources = {
        "run": facts.run,
        **facts.sources,
        "engine": settings.engine,
        "seed": str(settings.seed),
        "compared with run": facts.against or "none",
        "gold labels": facts.gold or "none",
        "digest of the model": facts.manifest.run.model[:SHOWN_DIGEST],
        "digest of the constraints": facts.manifest.run.constraints[:SHOWN_DIGEST],
        "digest of the corpus": facts.manifest.dataset[:SHOWN_DIGEST],
    }
    table = Table(text_columns("what", "which"), tuple(row(*item) for item in sources.items()), "What it was made from")
    return PageSection("What this run is made of", lead, (entities, table))


def _scores(facts: RunFacts, summary: RunSummary) -> PageSection | None:
    scores = facts.evaluation
    if scores is None:
        return None
    lead = (
        f"The answers beside {facts.gold}, which people labelled. Precision: of what was found, the share that is "
        "right; recall: of what there is, the share that was found; F1 lies between them. The bar is F1; the line on "
        "it is the interval in which F1 lies in 95 of 100 draws of documents."
    )
    blocks: list[Remark | Table | PageChart] = [_measure(name, one) for name, one in scores.measures.items()]
    blocks += [Remark(one.interval_line(name)) for name, one in scores.measures.items() if one.intervals]
    blocks.append(Remark(scores.headline))
    kinds = sorted(summary.errors.items(), key=lambda item: (-item[1], item[0]))[:MOST_ROWS]
    if kinds:
        longest = kinds[0][1]
        rows = tuple(row(str(kind), name, f"{n:,}") for (name, kind), n in kinds)
        columns = (*text_columns("error"), *figure_columns("type", "spans"))
        errors = Table(columns, rows, "Errors")
        blocks.append(
            PageChart(errors, "share of the most frequent error", tuple(PageBar(n / longest) for _, n in kinds))
        )
    if scores.against is not None:
        blocks += [scores.against.table(), *scores.against.left_out()]
    return PageSection("How good it is", lead, tuple(blocks))


def _measure(name: str, one: MeasureReport) -> PageChart:
    table = one.table(name)
    ends = one.intervals.get("f1", (None, None))
    bars: list[PageBar | None] = [PageBar(figures.f1) for figures in one.names.values()]
    if one.whole is not None and len(table.rows) > len(bars):
        bars.append(PageBar(one.whole.f1, *ends))
    bars += [None] * (len(table.rows) - len(bars))
    return PageChart(table, "F1", tuple(bars))


def _promise(facts: RunFacts) -> PageSection:
    lead = "People who read a random sample of this run's answers can promise how many of the others are right. " + (
        facts.promise or "Nobody has reviewed this run, so nothing is promised."
    )
    return PageSection("What a review promises", lead, ())


VERDICTS = (GoldVerdict.MENDED, GoldVerdict.SPOILED, GoldVerdict.STILL_WRONG)


def _changed(title: str, lead: str, changes: Changes, documents: int, summary: RunSummary) -> PageSection:
    lead += f" {_count(documents, 'document')} of {summary.documents:,} differ."
    if not changes:
        return PageSection(title, lead, ())
    by_kind: dict[tuple[str, str], Counter[GoldVerdict]] = {}
    for (kind, verdict), n in changes.items():
        by_kind.setdefault(kind, Counter())[verdict] += n
    order = sorted(by_kind, key=lambda kind: (-by_kind[kind].total(), kind))
    longest = by_kind[order[0]].total()
    has_gold = any(verdict is not GoldVerdict.UNKNOWN for _, verdict in changes)
    heads = ("changes", *(map(str, VERDICTS) if has_gold else ()))
    rows = [_change_row(kind, by_kind[kind], has_gold=has_gold) for kind in order[:MOST_ROWS]]
    bars: list[PageBar | None] = [PageBar(by_kind[kind].total() / longest) for kind in order[:MOST_ROWS]]
    total = Counter[GoldVerdict]()
    for counts in by_kind.values():
        total.update(counts)
    rows.append(_change_row(("all", "all"), total, has_gold=has_gold, tone=Tone.STRONG))
    columns = (*text_columns("before"), *figure_columns("now", *heads))
    table = Table(columns, tuple(rows))
    more = [Remark(f"{len(order) - MOST_ROWS:,} rarer kinds of changes are left out")] if len(order) > MOST_ROWS else []
    return PageSection(title, lead, (PageChart(table, "share of the most frequent change", (*bars, None)), *more))


def _change_row(
    kind: tuple[str, str], counts: Counter[GoldVerdict], *, has_gold: bool, tone: Tone = Tone.PLAIN
) -> TableRow:
    verdicts = (f"{counts[verdict]:,}" for verdict in VERDICTS) if has_gold else ()
    return row(*kind, f"{counts.total():,}", *verdicts, tone=tone)


def _against(facts: RunFacts, summary: RunSummary) -> PageSection | None:
    if facts.against is None:
        return None
    lead = f"The answers beside those of the run {facts.against}: what was there is what that run says."
    if summary.absent:
        lead += f" {_count(summary.absent, 'document')} of this run have no answer there, and are left out."
    changed = summary.other_changes, summary.other_changed
    return _changed("What differs from the other run", lead, *changed, summary)


def _rules(facts: RunFacts, summary: RunSummary) -> PageSection | None:
    totals = facts.manifest.totals.constraints
    if not totals:
        return None
    has_gold = facts.gold is not None
    lead = (
        "A constraint charges a price, in nats, for labels that break it. Its penalty is shown under the labels of the "
        "model alone and under the answers. Changes in a document count as the work of a constraint where it is the "
        "only one that the answer breaks less; where several are, none gets the credit."
    )

    def nats(name: str) -> float:
        one = totals[name]
        saved = one.penalty_before - one.penalty
        return saved if math.isfinite(saved) else one.degree_before - one.degree

    order = sorted(totals, key=lambda name: (-nats(name), name))
    effects, names = summary.rules, order[:MOST_ROWS]
    longest = max((nats(name) for name in names), default=0.0)
    heads = (
        "documents\nit is about",
        "penalty\nalone",
        "penalty\nnow",
        "documents\nmended",
        "changes of\nits own",
    )
    rows = []
    for name in names:
        one, effect = totals[name], effects.get(name)
        counts = (0, 0, Counter[GoldVerdict]()) if effect is None else (effect.grounded, effect.cheaper, effect.alone)
        own = [f"{counts[2][verdict]:,}" for verdict in VERDICTS[:2]] if has_gold else []
        cells = (f"{counts[0]:,}", _nats(one.penalty_before), _nats(one.penalty), f"{counts[1]:,}")
        rows.append(row(name, *cells, f"{counts[2].total():,}", *own))
    columns = figure_columns("constraint", *heads, *(map(str, VERDICTS[:2]) if has_gold else ()))
    bars = tuple(PageBar(max(0.0, nats(name)) / longest) if longest > 0 else None for name in names)
    more = [Remark(f"{len(order) - MOST_ROWS:,} constraints with less effect are left out")]
    chart = PageChart(Table(columns, tuple(rows)), "nats saved", bars)
    return PageSection("What each constraint did", lead, (chart, *(more if len(order) > MOST_ROWS else ())))


def _gaps(facts: RunFacts, summary: RunSummary) -> PageSection:
    totals = facts.manifest.totals
    by_solver = totals.statuses.get(Status.BY_SOLVER, 0)
    lead = (
        "Scores are in nats, natural logarithms: 1 nat makes an answer 2.7 times as probable. The gap is how many nats "
        "better another answer could be, at most. No gap is a proof that none is better. "
        f"{_count(totals.certified, 'document')} ({_percent(totals.certified, totals.documents)}) are proven, "
        f"{by_solver:,} of them on the word of a solver."
    )
    names = ("no gap", *(f"up to {edge:g}" for edge in GAP_EDGES[1:-1]), f"above {GAP_EDGES[-2]:g}", "no bound")
    infinite = len(GAP_EDGES) - 1
    counts = [summary.gaps[place] for place in range(infinite)]
    return PageSection(
        "How much is proven", lead, (_classes("gap (nats)", names, [*counts, summary.gaps[infinite]], summary),)
    )


def _classes(head: str, names: Iterable[str], counts: Sequence[int], summary: RunSummary) -> PageChart:
    """Documents by class."""
    rows = tuple(row(name, f"{n:,}") for name, n in zip(names, counts, strict=False))
    bars = tuple(PageBar(n / max(1, summary.documents)) for n in counts)
    return PageChart(Table(figure_columns(head, "documents"), rows), "share of all documents", bars)


def _speed(facts: RunFacts, summary: RunSummary) -> PageSection:
    lead = "Time of the workers."
    blocks: list[Remark | Table | PageChart] = []
    steps = next((night.steps for night in reversed(facts.nights) if night.steps), {})
    if steps:
        longest = max(*steps.values(), 1e-9)
        lead += " The steps are those of the last run in this folder that labelled something."
        rows = tuple(row(name, f"{seconds:,.2f}") for name, seconds in steps.items())
        bars = tuple(PageBar(seconds / longest) for seconds in steps.values())
        table = Table(figure_columns("step", "seconds"), rows, "By step")
        blocks.append(PageChart(table, "share of the longest step", bars))
    if summary.times:
        lead += f" Looking for the best labels took {summary.seconds:,.1f} s for all documents together."
        names = (*(f"up to {edge:g}" for edge in SECOND_EDGES[:-1]), f"above {SECOND_EDGES[-2]:g}")
        counts = [summary.times[place] for place in range(len(SECOND_EDGES))]
        blocks.append(_classes("seconds", names, counts, summary))
        slow = sorted(summary.slowest, key=lambda one: (-one.seconds, one.doc_id))
        rows = tuple(row(one.doc_id, f"{one.seconds:,.3f}", f"{one.tokens:,}", one.status) for one in slow)
        blocks.append(Table(figure_columns("document", "seconds", "tokens", "status"), rows, "Slowest documents"))
    return PageSection("How long it took", lead, tuple(blocks))


def _rejects(facts: RunFacts, summary: RunSummary) -> PageSection:
    rejected = facts.manifest.totals.rejected
    if not rejected:
        return PageSection("What was rejected", "Nothing: every row of the corpus has an answer.", ())
    lead = f"{_count(rejected, 'row')} of the corpus could not be read or labelled, and have no answer."
    order = sorted(summary.rejects.items(), key=lambda item: (-item[1].rows, item[0]))
    rows = tuple(row(f"{one.rows:,}", one.example, one.place) for _, one in order[:MOST_ROWS])
    table = Table((*figure_columns("rows", "reason"), *text_columns("first of them")), rows)
    return PageSection("What was rejected", lead, (table,))


def _drift(facts: RunFacts) -> PageSection | None:
    if not facts.nights:
        return None
    lead = (
        "The runs of this folder, the newest last: documents that are new, gone, or have another answer than in the "
        "run before. Drift: figures of the documents that moved farther than they do from night to night."
    )
    nights = facts.nights[-MOST_ROWS:]
    blocks: list[Remark | Table | PageChart] = [_nights(nights)]
    rows = tuple(
        row(str(night.night), move.sentence, f"{move.p_value:.2g}", ", ".join(move.most))
        for night in nights
        if night.drift is not None
        for move in night.drift.breaches
    )
    columns = text_columns("run", "what moved", "p", "most of all in")
    blocks.append(Table(columns, rows, "Drift") if rows else Remark("No figure drifted."))
    return PageSection("What is different from the runs before", lead, tuple(blocks))


def _nights(nights: Sequence[NightLine]) -> PageChart:
    heads = ("ended (UTC)", "documents", *DIFFERENCES, "rejects", "drifted")
    rows, bars = [], list[PageBar | None]()
    for night in nights:
        drift = night.drift
        counts = ("",) * len(DIFFERENCES) if drift is None else tuple(f"{count:,}" for count in drift.counts.values())
        breaches = "" if drift is None else f"{len(drift.breaches):,}"
        time = night.time[:16].replace("T", " ")
        rows.append(row(str(night.night), time, f"{night.documents:,}", *counts, f"{night.rejected:,}", breaches))
        bars.append(None if drift is None else PageBar(min(1.0, drift.changed / max(1, night.documents))))
    return PageChart(Table(figure_columns("run", *heads), tuple(rows)), "share of other answers", tuple(bars))


def _nats(value: float) -> str:
    return f"{value:,.1f}" if math.isfinite(value) else "hard, broken"


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "0%"
