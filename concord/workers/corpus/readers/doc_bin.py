"""spaCy's ``.spacy`` files: documents with their tokens, sentences and entities; needs the extra ``spacy``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.columns import Misfit, Reject
from concord.schemas.document import TOKENS, Column, Document, SourceSpans, TokenizedText
from concord.schemas.errors import CorpusError
from concord.schemas.labels import OUTSIDE
from concord.workers.corpus.readers.reader import BadLineError
from concord.workers.corpus.readers.span_places import TextSpan
from concord.workers.corpus.readers.span_shapes import MarkedText, type_name
from concord.workers.corpus.readers.spans import OVERLAP

NEEDED = "this needs spaCy: pip install 'concord-nlp[spacy]'"
ENTITIES_KEY = "ents"
"""Name of the entities of a document beside the names of its groups of spans."""


class DocSpan(NamedTuple):
    """A span in characters (end exclusive), its type, and its score if its group has scores."""

    start: int
    end: int
    type: str
    score: float | None = None


def read_doc_bin(path: Path, prefix: str, spans_key: str | None) -> Iterator[Document | Reject | Misfit]:
    """Documents ``prefix-0001``, ... with spaCy's own tokens; tokens of blanks are left out.

    - ``spans_key``: `ENTITIES_KEY`, or the group of spans that is read; None: the only one of these that has spans.

    A document on which nobody has set entities or a group of spans has no labels. Raises `CorpusError` where spaCy is
    not installed.
    """
    for number, (doc_id, doc) in enumerate(_docs(path, prefix), 1):
        try:
            yield from _document(doc, path, number, doc_id, spans_key)
        except BadLineError as error:
            yield Reject(str(path), number, f"{prefix}-{number:04d}", f"document {number}: {error}")


def read_scored(path: Path, prefix: str, spans_key: str | None) -> Iterator[MarkedText | Reject]:
    """Texts with all their spans, as `read_doc_bin`; those of a group have scores where it has them (spancat's)."""
    for number, (doc_id, doc) in enumerate(_docs(path, prefix), 1):
        try:
            spans = _spans(doc, spans_key)
        except BadLineError as error:
            yield Reject(str(path), number, doc_id, f"document {number}: {error}")
            continue
        yield MarkedText(doc_id, doc.text, [TextSpan(*span[:3], score=span.score) for span in spans or ()])


def _docs(path: Path, prefix: str) -> Iterator[tuple[str, Any]]:
    """spaCy's documents of a file, with their ids."""
    if find_spec("spacy") is None:
        raise CorpusError(f"{path}: {NEEDED}")
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    raw = path.read_bytes()
    if not raw.strip():
        return
    try:
        docs = list(DocBin(store_user_data=True).from_bytes(raw).get_docs(Vocab()))
    except (ValueError, KeyError, TypeError, OSError, zlib.error) as error:
        raise CorpusError(f"{path}: not a whole .spacy file ({type(error).__name__}); write it again") from error
    for number, doc in enumerate(docs, 1):
        yield str(doc.user_data.get("doc_id", f"{prefix}-{number:04d}")), doc


def _document(
    doc: Any, path: Path, number: int, doc_id: str, spans_key: str | None
) -> Iterator[Document | Reject | Misfit]:
    words = [token for token in doc if not token.text.isspace()]
    if not words:
        yield Reject(str(path), number, doc_id, f"document {number} has no tokens")
        return
    start = np.array([token.idx for token in words], np.int32)
    end = np.array([token.idx + len(token.text) for token in words], np.int32)
    starts = [token.idx for token in doc if token.is_sent_start] if doc.has_annotation("SENT_START") else []
    sentences = np.unique(np.searchsorted(start, np.array([0, *starts])))
    document = Document(
        doc_id,
        sentences[sentences < len(start)].astype(np.int64),
        {TOKENS: Column.encode([token.text for token in words])},
        raw=TokenizedText(doc.text, start, end),
    )
    spans = _spans(doc, spans_key)
    if spans is None:
        yield document
        return
    names, hidden = [OUTSIDE] * len(words), 0
    for left, right, kind, _ in sorted(spans, key=lambda span: (span.start - span.end, span[:3])):
        first, last = int(np.searchsorted(start, left)), int(np.searchsorted(start, right))
        if any(name != OUTSIDE for name in names[first:last]):
            hidden += 1
            continue
        names[first:last] = [f"B-{kind}", *[f"I-{kind}"] * (last - first - 1)][: last - first]
    yield replace(document, labels=Column.encode(names), source_spans=SourceSpans.of([span[:3] for span in spans]))
    yield from [Misfit(str(path), number, doc_id, OVERLAP)] * hidden


def _spans(doc: Any, spans_key: str | None) -> list[DocSpan] | None:
    """The spans of a document, sorted; None where none were ever set. Raises `BadLineError` where several are."""
    there = {name: list(group) for name, group in doc.spans.items()}
    if doc.has_annotation("ENT_IOB"):
        there = {ENTITIES_KEY: list(doc.ents), **there}
    filled = [name for name in there if there[name]] or list(there)[:1]
    if spans_key is not None:
        filled = [spans_key]
        if there and spans_key not in there:
            raise BadLineError(f"no spans under {spans_key!r}; there are {', '.join(there)}: --set spans_key=NAME")
    if len(filled) > 1:
        keys = " and ".join(map(repr, filled))
        raise BadLineError(f"spans under {keys}; choose: --set spans_key={filled[0]}")
    if not there:
        return None
    group, count = doc.spans.get(filled[0]), len(there[filled[0]])
    values = () if group is None else group.attrs.get("scores", ())
    scores = map(float, values) if len(values) == count else [None] * count
    spans = (
        DocSpan(span.start_char, span.end_char, type_name(span.label_), score)
        for span, score in zip(there[filled[0]], scores, strict=True)
    )
    return sorted(spans, key=lambda span: span[:3])
