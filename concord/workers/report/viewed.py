"""A document as the viewer of a page has it: the parts of its text that matter, with all labellings of each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from concord.schemas.visible import visible
from concord.workers.report.answered import AnsweredDocument, plain_nats
from concord.workers.report.places import PlaceChange, TypedPlaces, verdict_on

MOST_TOKENS_SHOWN = 700
"""Largest number of tokens of a document that are shown."""

PART_TOKENS = 60
"""Largest number of tokens of a part; a longer sentence is several."""

MOST_LETTERS_SHOWN = 80
"""Largest number of letters of a token, an id or a name that are shown."""

MOST_LISTED_CHANGES = 60
"""Largest number of changes of a document that are listed."""

ALONE_KIND, OTHER_KIND, OPEN_KIND = "differs from the model alone", "differs from the other run", "gap is open"
"""What a document is looked for by, beside kinds of errors."""


class _TextPart(NamedTuple):
    """Tokens of a document, from ``start`` to before ``end``."""

    start: int
    end: int


def shortened(text: str) -> str:
    """A text that is no longer than what is shown, without characters that steer what shows it."""
    return visible(text if len(text) <= MOST_LETTERS_SHOWN else f"{text[: MOST_LETTERS_SHOWN - 1]}…")


def viewed(document: AnsweredDocument, *, gap: float) -> dict[str, Any]:
    """The document as JSON has it; ``gap`` in nats. Names of labellings, of types and of constraints stay as they are.

    - ``parts``: parts of the text: how many tokens were left out before it, its first token, its words, and for each
      labelling its spans in it, by their first and last word and their type
    - ``changes``: first and last token, types before and after, what gold says, the same words elsewhere, how sure
    - ``charges``: constraint, nats under the labels of the model alone, and under the answer; null: a hard one broken
    """
    layers = [document.answer, document.alone, document.other, document.gold]
    changed = document.changes[:MOST_LISTED_CHANGES]
    parts = list(_text_parts(document, layers))
    shard = document.shard
    row = None if shard.rows is None else shard.rows[document.number]
    return {
        "id": shortened(str(document.value("doc_id"))),
        "row": None if row is None else [shard.corpus, row],
        "answer": [shard.path, document.number],
        "status": document.value("status"),
        "gap": plain_nats(gap),
        "seconds": None if document.seconds is None else round(document.seconds, 4),
        "tokens": len(document.tokens),
        "kinds": _kinds(document, gap),
        "parts": [_part_of(document, part, skip, layers) for part, skip in _with_left(parts)],
        "changes": [_change(document, change) for change in changed],
        "unlisted": len(document.changes) - len(changed),
        "charges": [[one.name, plain_nats(one.before), plain_nats(one.after)] for one in document.charges],
    }


def _kinds(document: AnsweredDocument, gap: float) -> list[str]:
    there = {
        ALONE_KIND: bool(document.changes),
        OTHER_KIND: bool(document.other_changes),
        OPEN_KIND: gap > 0,
    }
    errors = dict.fromkeys(error.kind.value for error in document.errors)
    return [*(kind for kind, is_there in there.items() if is_there), *errors]


def _change(document: AnsweredDocument, change: PlaceChange) -> list[Any]:
    alike = ", ".join(f"{count:,} × {kind}" for kind, count in document.alike(change)[:3])
    return [
        change.start,
        change.end,
        shortened(document.text(change.start, min(change.end, change.start + PART_TOKENS))),
        *change.kind,
        str(verdict_on(change, document.gold)),
        alike,
        document.sureness.get((change.start, change.end), ""),
    ]


def _parts(document: AnsweredDocument) -> Iterator[_TextPart]:
    """Sentences, and pieces of long ones."""
    bounds = [*document.sentence_starts, len(document.tokens)]
    for start, end in pairwise(bounds):
        edges = [*range(start, end, PART_TOKENS), end]
        yield from (_TextPart(*edge) for edge in pairwise(edges))


def _text_parts(document: AnsweredDocument, layers: Sequence[TypedPlaces | None]) -> Iterator[_TextPart]:
    """Parts in which labellings differ and those beside them; from the start where none do; as far as there is room."""
    parts = list(_parts(document))
    starts = _parts_at(parts, _differing(layers))
    near = dict.fromkeys(number + step for number in starts for step in (0, -1, 1))
    order = [*starts, *(n for n in near if 0 <= n < len(parts)), *range(len(parts))]
    room, taken = MOST_TOKENS_SHOWN, set[int]()
    for number in dict.fromkeys(order):
        room -= parts[number].end - parts[number].start
        if room < 0:
            break
        taken.add(number)
    yield from (parts[number] for number in sorted(taken))


def _parts_at(parts: Sequence[_TextPart], places: Sequence[tuple[int, int]]) -> list[int]:
    """Numbers of the parts that have some of these places, in order."""
    begins = [part.start for part in parts]
    ranges = (range(bisect_right(begins, start) - 1, bisect_left(begins, end)) for start, end in places)
    return list(dict.fromkeys(chain.from_iterable(ranges)))


def _differing(layers: Sequence[TypedPlaces | None]) -> list[tuple[int, int]]:
    """Spans that not all labellings have, in the order of the text."""
    there = [layer for layer in layers if layer is not None]
    every = sorted({place for layer in there for place in layer})
    return [place for place in every if len({layer.get(place) for layer in there}) > 1]


def _with_left(parts: Sequence[_TextPart]) -> Iterator[tuple[_TextPart, int]]:
    """Each part, and how many tokens are left out before it."""
    end = 0
    for part in parts:
        yield part, part.start - end
        end = part.end


def _part_of(document: AnsweredDocument, part: _TextPart, skip: int, layers: Sequence[TypedPlaces | None]) -> list[Any]:
    words = [shortened(word) for word in document.tokens[part.start : part.end]]
    return [skip, part.start, words, [None if layer is None else _spans_in(part, layer) for layer in layers]]


def _spans_in(part: _TextPart, layer: TypedPlaces) -> list[list[Any]]:
    """Spans of a labelling in a part, cut at its ends."""
    return [
        [max(start, part.start) - part.start, min(end, part.end) - part.start, kind]
        for (start, end), kind in sorted(layer.items())
        if start < part.end and part.start < end
    ]
