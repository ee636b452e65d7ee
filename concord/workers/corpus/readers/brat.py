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
from concord.workers.corpus.readers.span_places import TextSpan
from concord.workers.corpus.readers.span_shapes import MarkedText, SpanError
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
    spans: list[TextSpan] = []
    for line in file_lines(beside):
        try:
            spans += _spans(line_text(line, encoding), text, line.number)
        except BadLineError as error:
            return Reject(str(beside), line.number, doc_id, f"line {line.number}: {error}")
    return MarkedText(doc_id, text, spans)


def _spans(line: str, text: str, number: int) -> Iterator[TextSpan]:
    """The span of a line, if it has one. Raises `BadLineError`."""
    if not line.startswith("T"):
        return
    columns = line.split("\t")
    found = BRAT_SPAN.fullmatch(columns[1]) if len(columns) > 1 else None
    if found is None:
        raise BadLineError(f"no span; {BRAT_LINE}")
    parts = [tuple(map(int, part.split(" "))) for part in found[2].split(";")]
    for start, end in parts:
        if not start < end <= len(text):
            raise BadLineError(f"characters {start} to {end} are not in the text, which has {len(text)}")
    words = " ".join(text[start:end] for start, end in parts)
    if len(columns) > 2 and _words(columns[2]) != _words(words):
        raise SpanError(
            f"characters {found[2]} are {words[:40]!r} and not {columns[2][:40]!r}; brat counts characters of the text "
            "from 0, line ends among them"
        )
    yield TextSpan(
        min(start for start, _ in parts), max(end for _, end in parts), found[1], line=number, parts=len(parts)
    )


def _words(text: str) -> list[str]:
    return text.split()
