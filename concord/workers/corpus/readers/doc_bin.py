"""spaCy's ``.spacy`` files: documents with their tokens, sentences and entities; needs the extra ``spacy``."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from concord.schemas.columns import Reject
from concord.schemas.document import TOKENS, Column, Document, SourceSpans, TokenizedText
from concord.schemas.errors import CorpusError
from concord.schemas.labels import OUTSIDE

NEEDED = "this needs spaCy: pip install 'concord-nlp[spacy]'"


def read_doc_bin(path: Path, prefix: str) -> Iterator[Document | Reject]:
    """Documents ``prefix-0001``, ... with spaCy's own tokens; tokens of blanks are left out.

    Raises `CorpusError` where spaCy is not installed.
    """
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
        yield _document(doc, path, f"{prefix}-{number:04d}")


def _document(doc: Any, path: Path, doc_id: str) -> Document | Reject:
    words = [token for token in doc if not token.text.isspace()]
    if not words:
        return Reject(str(path), None, doc_id, "document has no tokens")
    start = np.array([token.idx for token in words], np.int32)
    end = np.array([token.idx + len(token.text) for token in words], np.int32)
    starts = [token.idx for token in doc if token.is_sent_start] if doc.has_annotation("SENT_START") else []
    sentences = np.unique(np.searchsorted(start, np.array([0, *starts])))
    spans = sorted((span.start_char, span.end_char, span.label_) for span in doc.ents)
    names = [OUTSIDE] * len(words)
    for left, right, kind in spans:
        first, last = int(np.searchsorted(start, left)), int(np.searchsorted(start, right))
        names[first:last] = [f"B-{kind}", *[f"I-{kind}"] * (last - first - 1)][: last - first]
    return Document(
        str(doc.user_data.get("doc_id", doc_id)),
        sentences[sentences < len(start)].astype(np.int64),
        {TOKENS: Column.encode([token.text for token in words])},
        Column.encode(names),
        TokenizedText(doc.text, start, end),
        source_spans=SourceSpans.of(spans),
    )
