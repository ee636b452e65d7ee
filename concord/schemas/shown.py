"""Results that display themselves: plain text at a prompt, HTML in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from html import escape
from itertools import accumulate
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from concord.schemas.blocks import AnyBlock, Headline, Passage, Remark, Table, Tone, row, text_columns
from concord.schemas.secrets import short_name
from concord.schemas.visible import visible

INK = "#222"
"""Colour of letters on `COLOURS`: those of a dark page would be too light."""

COLOURS = ("#b3e2cd", "#fdcdac", "#cbd5e8", "#f4cae4", "#e6f5c9", "#fff2ae")
"""Colours of the types in a text, in order of their names. The type also stands beside each entity."""

NO_GAP = 1e-6
"""Largest gap, in nats, that is shown as none: engines prove optimality to within this."""

MOST_PARTS = 20
"""Largest number of entries of a list or mapping that are shown."""


class Report(BaseModel):
    """Base of reports, and of their parts. Frozen; an unknown key is an error; infinite figures are JSON strings.

    A report says in `blocks` what it has to tell. `flows.screen.terminal` draws that for a terminal,
    `flows.screen.pages` for pages of Prefect and MLflow, `blocks_html` for notebooks, and `blocks_text` for ``print``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    @classmethod
    def from_results(cls, *results: object, **values: Any) -> Self:
        """The report of ``values``; each other field is from the only result that has an attribute of its name.

        Raises `TypeError` for a field that two results have, and pydantic's error for fields without a value.
        """
        for name in cls.model_fields.keys() - values.keys():
            found = [one for one in results if hasattr(one, name)]
            if len(found) > 1:
                raise TypeError(f"{cls.__name__}: {' and '.join(type(one).__name__ for one in found)} have {name!r}")
            if found:
                values[name] = getattr(found[0], name)
        return cls(**values)

    def blocks(self) -> Iterable[AnyBlock]:
        """What it says: by default the value of each field."""
        yield Headline(type(self).__name__)
        yield Table(text_columns("field", "value"), tuple(row(name, _value(value)) for name, value in self))

    @property
    def subject(self) -> str:
        """What it is about, the same every time: the name of the output, or of the report."""
        out = getattr(self, "out", None)
        return short_name(str(out)) if out else type(self).__name__

    @property
    def page_tags(self) -> tuple[str, ...]:
        """Words by which runs with such a report are looked for."""
        return ()

    @property
    def headline(self) -> str:
        """What it comes to, in a line."""
        return next(block.text for block in self.blocks() if isinstance(block, Headline))

    def __repr__(self) -> str:
        return fields_text(type(self).__name__, dict(self))

    def __str__(self) -> str:
        return blocks_text(self.blocks())

    def _repr_html_(self) -> str:
        return blocks_html(self.blocks())


def headline_first(blocks: Iterable[AnyBlock]) -> list[AnyBlock]:
    """The blocks as pages and notebooks have them."""
    return sorted(blocks, key=lambda block: not isinstance(block, Headline))


def within(part: Report) -> Iterator[AnyBlock]:
    """The blocks of a report that is part of another one, whose headline is a line among others."""
    return (Remark(block.text) if isinstance(block, Headline) else block for block in part.blocks())


def blocks_text(blocks: Iterable[AnyBlock]) -> str:
    """The blocks as a terminal shows them, as plain text: in their order, without tables of details."""
    return "\n".join(_text(block) for block in blocks if not (isinstance(block, Table) and block.detail))


@singledispatch
def _text(block: AnyBlock) -> str:
    raise TypeError(f"there is no text for {block!r}")


@_text.register
def _(block: Headline) -> str:
    return visible(block.text)


@_text.register
def _(block: Remark) -> str:
    return visible(block.text if block.link is None else f"{block.text}: {block.link}")


@_text.register
def _(block: Table) -> str:
    rows = [[visible(cell) for cell in cells] for cells in (block.heads, *(one.cells for one in block.rows))]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = (
        " ".join(
            cell.rjust(width) if column.figures else cell.ljust(width)
            for cell, width, column in zip(cells, widths, block.columns, strict=True)
        ).rstrip()
        for cells in rows
    )
    return "\n".join([*filter(None, [visible(block.title)]), *lines])


@_text.register
def _(block: Passage) -> str:
    return visible(block.lead) + visible(marked_text(block.text.rstrip(), block.entities))


def blocks_html(blocks: Iterable[AnyBlock]) -> str:
    """The blocks as HTML, for a notebook; no text in them is markup."""
    return "".join(map(_html, headline_first(blocks)))


WEIGHTS = {Tone.STRONG: "font-weight:bold", Tone.NOTICE: "font-style:italic", Tone.WRONG: "font-weight:bold"}
"""CSS of tones; colours would have to suit dark pages and light ones."""


def _styled(tone: Tone) -> str:
    return f' style="{WEIGHTS[tone]}"' if tone in WEIGHTS else ""


@singledispatch
def _html(block: AnyBlock) -> str:
    raise TypeError(f"there is no HTML for {block!r}")


@_html.register
def _(block: Headline) -> str:
    return f"<p{_styled(Tone.STRONG)}>{plain_html(block.text)}</p>"


@_html.register
def _(block: Remark) -> str:
    text = plain_html(block.text)
    linked = text if block.link is None else f'<a href="{plain_html(block.link)}">{text}</a>'
    return f"<p{_styled(block.tone)}>{linked}</p>"


@_html.register
def _(block: Table) -> str:
    title = f"<caption>{plain_html(block.title)}</caption>" if block.title else ""
    heads = "".join(f"<th>{plain_html(head)}</th>" for head in block.heads)
    rows = "".join(
        f"<tr{_styled(one.tone)}>{''.join(f'<td>{plain_html(cell)}</td>' for cell in one.cells)}</tr>"
        for one in block.rows
    )
    return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


@_html.register
def _(block: Passage) -> str:
    return f"{plain_html(block.lead)}{marked_html(block.text, block.entities)}"


def plain_html(text: str) -> str:
    """A text that is no markup, with line breaks."""
    return escape(visible(text)).replace("\n", "<br>")


def fields_text(title: str, fields: Mapping[str, Any]) -> str:
    """A title, and a line for each field."""
    width = max(map(len, fields), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {_value(value)}" for name, value in fields.items())])


def fields_html(title: str, fields: Mapping[str, Any]) -> str:
    """A table with a row for each field."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(_value(value))}</td></tr>" for name, value in fields.items()
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def lines_html(lines: Iterable[str]) -> str:
    """A paragraph with a line for each text."""
    return f"<p>{'<br>'.join(map(escape, lines))}</p>"


def broken_lines(broken: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each constraint that an answer breaks; ``broken`` have name, degree, and penalty in nats."""
    return [
        f"breaks {one['name']}: degree {one['degree']:.3g}, penalty {one['penalty']:.3g} nats"
        for one in broken
        if one["degree"] > 0
    ]


def proven(status: str, gap: float) -> str:
    """Sentence about an answer's status, and about how much more another labelling could score; ``gap`` in nats."""
    if gap == math.inf:
        return f"{status}: it has no bound, so nothing is proven"
    if gap <= NO_GAP:
        return f"{status}: no labelling scores higher"
    return f"{status}: no labelling scores more than {gap:.3g} nats higher"


def marked_tokens(tokens: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Tokens with blanks between them, and the entities with their places in that text."""
    ends = list(accumulate(len(token) + 1 for token in tokens))
    starts = [0, *ends]
    spans = [{"char_start": starts[one["start"]], "char_end": ends[one["end"] - 1] - 1} for one in entities]
    return " ".join(tokens), [{**one, **span} for one, span in zip(entities, spans, strict=True)]


def marked_text(text: str, entities: Iterable[Mapping[str, Any]]) -> str:
    """A text with each of its entities in brackets, the type after it: ``[Ada Lovelace PER]``.

    ``entities`` have ``type``, ``char_start`` and ``char_end``, in the order of the text, none inside of another.
    """
    return "".join(f"[{part} {kind}]" if kind else part for part, kind in marked_parts(text, entities))


def marked_html(text: str, entities: Sequence[Mapping[str, Any]]) -> str:
    """A text with its entities as HTML, with a colour for each type."""
    kinds = sorted({entity["type"] for entity in entities})
    colour = {kind: COLOURS[i % len(COLOURS)] for i, kind in enumerate(kinds)}
    parts = (
        f'<mark style="background:{colour[kind]};color:{INK}">{one} <small>{escape(visible(kind))}</small></mark>'
        if kind
        else one
        for one, kind in ((escape(visible(part)), kind) for part, kind in marked_parts(text, entities))
    )
    return f'<p style="white-space:pre-wrap">{"".join(parts)}</p>'


def marked_parts(text: str, entities: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    """Parts of a text in order, each with the type of its entity, or an empty string for text outside entities."""
    end = 0
    for entity in entities:
        yield text[end : entity["char_start"]], ""
        yield text[entity["char_start"] : entity["char_end"]], entity["type"]
        end = entity["char_end"]
    yield text[end:], ""


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, Report):
        return _value(dict(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(part)}" for name, part in list(value.items())[:MOST_PARTS]) or "none"
    if isinstance(value, tuple | list):
        return ", ".join(map(_value, value[:MOST_PARTS])) or "none"
    return "none" if value is None else str(value)
