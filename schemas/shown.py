"""Results that show themselves: plain text at a prompt, HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any

COLOURS = ("#b3e2cd", "#fdcdac", "#cbd5e8", "#f4cae4", "#e6f5c9", "#fff2ae")
"""Of the types that a text has, by name; the type beside each entity tells them apart without colours."""

NO_GAP = 1e-6
"""Nats: engines prove what is optimal to within this."""

MOST_PARTS = 20
"""Of a list or a mapping that are shown."""


class Shown:
    """A result of pydantic fields that shows itself: a line, or a row of a table, a field."""

    def __repr__(self) -> str:
        return fields_text(type(self).__name__, dict(self))  # type: ignore[call-overload]

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return fields_html(type(self).__name__, dict(self))  # type: ignore[call-overload]


def fields_text(title: str, fields: Mapping[str, Any]) -> str:
    """A title, and a line a field."""
    width = max(map(len, fields), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {_value(value)}" for name, value in fields.items())])


def fields_html(title: str, fields: Mapping[str, Any]) -> str:
    """A table of a row a field."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(_value(value))}</td></tr>" for name, value in fields.items()
    )
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def proven(status: str, gap: float) -> str:
    """What an answer's status says, and how much more any other labelling could score; ``gap`` in nats."""
    if gap <= NO_GAP:
        return f"{status}: no labelling scores higher"
    return f"{status}: no labelling scores more than {gap:.3g} nats higher"


def marked_tokens(tokens: Sequence[str], entities: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Tokens with blanks between them, and where in that text the entities stand."""
    ends = list(accumulate(len(token) + 1 for token in tokens))
    starts = [0, *ends]
    spans = [{"char_start": starts[one["start"]], "char_end": ends[one["end"] - 1] - 1} for one in entities]
    return " ".join(tokens), [{**one, **span} for one, span in zip(entities, spans, strict=True)]


def marked_text(text: str, entities: Iterable[Mapping[str, Any]]) -> str:
    """A text with each of its entities in brackets, the type after it: ``[Ada Lovelace PER]``.

    ``entities`` have ``type``, ``char_start`` and ``char_end``, in the order of the text, none inside of another.
    """
    return "".join(f"[{part} {kind}]" if kind else part for part, kind in _parts(text, entities))


def marked_html(text: str, entities: Sequence[Mapping[str, Any]]) -> str:
    """The same as HTML, a colour a type."""
    kinds = sorted({entity["type"] for entity in entities})
    colour = {kind: COLOURS[i % len(COLOURS)] for i, kind in enumerate(kinds)}
    parts = [
        f'<mark style="background:{colour[kind]}">{escape(part)} <small>{escape(kind)}</small></mark>'
        if kind
        else escape(part)
        for part, kind in _parts(text, entities)
    ]
    return f'<p style="white-space:pre-wrap">{"".join(parts)}</p>'


def _parts(text: str, entities: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    """Parts of a text in order, each with the type of the entity that it is, or with an empty one."""
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
    if isinstance(value, Shown):
        return _value(dict(value))  # type: ignore[call-overload]
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(part)}" for name, part in list(value.items())[:MOST_PARTS]) or "none"
    if isinstance(value, tuple | list):
        return ", ".join(map(_value, value[:MOST_PARTS])) or "none"
    return "none" if value is None else str(value)
