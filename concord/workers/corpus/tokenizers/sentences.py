"""Text cutter: tokens by any tokenizer, optionally cut at hyphens as well, and sentences by sentencex.

sentencex splits sentences by language rules (abbreviations, quotation marks).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import sentencex
from numpy.typing import NDArray

from concord.schemas.document import Column
from concord.workers.corpus.tokenizers.tokenizer import Cut, Cuts, LanguageError

HYPHENS = re.compile(r"-+|[^-]+")
"""Pieces of a word that is cut at hyphens; several hyphens in a row are one piece."""
RARE = re.compile(r"[^\S \t\r\n]|[\ud800-\udfff]")
"""White space that sentencex 1.0 panics on (it takes every space for one byte), and halves of characters."""
CODE = re.compile(r"[a-z]{2,3}")
"""Pattern of a language's code in ISO 639."""


class Tokenized(NamedTuple):
    """D texts cut into N tokens and S sentences.

    - ``doc_starts`` (D + 1,): first token of each text, and N.
    - ``sentence_starts`` (S,): first token of each sentence.
    - ``start``, ``end`` (N,): characters in the token's own text; text[start:end] is the token.
    """

    tokens: Column
    doc_starts: NDArray[np.int64]
    sentence_starts: NDArray[np.int64]
    start: NDArray[np.int32]
    end: NDArray[np.int32]


class TextCutter:
    """Cuts texts of one language into tokens and sentences.

    - ``sentence_limit``: longest sentence, in tokens; a longer one is cut into pieces of this length.
    - ``split_hyphens``: cut words at hyphens? Otherwise they stay whole, as in the CoNLL and Penn Treebank corpora.

    Raises `LanguageError` if the language is no code of ISO 639.
    """

    def __init__(self, cut: Cut, language: str, sentence_limit: int, *, split_hyphens: bool = False) -> None:
        if not CODE.fullmatch(language):
            raise LanguageError(f"language {language!r}: is no code of a language; give one of ISO 639-1, such as en")
        self.cut = cut
        self.language = language
        self.sentence_limit = sentence_limit
        self.split_hyphens = split_hyphens

    def __call__(self, texts: Sequence[str]) -> Tokenized:
        """Tokens of all texts, in order; white space is no token."""
        cuts = self.cut(texts)
        if self.split_hyphens:
            cuts = _cut_at_hyphens(cuts)
        bounds = cuts.doc_starts.tolist()
        sentences = [
            self._sentences(text, cuts.start[bounds[i] : bounds[i + 1]]) + bounds[i] for i, text in enumerate(texts)
        ]
        starts = np.concatenate([np.zeros(0, np.int64), *sentences])
        return Tokenized(cuts.tokens, cuts.doc_starts, starts, cuts.start, cuts.end)

    def _sentences(self, text: str, start: NDArray[np.int32]) -> NDArray[np.int64]:
        """Positions of the tokens that start a sentence."""
        if not len(start):
            return np.zeros(0, np.int64)
        bounds = [b["start_index"] for b in sentencex.get_sentence_boundaries(self.language, RARE.sub(" ", text))]
        opening = np.unique(np.searchsorted(start, np.array([0, *bounds])))
        opening = opening[opening < len(start)]
        lengths = np.diff(np.append(opening, len(start)))
        pieces = -(-lengths // self.sentence_limit)
        within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts: NDArray[np.int64] = (np.repeat(opening, pieces) + within * self.sentence_limit).astype(np.int64)
        return starts


def _cut_at_hyphens(cuts: Cuts) -> Cuts:
    """Hyphens, and what stands between them, as tokens of their own."""
    pieces_of_words = [list(HYPHENS.finditer(word)) for word in cuts.tokens.values]
    spans = np.array([piece.span() for pieces in pieces_of_words for piece in pieces], np.int32).reshape(-1, 2)
    words = Column.encode([piece[0] for pieces in pieces_of_words for piece in pieces])
    counts = np.array([len(pieces) for pieces in pieces_of_words], np.int64)
    first, size = np.cumsum(counts) - counts, counts[cuts.tokens.codes]
    within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    at = np.repeat(first[cuts.tokens.codes], size) + within
    shift = np.repeat(cuts.start, size)
    doc_starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])[cuts.doc_starts]
    return Cuts(Column(words.codes[at], words.values), doc_starts, shift + spans[at, 0], shift + spans[at, 1])
