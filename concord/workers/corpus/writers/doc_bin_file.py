"""spaCy's ``.spacy`` files: documents with concord's tokens, sentences and entities; needs the extra ``spacy``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise

from concord.schemas.exported import Change, ExportedDocument
from concord.schemas.settings import WriterSettings
from concord.workers.corpus.writers.writer import FormError, Piece


def write_doc_bin(documents: Iterator[ExportedDocument], settings: WriterSettings) -> Iterator[Piece]:
    """One `DocBin`; blanks between tokens that are no single blank become tokens of their own, as spaCy has them.

    ``user_data`` has ``doc_id``, the columns that are passed on, and with marks ``changes`` and ``why``. Raises
    `FormError` where spaCy is not installed.
    """
    if find_spec("spacy") is None:
        raise FormError("docbin: this needs spaCy: pip install 'concord-nlp[spacy]'")
    from spacy.tokens import Doc, DocBin, Span
    from spacy.vocab import Vocab

    vocab, store = Vocab(), DocBin(attrs=["SENT_START", "ENT_IOB", "ENT_TYPE"], store_user_data=True)
    for document in documents:
        words, spaces, place = _cut(document)
        starts = {place[start] for start in document.sentence_starts}
        doc = Doc(
            vocab,
            words=words,
            spaces=spaces,
            sent_starts=[number in starts or number == 0 for number in range(len(words))],
        )
        doc.ents = [Span(doc, place[s.start], place[s.end - 1] + 1, label=s.type) for s in document.spans]
        doc.user_data = {"doc_id": document.doc_id, **document.columns} | (_changes(document) if settings.marks else {})
        store.add(doc)
    yield Piece("", store.to_bytes())


def _cut(document: ExportedDocument) -> tuple[list[str], list[bool], list[int]]:
    """spaCy's words, whether a blank follows each, and the place of each token among them."""
    words: list[str] = []
    spaces: list[bool] = []
    place: list[int] = []
    bounds = [(0, 0), *zip(document.token_start, document.token_end, strict=True)]
    bounds.append((len(document.text), len(document.text)))
    for (_, before), (start, end) in pairwise(bounds):
        gap = document.text[before:start]
        if gap.startswith(" ") and words:
            spaces[-1], gap = True, gap[1:]
        if gap:
            words.append(gap)
            spaces.append(False)
        if start < end:
            place.append(len(words))
            words.append(document.text[start:end])
            spaces.append(False)
    return words, spaces, place


def _changes(document: ExportedDocument) -> dict[str, object]:
    """What was changed and why, of plain values that can be stored; nothing where nothing was."""
    changed = [span for span in (*document.spans, *document.removed) if span.change is not Change.KEPT]
    if not changed:
        return {}
    spans = [[s.first, s.last, s.type, str(s.change), s.before or ""] for s in changed]
    return {"changes": spans, "why": [[reason.constraint, reason.finite] for reason in document.reasons]}
