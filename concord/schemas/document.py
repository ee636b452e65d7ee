"""Documents in memory: dictionary-encoded token columns, alone (`Document`) or many at once (`Batch`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats2d, Ids1d, Ints1d
from concord.schemas.corrections import Correction, Corrections
from concord.schemas.labels import Spans

TOKENS = "tokens"


@dataclass(frozen=True, eq=False)
class Column:
    """A dictionary-encoded token column: ``values[codes[t]]`` is the string of token t.

    - ``codes`` (N,), ``values`` (V,): ``values`` may hold strings that a slice does not use.
    - ``plain``: of gold labels: is each a type by itself, whatever its name looks like, because the corpus says so?
    """

    codes: Ids1d
    values: Sequence[str]
    plain: bool = False

    @classmethod
    def encode(cls, strings: Sequence[str]) -> Column:
        """Distinct strings in order of first appearance."""
        values = tuple(dict.fromkeys(strings))
        codes = dict(zip(values, range(len(values)), strict=True))
        return cls(np.fromiter(map(codes.__getitem__, strings), np.int32, len(strings)), values)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, part: slice) -> Column:
        return Column(self.codes[part], self.values, self.plain)

    def used(self) -> list[str]:
        """The distinct strings that tokens have, in the order of ``values``."""
        return [self.values[i] for i in np.unique(self.codes).tolist()]

    def strings(self) -> list[str]:
        """The column as plain strings, one a token."""
        return [self.values[i] for i in self.codes.tolist()]


class ScoreColumn(NamedTuple):
    """A corpus column of another tagger's scores: a list of ``width`` numbers for each token."""

    name: str
    width: int


@dataclass(frozen=True, eq=False)
class SourceSpans:
    """The source's M gold spans of characters in D documents, including those that token labels cannot express.

    - ``starts`` (D + 1,): document i has the spans starts[i]:starts[i + 1].
    - ``start``, ``end`` (M,): first character in the document's text, and the one after the last.
    - ``type`` (M,): type of each span.
    """

    starts: Ints1d
    start: Ids1d
    end: Ids1d
    type: Column

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int, str]]) -> Self:
        """Spans of one document, each given as start, end and type."""
        bounds = np.array([span[:2] for span in spans], np.int32).reshape(-1, 2)
        start, end = (np.ascontiguousarray(bounds[:, side]) for side in (0, 1))
        return cls(np.array([0, len(spans)], np.int64), start, end, Column.encode([span[2] for span in spans]))

    @classmethod
    def join(cls, parts: Sequence[SourceSpans]) -> Self:
        """Spans of all documents of all parts, in their order."""
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.starts) for part in parts)])
        ints = [np.zeros(0, np.int32)]
        start, end = (np.concatenate([*ints, *(getattr(part, side) for part in parts)]) for side in ("start", "end"))
        return cls(np.cumsum(counts), start, end, _join([part.type for part in parts]))

    def part(self, first: int, last: int) -> SourceSpans:
        """Spans of documents first to last (exclusive); they share the arrays."""
        bounds = self.starts[first : last + 1]
        these = slice(int(bounds[0]), int(bounds[-1]))
        return SourceSpans(bounds - bounds[0], self.start[these], self.end[these], self.type[these])

    @classmethod
    def said(cls, batch: Batch, spans: Spans, types: Sequence[str]) -> Self:
        """The characters of spans of tokens, such as those of labels; the batch must have texts.

        - ``types``: names that the types of ``spans`` index.
        """
        assert batch.raw is not None
        left, right = batch.raw.start[spans.start], batch.raw.end[spans.end - 1]
        return cls(np.searchsorted(spans.start, batch.doc_starts), left, right, Column(spans.type, types))

    def distinct(self) -> set[tuple[int, int, int, str]]:
        """Each span once, as its document's number, start, end and type."""
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        return set(zip(owner.tolist(), self.start.tolist(), self.end.tolist(), self.type.strings(), strict=True))


class TokenizedText(NamedTuple):
    """The text of a document, and the places of its tokens in it.

    - ``content``: the text.
    - ``start`` (N,): the first character of each token.
    - ``end`` (N,): the character after the last one of each token.
    """

    content: str
    start: Ids1d
    end: Ids1d

    @classmethod
    def of_words(cls, words: Sequence[str]) -> TokenizedText:
        """The words with a blank between each two."""
        lengths = np.array([len(word) for word in words], np.int32)
        end = (np.cumsum(lengths + 1) - 1).astype(np.int32)
        return cls(" ".join(words), end - lengths, end)


class TokenizedTexts(NamedTuple):
    """The texts of the documents of a batch; characters are counted in each document by itself.

    - ``contents``: a text a document.
    - ``start`` (N,), ``end`` (N,): as in `TokenizedText`, for the tokens of all documents.
    """

    contents: Sequence[str]
    start: Ids1d
    end: Ids1d

    @classmethod
    def join(cls, parts: Sequence[TokenizedText]) -> Self:
        """The texts of all documents, in their order."""
        contents, start, end = zip(*parts, strict=True)
        return cls(contents, np.concatenate(start), np.concatenate(end))

    def one(self, i: int, tokens: slice) -> TokenizedText:
        """The text of document i, which has these tokens."""
        return TokenizedText(self.contents[i], self.start[tokens], self.end[tokens])

    def part(self, first: int, last: int, tokens: slice) -> TokenizedTexts:
        """The texts of documents first to last (exclusive), which have these tokens."""
        return TokenizedTexts(self.contents[first:last], self.start[tokens], self.end[tokens])


@dataclass(frozen=True, eq=False)
class Document:
    """One document of N tokens in S sentences.

    - ``sentence_starts`` (S,): first token of each sentence; the first is 0.
    - ``columns``: token columns by name: ``tokens``, and others of the corpus (``pos``, ``chunk``).
    - ``labels`` (N,): gold label names, where known.
    - ``raw``: the text with the places of its tokens, where there is one.
    - ``scores`` (N, W): scores of a `ScoreColumn`, where a model reads one.
    - ``source_spans``: gold spans of the text, where the source has gold by characters.
    - ``corrections``: what every answer to it has to keep, in the order of tokens.
    """

    doc_id: str
    sentence_starts: Ints1d
    columns: Mapping[str, Column]
    labels: Column | None = None
    raw: TokenizedText | None = None
    scores: Floats2d | None = None
    source_spans: SourceSpans | None = None
    corrections: tuple[Correction, ...] = ()

    @classmethod
    def build(
        cls,
        doc_id: str,
        sentences: Sequence[Sequence[str]],
        /,
        *,
        labels: Sequence[Sequence[str]] | None = None,
        **columns: Sequence[Sequence[str]],
    ) -> Document:
        """A document from nested lists, one list a sentence; empty sentences are dropped.

        Raises `ValueError` where a column's shape differs from the tokens'.
        """
        nested = {TOKENS: sentences, **columns} | ({} if labels is None else {"labels": labels})
        lengths = [len(s) for s in sentences]
        flat: dict[str, Column] = {}
        for name, rows in nested.items():
            if [len(r) for r in rows] != lengths:
                raise ValueError(f"document {doc_id!r}: column {name!r} does not match the tokens' shape")
            flat[name] = Column.encode([value for row in rows for value in row])
        kept = [n for n in lengths if n]
        starts = np.concatenate([[0], np.cumsum(kept)[:-1]]).astype(np.int64) if kept else np.zeros(0, np.int64)
        gold = flat.pop("labels", None)
        return cls(doc_id, starts, flat, gold)

    def __len__(self) -> int:
        return len(self.columns[TOKENS])

    @property
    def text(self) -> str | None:
        """The text, where the document has one."""
        return None if self.raw is None else self.raw.content

    @property
    def tokens(self) -> list[str]:
        """The words, one a token."""
        return self.columns[TOKENS].strings()


@dataclass(frozen=True, eq=False)
class Batch:
    """D concatenated documents of a shard, with N tokens in S sentences: the form in which they are read and scored.

    - ``doc_ids`` (D,): ids.
    - ``doc_starts`` (D + 1,): first token of each document, and N.
    - ``sentence_starts`` (S,): first token of each sentence in the batch, among them every document's first.
    - ``columns``: token columns by name, with one dictionary for the whole batch.
    - ``scores`` (N, W): see `Document`, as for the other fields.
    - ``corrections``: by document id; it may have other documents, too.
    """

    doc_ids: tuple[str, ...]
    doc_starts: Ints1d
    sentence_starts: Ints1d
    columns: Mapping[str, Column]
    labels: Column | None = None
    raw: TokenizedTexts | None = None
    scores: Floats2d | None = None
    source_spans: SourceSpans | None = None
    corrections: Corrections = field(default_factory=dict)
    _sentence_of_doc: Ints1d = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sentence_of_doc", np.searchsorted(self.sentence_starts, self.doc_starts))

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Batch:
        """Concatenates documents that have the same columns. Raises `ValueError` otherwise."""
        names = set(documents[0].columns) if documents else {TOKENS}
        for document in documents:
            if set(document.columns) != names:
                raise ValueError(f"document {document.doc_id!r}: columns differ from the batch's {sorted(names)}")
        starts = np.concatenate([[0], np.cumsum([len(d) for d in documents])]).astype(np.int64)
        sentences = [d.sentence_starts + s for d, s in zip(documents, starts[:-1], strict=True)]
        gold = [d.labels for d in documents if d.labels is not None]
        raw = [d.raw for d in documents if d.raw is not None]
        scores = [d.scores for d in documents if d.scores is not None]
        spans = [d.source_spans for d in documents if d.source_spans is not None]
        return cls(
            tuple(d.doc_id for d in documents),
            starts,
            np.concatenate(sentences) if sentences else np.zeros(0, np.int64),
            {name: _join([d.columns[name] for d in documents]) for name in sorted(names)},
            _join(gold) if documents and len(gold) == len(documents) else None,
            TokenizedTexts.join(raw) if documents and len(raw) == len(documents) else None,
            np.concatenate(scores) if documents and len(scores) == len(documents) else None,
            SourceSpans.join(spans) if documents and len(spans) == len(documents) else None,
            {d.doc_id: d.corrections for d in documents if d.corrections},
        )

    def __len__(self) -> int:
        return len(self.doc_ids)

    @property
    def token_count(self) -> int:
        """Tokens in all documents together."""
        return int(self.doc_starts[-1])

    @property
    def sentence_bounds(self) -> NDArray[np.int64]:
        """(S + 1,) sentence starts and, last, the number of tokens."""
        return np.append(self.sentence_starts, self.doc_starts[-1])

    def document(self, i: int) -> Document:
        """Document i, which shares arrays and dictionaries with the batch."""
        part = slice(int(self.doc_starts[i]), int(self.doc_starts[i + 1]))
        sentences = self.sentence_starts[self._sentence_of_doc[i] : self._sentence_of_doc[i + 1]] - part.start
        return Document(
            self.doc_ids[i],
            sentences,
            {name: column[part] for name, column in self.columns.items()},
            None if self.labels is None else self.labels[part],
            None if self.raw is None else self.raw.one(i, part),
            None if self.scores is None else self.scores[part],
            None if self.source_spans is None else self.source_spans.part(i, i + 1),
            self.corrections.get(self.doc_ids[i], ()),
        )

    def part(self, first: int, last: int) -> Batch:
        """The batch of documents first to last (exclusive), which shares arrays and dictionaries with this one."""
        start, end = int(self.doc_starts[first]), int(self.doc_starts[last])
        tokens = slice(start, end)
        return Batch(
            self.doc_ids[first:last],
            self.doc_starts[first : last + 1] - start,
            self.sentence_starts[self._sentence_of_doc[first] : self._sentence_of_doc[last]] - start,
            {name: column[tokens] for name, column in self.columns.items()},
            None if self.labels is None else self.labels[tokens],
            None if self.raw is None else self.raw.part(first, last, tokens),
            None if self.scores is None else self.scores[tokens],
            None if self.source_spans is None else self.source_spans.part(first, last),
            self.corrections,
        )

    def runs(self, tokens: int) -> Iterator[tuple[int, int]]:
        """(first, last) of each run of documents: first to last (exclusive) have at most ``tokens`` tokens together, or
        are one longer document."""
        first = 0
        while first < len(self):
            limit = self.doc_starts[first] + tokens
            last = max(first + 1, int(np.searchsorted(self.doc_starts, limit, side="right")) - 1)
            yield first, last
            first = last

    def __iter__(self) -> Iterator[Document]:
        return (self.document(i) for i in range(len(self)))


def _join(columns: Sequence[Column]) -> Column:
    """The columns one after the other, with one dictionary."""
    codes: dict[str, int] = {}
    parts = [np.zeros(0, np.int32)]
    for column in columns:
        used, local = np.unique(column.codes, return_inverse=True)
        table = np.array([codes.setdefault(column.values[i], len(codes)) for i in used.tolist()], np.int32)
        parts.append(table[local] if len(used) else np.zeros(0, np.int32))
    return Column(np.concatenate(parts), tuple(codes), any(column.plain for column in columns))
