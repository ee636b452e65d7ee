"""Contract tests of tokenizers, on made-up texts of many scripts, and on strings that are hardly texts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from concord.schemas.errors import InputError
from concord.schemas.settings import TOKENIZER
from concord.testing.expect import expect, expect_same
from concord.workers.corpus.tokenizers.tokenizer import Cut, Cuts, LanguageError, Tokenizer

PIECES = (
    *("Ada", "isn't", "3.50", "$5", "U.S.", "well-known", "(see", "p. 7)", "e.g.,", "a@b.org", "http://a.b/c?d=e"),
    *("...", "--", "“so”", "¿qué?", "Žofín", "naïve", "東京", "とても", "한국어", "हिन्दी", "สวัสดี", "עברית", "٣٤"),
    *("👩\u200d🚀", "❤\ufe0f", "e\u0301", "\u0301", "\ud800", "\udfff", "\x00", "\x7f", "\ufeff", "\u200b"),
    *(" ", " ", " ", "\n", "\t", "\r\n", "\x1c", "\x85", "\u00a0", "\u2028", "\u3000"),
)
"""Pieces of made-up texts."""

RUNS = ("a", "1", "-", ".", "'", "(", "東", "\u0301", "\ud800", "a.", "a-", "1,", "a@", "http://", "ab'c")
"""Strings that are repeated without blanks, to make long runs."""
RUN = 200_000
"""Length of such a run, in characters."""
SECONDS = 20.0
"""Largest CPU time for a run, in seconds; with quadratic cost it would take hours."""


def check_tokenizer(tokenizer: Tokenizer, *, language: str = "en") -> None:
    """Runs all `TOKENIZER_CHECKS`; ``language`` is one that the tokenizer has rules for.

    Raises `AssertionError` at a broken promise.
    """
    for check in TOKENIZER_CHECKS:
        check(tokenizer, language)


def made_up_texts(number: int = 300) -> list[str]:
    """Random texts of up to 30 pieces."""
    rng = np.random.default_rng(0)
    return ["".join(PIECES[i] for i in rng.integers(len(PIECES), size=rng.integers(31))) for _ in range(number)]


def places(cuts: Cuts) -> list[list[tuple[int, int]]]:
    """For each text, the first character of each token and the character after its last one."""
    pairs = list(zip(cuts.start.tolist(), cuts.end.tolist(), strict=True))
    bounds = cuts.doc_starts.tolist()
    return [pairs[first:last] for first, last in pairwise(bounds)]


def tokens_stand_in_the_text(texts: Sequence[str], cuts: Cuts) -> None:
    """Tokens are in order and not empty, and everything between them is white space."""
    expect_same(len(cuts.doc_starts), len(texts) + 1, "a place in doc_starts for each text, and one for the end")
    expect_same(int(cuts.doc_starts[-1]), len(cuts.tokens), "tokens of all texts")
    strings = iter(cuts.tokens.strings())
    for text, own in zip(texts, places(cuts), strict=True):
        last = 0
        for first, end in own:
            expect(last <= first < end <= len(text), f"tokens one after the other: {own} of {text!r}")
            expect_same(next(strings), text[first:end], f"the token at {first} of {text!r}")
            expect_same(text[last:first].strip(), "", f"what no token has before {first} of {text!r}")
            expect(not re.search(r"\s", text[first:end]), f"no white space in {text[first:end]!r}")
            last = end
        expect_same(text[last:].strip(), "", f"what no token has at the end of {text!r}")


def the_version_can_be_written(tokenizer: Tokenizer, language: str) -> None:
    """The version can be written as ``NAME==VERSION``."""
    del language
    version = tokenizer.installed()
    expect(version is not None, f"its library is installed, {tokenizer.library}")
    expect(re.match(TOKENIZER, f"name=={version}"), f"a version without blanks and =, not {version!r}")


def tokens_are_pieces_of_the_text(tokenizer: Tokenizer, language: str) -> None:
    """Tokens are pieces of texts of many scripts, which are cut together or alone."""
    cut, texts = tokenizer.open(language), made_up_texts()
    tokens_stand_in_the_text(texts, cut(texts))
    for text in texts[:30]:
        tokens_stand_in_the_text([text], cut([text]))


def the_same_text_is_cut_alike(tokenizer: Tokenizer, language: str) -> None:
    """A text is cut in the same way alone, among others, after others, and by a tokenizer that is opened again."""
    texts = made_up_texts(100)
    cut, other = tokenizer.open(language), tokenizer.open(language)
    expected = places(cut(texts))
    expect_same(places(cut(texts)), expected, "the same texts, a second time")
    expect_same(places(other(texts[::-1]))[::-1], expected, "the same texts, opened anew and turned round")
    for text, own in zip(texts, expected, strict=True):
        expect_same(places(other([text])), [own], f"{text!r}, alone")


def of_nothing_comes_nothing(tokenizer: Tokenizer, language: str) -> None:
    """No texts, empty texts and texts of white space have no tokens."""
    cut = tokenizer.open(language)
    for texts in ([], [""], ["", " ", "\n\t", "\u2028\u3000\x1c"]):
        tokens_stand_in_the_text(texts, cut(texts))
        expect_same(len(cut(texts).tokens), 0, f"tokens of {texts!r}")
    expect_same(
        [len(own) > 0 for own in places(cut(["", "Ada", " "]))], [False, True, False], "which texts have tokens"
    )


def long_runs_take_no_longer_than_long_texts(tokenizer: Tokenizer, language: str) -> None:
    """Long runs without white space, of one repeated piece or of random pieces, are cut in time."""
    cut, rng = tokenizer.open(language), np.random.default_rng(0)
    pieces = [piece for piece in PIECES if not re.search(r"\s", piece)]
    mixed = "".join(pieces[i] for i in rng.integers(len(pieces), size=RUN // 4))
    for text in (*(run * (RUN // len(run)) for run in RUNS), mixed):
        started = time.process_time()
        tokens = cut([text])
        seconds = time.process_time() - started
        expect(seconds < SECONDS, f"{seconds:.0f} s for {len(text):,} characters {text[:8]!r}…, want {SECONDS:.0f}")
        _whole(text, tokens)


def _whole(text: str, cuts: Cuts) -> None:
    expect_same("".join(cuts.tokens.strings()), text, f"all of a run of {text[:8]!r}…")


def a_language_is_known_or_refused(tokenizer: Tokenizer, language: str) -> None:
    """An unknown language is refused with a `LanguageError` of one line."""
    for code in (language, "de", "ja", "qq", ""):
        try:
            cut_text: Cut = tokenizer.open(code)
            tokens_stand_in_the_text(["Ada ran."], cut_text(["Ada ran."]))
        except LanguageError as error:
            expect(
                "\n" not in str(error) and code != language, f"one line of a language that it does not know: {error}"
            )
        except InputError as error:
            expect(None, f"a language that it does not know is a LanguageError, not {error!r}")


TOKENIZER_CHECKS: tuple[Callable[[Tokenizer, str], None], ...] = (
    the_version_can_be_written,
    tokens_are_pieces_of_the_text,
    the_same_text_is_cut_alike,
    of_nothing_comes_nothing,
    long_runs_take_no_longer_than_long_texts,
    a_language_is_known_or_refused,
)
"""The single checks, each a function of a tokenizer and a language."""
