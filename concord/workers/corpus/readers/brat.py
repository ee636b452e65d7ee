"""brat's standoff files: a text ``NAME.txt``, and its annotations in ``NAME.ann``.

``T1<tab>PER 0 11<tab>Mira Tolvan`` is a span of characters; ``PER 0 4;13 19`` has several parts. Lines of relations,
events, attributes and notes are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from concord.schemas.columns import Reject
from concord.workers.corpus.readers.lines import file_lines, line_text
from concord.workers.corpus.readers.reader import BadLineError
from concord.workers.corpus.readers.span_places import NO_PLACE, LostSpan, TextSpan, located
from concord.workers.corpus.readers.span_shapes import NO_SPAN, MarkedText, UnreadableSpanError
from concord.workers.corpus.readers.text import text_of_bytes

ANNOTATION_SUFFIX, TEXT_SUFFIX = ".ann", ".txt"
BRAT_SPAN = re.compile(r"(\S+) ([0-9]{1,9} [0-9]{1,9}(?:;[0-9]{1,9} [0-9]{1,9})*)")
BRAT_LINE = "want ID, then type, start and end between blanks, then the words, between tabs"


def read_brat(path: Path, doc_id: str, encoding: str) -> MarkedText | Reject:
    """The text and the spans of one pair of files, of which ``path`` is either; or its reject."""
    beside, content = path.with_suffix(ANNOTATION_SUFFIX), path.with_suffix(TEXT_SUFFIX)
    for file, other in ((beside, content), (content, beside)):
        if not file.is_file():
            empty = "; an empty one says that there are no spans" if file is beside else ""
            return Reject(str(other), None, doc_id, f"there is no {file.name} beside it{empty}")
    text = text_of_bytes(content.read_bytes(), str(content), doc_id, encoding)
    if isinstance(text, Reject):
        return text
    spans, lost = list[TextSpan](), list[LostSpan]()
    for line in file_lines(beside):
        try:
            spans += _spans(line_text(line, encoding), text, line.number)
        except UnreadableSpanError as error:
            lost.append(error.lost)
        except BadLineError as error:
            return Reject(str(beside), line.number, doc_id, f"line {line.number}: {error}")
    placed = located(spans, text, "characters")
    return MarkedText(doc_id, text, placed.spans, lost=[*lost, *placed.lost])


def _spans(line: str, text: str, number: int) -> Iterator[TextSpan]:
    """The span of a line, if it has one. Raises `UnreadableSpanError`."""
    if not line.startswith("T"):
        return
    columns = line.split("\t")
    found = BRAT_SPAN.fullmatch(columns[1]) if len(columns) > 1 else None
    if found is None:
        raise UnreadableSpanError(NO_SPAN, f"no span; {BRAT_LINE}")
    parts = [tuple(map(int, part.split(" "))) for part in found[2].split(";")]
    words = columns[2] if len(columns) > 2 else None
    if len(parts) > 1 and words is not None:
        there = " ".join(text[start:end] for start, end in parts)
        if there.split() != words.split():
            raise UnreadableSpanError(NO_PLACE, f"characters {found[2]} are {there[:40]!r} and not {words[:40]!r}")
        words = None  # what lies between the parts is in the span
    start, end = min(start for start, _ in parts), max(end for _, end in parts)
    yield TextSpan(start, end, found[1], words, line=number, parts=len(parts))
