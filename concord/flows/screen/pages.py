"""What an operator is shown of a run that has ended: a line, tags, and a page in Markdown, all without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import NamedTuple

from concord.schemas.challenge import ChallengeReport
from concord.schemas.codl import CodlReport
from concord.schemas.nights import MonthReport
from concord.schemas.run import Drift, RunReport, TrainReport
from concord.schemas.secrets import redact, short_name
from concord.schemas.visible import visible

MOST_ERRORS = 20
"""Reasons of failed shards on a page."""

INTERRUPTED = "interrupted; the same command again does what is left"
"""What is shown of a run that a signal has ended."""

MOST_MOVEMENTS = 20
"""Figures of the night beside the last one on a page: the least likely ones."""


class Page(NamedTuple):
    """The line and the page of a run that has ended.

    - ``name``: what the run is about, the same every night
    - ``headline``: one line
    - ``markdown``: the page
    - ``tags``: what runs are looked for by
    """

    name: str
    headline: str
    markdown: str
    tags: tuple[str, ...] = ()


@singledispatch
def page_of(_report: object) -> Page | None:
    """The page of a report; None for what has none."""
    return None


@page_of.register
def _(report: RunReport) -> Page:
    name = short_name(report.out)
    return _page(
        name,
        report.headline,
        [
            table(("what", "", "documents"), report.counts),
            *_drift_parts(report.drift),
            *_listed("Failed", [cell(error) for error in report.errors[:MOST_ERRORS]]),
            *_listed("Look at", _places(report.out, report.mlflow_run, report.mlflow_page)),
        ],
        tags=tuple(_tags(report)),
    )


@page_of.register
def _(report: TrainReport) -> Page:
    tuned = report.consistency
    counted = ("documents", "tokens")
    rows = [
        ("documents learned from", f"{report.documents:,}"),
        ("tokens", f"{report.tokens:,}"),
        ("rejected documents", f"{report.rejected:,}"),
        ("labels", f"{report.labels:,}"),
        *((name, f"{value:,.6g}") for name, value in report.figures.items() if name not in counted),
    ]
    if tuned is not None:
        rows.append(("F1 on documents held out", f"{tuned.f1_without:.2%} → {tuned.f1:.2%} with label consistency"))
    registered = f", registered as {report.registered}" if report.registered else ""
    return _page(
        short_name(report.out),
        f"trained on {report.documents:,} documents by {report.trainer}{registered}",
        [
            table(("model", "value"), rows),
            *_listed("Look at", _places(report.out, report.mlflow_run, report.mlflow_page)),
        ],
    )


@page_of.register
def _(report: CodlReport) -> Page:
    headline = f"{len(report.cycles)} cycles over {report.pool:,} documents{'' if report.settled else ', not settled'}"
    return _page(short_name(report.out), headline, _listed("Look at", _places(report.out, report.mlflow_run, None)))


@page_of.register
def _(report: ChallengeReport) -> Page:
    gain = report.gain
    rows = [
        ("champion before", "none" if report.champion is None else f"v{report.champion}"),
        ("challenger", f"v{report.challenger}"),
        (f"moved {report.alias}", "yes" if report.promoted else "no"),
        ("why", report.reason),
    ]
    if gain is not None:
        rows += [
            (f"F1 of {report.measure}", f"{gain.other:.2%} → {gain.other + gain.difference:.2%}"),
            ("p", f"{gain.p_value:.3g}"),
            ("held-out documents", f"{report.documents:,}"),
        ]
    return _page(
        report.name,
        challenge_told(report),
        [
            table(("gate", "value"), rows),
            *_listed("Look at", _places(report.training.out, report.training.mlflow_run, report.training.mlflow_page)),
        ],
        tags=("promoted" if report.promoted else "not promoted",),
    )


@page_of.register
def _(report: MonthReport) -> Page:
    tags = ("drift",) if report.drifted else ()
    return Page(short_name(report.out), month_told(report), report.markdown, tags)


def challenge_told(report: ChallengeReport) -> str:
    """What a challenge came to, in a line."""
    if report.promoted:
        return f"{report.name} v{report.challenger} is the {report.alias} now: {report.reason}"
    return f"{report.name} v{report.champion} stays the {report.alias} before v{report.challenger}: {report.reason}"


def month_told(report: MonthReport) -> str:
    """What the runs of a month came to, in a line."""
    headline = f"{report.month}: {report.nights:,} runs, {report.labelled:,} documents labelled"
    return f"{headline}, {report.drifted:,} with drift, {report.failed:,} with failed shards"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def line_of(text: str) -> str:
    """A text of whatever origin in one line, without secrets and control characters."""
    return " ".join(visible(redact(text)).split())


def cell(text: str) -> str:
    """A text without secrets that is no markup: it may come from a corpus or a file."""
    plain = line_of(text)
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in plain)


def cancelled_page(name: str) -> Page:
    """The page of a run that a signal has ended, and of which no report is known; ``name``: what the run is about."""
    return _page(name, INTERRUPTED, [], tags=("cancelled",))


def _page(name: str, headline: str, parts: Sequence[str], *, tags: tuple[str, ...] = ()) -> Page:
    markdown = "\n\n".join([f"# {cell(name)}", cell(headline), *parts])
    return Page(redact(name), redact(headline), f"{markdown}\n", tags)


def _drift_parts(drift: Drift | None) -> list[str]:
    if drift is None:
        return []
    parts = []
    if drift.movements:
        rows = [
            (m.figure, m.of, f"{m.before:.4g}", f"{m.after:.4g}", f"{m.p_value:.2g}", "beyond" if m.breach else "")
            for m in drift.movements[:MOST_MOVEMENTS]
        ]
        parts += ["## Against the last night", table(("figure", "of", "last", "now", "p", "threshold"), rows)]
    if drift.most_changed:
        rows_changed = [(document.doc_id, f"{document.spans:,}") for document in drift.most_changed]
        parts += ["## Answers that changed most", table(("document", "spans"), rows_changed)]
    return parts


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "\n".join(f"- {line}" for line in lines)] if lines else []


def _places(out: str, run: str, page: str | None) -> list[str]:
    mlflow = f"[MLflow run {run}]({page})" if page else f"MLflow run {cell(run)}"
    return [f"output in {cell(out)}", mlflow]


def _tags(report: RunReport) -> Iterable[str]:
    if report.cancelled:
        yield "cancelled"
    elif report.shards_failed:
        yield "failed shards"
    elif report.withheld:
        yield "withheld"
    elif not report.shards_done:
        yield "nothing new"
    else:
        yield "labelled"
    if report.rejected:
        yield "rejects"
    if report.drift is not None and report.drift.missing:
        yield "gone"
    if report.drift is not None and report.drift.breaches:
        yield "drift"
