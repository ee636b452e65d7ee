"""Elements of an XML file with their lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from xml.parsers import expat

from concord.workers.corpus.readers.reader import BadLineError


@dataclass
class Element:
    """An element: its name without a namespace, attributes, first line in the file, and texts and elements in order."""

    name: str
    attributes: dict[str, str]
    line: int
    content: list[Element | str] = field(default_factory=list)

    @property
    def elements(self) -> list[Element]:
        """The elements right inside."""
        return [item for item in self.content if isinstance(item, Element)]

    @property
    def text(self) -> str:
        """All text inside, of inner elements too."""
        return "".join(item if isinstance(item, str) else item.text for item in self.content)

    def walk(self) -> Iterator[Element]:
        """The element and all inside, in the order of the file."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.elements))


class XmlError(BadLineError):
    """A file is no well-formed XML; carries the line (from 1), and the elements that were whole before it."""

    def __init__(self, reason: str, line: int, whole: Element | None) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.whole = whole


MOST_NESTED = 200
"""Number of elements inside each other that no file of records has."""


def parse_xml(text: str) -> Element:
    """The outermost element of a text. Raises `XmlError`."""
    parser = expat.ParserCreate("utf-8", "}")
    opened: list[Element] = []
    outermost: list[Element] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        element = Element(_local(name), {_local(k): v for k, v in attributes.items()}, parser.CurrentLineNumber)
        if len(opened) >= MOST_NESTED:
            raise XmlError("elements are nested too deeply", element.line, None)
        (opened[-1].content if opened else outermost).append(element)
        opened.append(element)

    def end(_: str) -> None:
        opened.pop()

    def characters(content: str) -> None:
        if opened:
            opened[-1].content.append(content)

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text.encode(), True)  # noqa: FBT003 — expat takes no keywords
    except expat.ExpatError as error:
        reason = f"no well-formed XML ({expat.ErrorString(error.code)})"
        raise XmlError(reason, min(error.lineno, text.count("\n") + 1), _closed(outermost, opened)) from None
    return outermost[0]


def _closed(outermost: list[Element], opened: list[Any]) -> Element | None:
    """The outermost element without those inside that have no end."""
    for outer, inner in pairwise(opened):
        outer.content.remove(inner)
    return outermost[0] if outermost else None


def _local(name: str) -> str:
    return name.rpartition("}")[2]
