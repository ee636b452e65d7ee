"""A labelled text for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from concord.flows.cli.plain_tables import figures_table, text_table
from concord.schemas.decoded import MarginStatus
from concord.schemas.labelled import LabelledEntity, LabelledText

STYLES = ("cyan", "green", "magenta", "yellow", "blue", "red")
"""Styles of the types in a text, in order of their names. The type also stands in the brackets."""


def marked_text(found: LabelledText) -> Text:
    """The text with each entity in brackets, and its type after it."""
    return _marked(found.text or "", found.entities)


def model_alone(found: LabelledText) -> Text:
    """The text as the model alone labels it, marked in the same way, and the nats between the two labellings."""
    reading = _marked(found.text or "", found.viterbi_entities)
    return Text("the model alone: ").append(reading).append(f"\n{_apart(found)}", style="dim")


def _apart(found: LabelledText) -> str:
    return (
        f"better by {found.viterbi_local - found.local:.4f} nats under the model, where constraints charge it "
        f"{found.viterbi_penalty:.4f} and the answer {found.penalty:.4f}"
    )


def _marked(text: str, entities: Sequence[LabelledEntity]) -> Text:
    styles = {kind: STYLES[i % len(STYLES)] for i, kind in enumerate(sorted({e.type for e in entities}))}
    marked, end = Text(), 0
    for entity in entities:
        if entity.char_start is None or entity.char_end is None:
            continue
        style = styles[entity.type]
        marked.append(text[end : entity.char_start])
        marked.append(f"[{text[entity.char_start : entity.char_end]} ", style=f"bold {style}")
        marked.append(f"{entity.type}]", style=style)
        end = entity.char_end
    return marked.append(text[end:].rstrip())


def entities_table(found: LabelledText) -> Table:
    """A line for each entity: its confidence."""
    table = figures_table("entity", "type", "probability", "margin,\nnats")
    for entity in found.entities:
        table.add_row(Text(entity.text), entity.type, _probability(entity), _margin(entity))
    return table


def _probability(entity: LabelledEntity) -> str:
    return "–" if entity.probability is None else f"{entity.probability:.4f}"


def _margin(entity: LabelledEntity) -> str:
    if entity.margin is None:
        return "–"
    least = "≥ " if entity.margin_status == MarginStatus.BOUND else ""
    return f"{least}{entity.margin:.3f}"


def ranking_table(found: LabelledText) -> Table:
    """A line for each of the best labellings: nats below the first, is its rank proven?, and tokens that differ."""
    table = text_table("rank", "nats below", "proven", "what differs from the first")
    for rank, one in enumerate(found.n_best, start=1):
        differs = Text("; ".join(_differences(found.tokens, found.n_best[0].labels, one.labels)))
        table.add_row(str(rank), f"{one.gap:.4f}", "yes" if one.proven else "no", differs)
    return table


def _differences(tokens: Sequence[str], first: Sequence[str], other: Sequence[str]) -> list[str]:
    """Runs of tokens that have other labels, each with both."""
    lines = []
    for same, run in groupby(range(len(tokens)), key=lambda t: first[t] == other[t]):
        places = list(run)
        if not same:
            words, before, after = (" ".join(row[t] for t in places) for row in (tokens, first, other))
            lines.append(f"{words}: {before} → {after}")
    return lines


def ranking_line(found: LabelledText) -> str:
    """Line about all labellings that are not listed."""
    proven = sum(one.proven for one in found.n_best)
    if found.n_best_bound == -math.inf:
        return f"{proven:,} labellings listed, which are all that break nothing hard"
    return (
        f"{proven:,} of {len(found.n_best):,} labellings proven to have their rank; "
        f"no other scores more than {found.n_best_bound:,.4f} nats"
    )


def answer_line(found: LabelledText) -> str:
    """Line about the answer: number of entities, and what is proven."""
    return (
        f"{found.doc_id}: {len(found.entities):,} entities in {len(found.tokens):,} tokens; {found.status}, "
        f"score {found.score:,.4f} nats, bound {found.bound:,.4f}, gap {found.gap:.2g}"
    )
