"""Counts of a corpus as tables for people."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from concord.flows.cli.plain_tables import figures_table
from concord.schemas.reports import CorpusReport, LengthFigures


def corpus_tables(report: CorpusReport) -> list[Table]:
    """Table of lengths; with gold labels also tables of spans by type, and of labels."""
    tables = [_lengths(report)]
    if report.spans:
        tables.append(_spans(report))
    return [*tables, _labels(report)] if report.labels else tables


def corpus_lines(report: CorpusReport) -> list[str]:
    """Lines of the counts that a corpus has once."""
    lines = [
        f"{report.documents:,} documents ({report.with_gold:,} with gold labels), {report.sentences:,} sentences, "
        f"{report.tokens:,} tokens; {report.rejected:,} rows rejected, {report.repeated:,} of them with an earlier "
        "row's doc_id"
    ]
    if report.unknown is not None:
        lines.append(f"{report.unknown_tokens:,} tokens ({report.unknown:.2%}) are words that the model does not know")
    return lines


def _lengths(report: CorpusReport) -> Table:
    table = figures_table("tokens a", "mean", *(name for name in LengthFigures.model_fields if name != "mean"))
    for name, row in (("document", report.document_tokens), ("sentence", report.sentence_tokens)):
        whole = row.model_dump()
        mean = whole.pop("mean")
        table.add_row(name, f"{mean:,.1f}", *(f"{value:,}" for value in whole.values()))
    return table


def _spans(report: CorpusReport) -> Table:
    table = figures_table("span", "spans", "tokens", "tokens a span")
    for name, row in report.spans.items():
        table.add_row(Text(name), f"{row.spans:,}", f"{row.tokens:,}", f"{row.tokens / row.spans:.2f}")
    return table


def _labels(report: CorpusReport) -> Table:
    table = figures_table("label", "tokens", "share")
    whole = sum(report.labels.values())
    for name, tokens in report.labels.items():
        table.add_row(Text(name), f"{tokens:,}", f"{tokens / whole:.2%}")
    return table
