"""spaCy's rule tokenizer for raw text; it needs no model and never changes the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.document import Column
from concord.workers.corpus.tokenizers.tokenizer import RUN_LIMIT, Cuts, LanguageError

STRING_LIMIT = 200_000
"""Number of distinct strings after which the tokenizer is made anew, so that its memory stays flat."""
ATTRIBUTES = ["ORTH", "IDX", "LENGTH", "IS_SPACE"]
SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Halves of characters, which spaCy cannot hold."""
INSTEAD = "\ufffd"
NUMBER_INFIX = "[+\\-\\*^]"
"""Text by which the infix rule is recognised that would cut dates and scores such as 1996-08-22 and 6-3."""


class SpacyRules:
    """Cuts texts of a language; words with a hyphen stay whole. Raises `LanguageError`."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._rules = _spacy_tokenizer(language)

    def __call__(self, texts: Sequence[str]) -> Cuts:
        """See `Cut`."""
        if len(self._rules.vocab.strings) > STRING_LIMIT:
            self._rules = _spacy_tokenizer(self.language)
        whole = [SURROGATES.sub(INSTEAD, text) for text in texts]
        parts = [self._tokens(text) for text in whole]
        if whole != list(texts):
            return Cuts.of(texts, (zip(left.tolist(), right.tolist(), strict=True) for _, left, right in parts))
        doc_starts = np.concatenate([[0], np.cumsum([len(words) for words, _, _ in parts])]).astype(np.int64)
        words = pa.array(np.concatenate([np.zeros(0, np.uint64), *(p[0] for p in parts)])).dictionary_encode()
        strings = self._rules.vocab.strings
        return Cuts(
            Column(words.indices.to_numpy(), [strings[key] for key in words.dictionary.to_pylist()]),
            doc_starts,
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
        start = table[:, 1].astype(np.int32)
        return table[:, 0], start, start + table[:, 2].astype(np.int32)


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
    """Positions at which runs of more than `RUN_LIMIT` characters without white space are cut."""
    if max(map(len, text.split()), default=0) <= RUN_LIMIT:
        return []
    runs = re.finditer(rf"\S{{{RUN_LIMIT + 1},}}", text)
    return [cut for run in runs for cut in range(run.start() + RUN_LIMIT, run.end(), RUN_LIMIT)]
