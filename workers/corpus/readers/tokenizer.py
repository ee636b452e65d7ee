"""Tokens and sentences of raw text, with character offsets: spaCy's rule tokenizer and sentencex.

spaCy's tokenizer needs no model, never changes the text, and made 700 thousand tokens a second
on one core, twice to three times what syntok made. sentencex splits sentences by language rules
(abbreviations, quotation marks) and costs a fortieth of the tokenizer; spaCy's own rule splitter
leaves an opening quotation mark in the sentence before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import sentencex
from numpy.typing import NDArray

from concord.schemas.document import Column
from concord.schemas.errors import UsageError

RUN_LIMIT = 256
"""Characters without white space after which a run is cut: the tokenizer's cost grows with their square."""
STRING_LIMIT = 200_000
"""Distinct strings after which the tokenizer is made anew, so that its memory stays flat."""
ATTRIBUTES = ["ORTH", "IDX", "LENGTH", "IS_SPACE"]
HYPHENS = re.compile(r"-+|[^-]+")
"""The pieces of a word that is cut at hyphens; some in a row are one piece."""
RARE_SPACE = re.compile(r"[^\S \t\r\n]")
"""White space that sentencex 1.0 panics on (it takes every space for one byte)."""
NUMBER_INFIX = "[+\\-\\*^]"
"""In the infix rule that would cut dates and scores such as 1996-08-22 and 6-3."""


class LanguageError(UsageError):
    """A language that there are no rules for."""


class Tokenized(NamedTuple):
    """Texts cut into tokens: ``doc_starts`` (D + 1,), ``sentence_starts`` (S,) are token positions.

    ``start`` and ``end`` (N,) are characters in the token's own text: ``text[start:end]`` is the token.
    """

    tokens: Column
    doc_starts: NDArray[np.int64]
    sentence_starts: NDArray[np.int64]
    start: NDArray[np.int32]
    end: NDArray[np.int32]


class Tokenizer:
    """Cuts texts of one language.

    Words with a hyphen stay whole, as in the CoNLL and Penn Treebank corpora that models are
    trained on, unless ``split_hyphens``. A sentence of more than ``sentence_limit`` tokens is cut every so many tokens.
    """

    def __init__(self, language: str, sentence_limit: int, *, split_hyphens: bool = False) -> None:
        self.language = language
        self.sentence_limit = sentence_limit
        self.split_hyphens = split_hyphens
        self._rules = _spacy_tokenizer(language)

    def __call__(self, texts: Sequence[str]) -> Tokenized:
        """Tokens of all texts, in order; white space is no token."""
        if len(self._rules.vocab.strings) > STRING_LIMIT:
            self._rules = _spacy_tokenizer(self.language)
        parts = [self._tokens(text) for text in texts]
        doc_starts = np.concatenate([[0], np.cumsum([len(words) for words, _, _ in parts])]).astype(np.int64)
        sentences = [
            self._sentences(text, start) + shift
            for text, (_, start, _), shift in zip(texts, parts, doc_starts.tolist(), strict=False)
        ]
        words = pa.array(np.concatenate([np.zeros(0, np.uint64), *(p[0] for p in parts)])).dictionary_encode()
        strings = self._rules.vocab.strings
        return Tokenized(
            Column(words.indices.to_numpy(), [strings[key] for key in words.dictionary.to_pylist()]),
            doc_starts,
            np.concatenate([np.zeros(0, np.int64), *sentences]),
            np.concatenate([np.zeros(0, np.int32), *(p[1] for p in parts)]),
            np.concatenate([np.zeros(0, np.int32), *(p[2] for p in parts)]),
        )

    def _tokens(self, text: str) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int32]]:
        """spaCy's key of each token's string, and where the token starts and ends."""
        cuts = _run_cuts(text)
        tables = []
        for left, right in zip([0, *cuts], [*cuts, len(text)], strict=True):
            table = self._rules(text[left:right] if cuts else text).to_array(ATTRIBUTES)
            table[:, 1] += np.uint64(left)
            tables.append(table)
        table = np.concatenate(tables)
        table = table[table[:, 3] == 0]
        words, start = table[:, 0], table[:, 1].astype(np.int32)
        if self.split_hyphens:
            return self._cut_at_hyphens(words, start)
        return words, start, start + table[:, 2].astype(np.int32)

    def _cut_at_hyphens(
        self, words: NDArray[np.uint64], start: NDArray[np.int32]
    ) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int32]]:
        """Hyphens, and what stands between them, as tokens of their own."""
        strings = self._rules.vocab.strings
        used, place = np.unique(words, return_inverse=True)
        found = [list(HYPHENS.finditer(strings[key])) for key in used.tolist()]
        pieces = np.array([(strings.add(piece[0]), *piece.span()) for cut in found for piece in cut], np.uint64)
        counts = np.array([len(cut) for cut in found], np.int64)
        first, size = np.cumsum(counts) - counts, counts[place]
        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        at = np.repeat(first[place], size) + within
        pieces, shift = pieces.reshape(-1, 3), np.repeat(start, size)
        left, right = (shift + pieces[at, side].astype(np.int32) for side in (1, 2))
        return pieces[at, 0], left, right

    def _sentences(self, text: str, start: NDArray[np.int32]) -> NDArray[np.int64]:
        """Positions of the tokens that start a sentence."""
        if not len(start):
            return np.zeros(0, np.int64)
        bounds = [b["start_index"] for b in sentencex.get_sentence_boundaries(self.language, RARE_SPACE.sub(" ", text))]
        found = np.unique(np.searchsorted(start, np.array([0, *bounds])))
        found = found[found < len(start)]
        lengths = np.diff(np.append(found, len(start)))
        pieces = -(-lengths // self.sentence_limit)
        within = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts: NDArray[np.int64] = (np.repeat(found, pieces) + within * self.sentence_limit).astype(np.int64)
        return starts


@lru_cache(maxsize=4)
def load_tokenizer(language: str, sentence_limit: int, *, split_hyphens: bool = False) -> Tokenizer:
    """The tokenizer of a language, one a process. Raises `LanguageError` for a language without rules."""
    return Tokenizer(language, sentence_limit, split_hyphens=split_hyphens)


def _spacy_tokenizer(language: str) -> Any:
    # Half a second and 100 MB that runs over tokenised corpora can do without.
    from spacy.lang.char_classes import HYPHENS
    from spacy.util import get_lang_class

    try:
        kind = get_lang_class(language)
        # Rules that a tokenizer is given later make it read all its exceptions again.
        defaults = type("Defaults", (kind.Defaults,), {"infixes": _infixes(kind.Defaults.infixes or (), HYPHENS)})
        return type(kind.__name__, (kind,), {"Defaults": defaults})().tokenizer
    except ImportError as error:
        raise LanguageError(
            f"language {language!r}: spaCy has no tokenizer rules for it; give an ISO 639-1 code"
        ) from error


def _infixes(rules: Iterable[object], hyphens: str) -> list[str]:
    """The rules that cut inside words, without those that would cut at a hyphen or between numbers."""
    dashes = "|".join(mark for mark in hyphens.split("|") if mark != "-")
    return [str(rule).replace(hyphens, dashes) for rule in rules if NUMBER_INFIX not in str(rule)]


def _run_cuts(text: str) -> list[int]:
    """Where runs of more than `RUN_LIMIT` characters without white space are cut."""
    if max(map(len, text.split()), default=0) <= RUN_LIMIT:
        return []
    runs = re.finditer(rf"\S{{{RUN_LIMIT + 1},}}", text)
    return [cut for run in runs for cut in range(run.start() + RUN_LIMIT, run.end(), RUN_LIMIT)]
