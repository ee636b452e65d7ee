"""Patterns for whole tokens: as Python's `re` reads them, in time that grows with the token alone."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet, Scheme
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.patterns import PatternError, Strings, matches, translated
from concord.workers.constraints.templates.template import TokenTest
from concord.workers.constraints.templates.words import Lexicon

WORDS = [
    "",
    "a",
    "B",
    "é",
    "É",
    "ß",
    "_",
    "-",
    "]",
    "[",
    "^",
    "\\",
    "3:30",
    "٣",
    "½",
    "a b",
    "x\ty",
    "中文",
    "ab12",
    "A.B.",
    "\x0b",
    "\x85",
]

LITERALS = st.sampled_from(
    [
        *"abcXYZ019 éÉßñ中_:/,;'\"%&=~<>@!-",
        r"\.",
        r"\-",
        r"\\",
        r"\]",
        r"\[",
        r"\/",
        r"\é",
        r"\x41",
        r"\u00e9",
        "]",
        "}",
    ]
)
CLASSES = st.sampled_from([r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", "."])
RANGES = st.sampled_from(["a-z", "A-Z", "0-9", "à-ÿ", r"\x30-\x39"])
MEMBERS = st.lists(
    st.one_of(LITERALS.filter(lambda c: c not in "]-"), CLASSES.filter(lambda c: c != "."), RANGES),
    min_size=1,
    max_size=4,
)
SETS = st.tuples(st.sampled_from(["[", "[^", "[]", "[^]", "[-"]), MEMBERS, st.sampled_from(["]", "-]"])).map(
    lambda parts: parts[0] + "".join(parts[1]) + parts[2]
)
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{,2}", "{2,}", "{0}"])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.tuples(st.sampled_from(["(", "(?:", "(?i:"]), inner, REPEATS).map(lambda p: f"{p[0]}{p[1]}){p[2]}")
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        group,
    )


PATTERNS = st.recursive(st.tuples(st.one_of(LITERALS, CLASSES, SETS), REPEATS).map("".join), grown, max_leaves=6)
STRINGS = st.one_of(st.sampled_from(WORDS), st.text("abXZ019 éÉßñ中_:-]\\.,", max_size=5), st.text(max_size=3))


@given(PATTERNS, st.lists(STRINGS, min_size=1, max_size=8))
def test_a_pattern_means_what_it_means_to_python(pattern: str, strings: list[str]) -> None:
    try:
        wanted = [re.fullmatch(pattern, s) is not None for s in strings]
    except (re.error, FutureWarning):
        return
    whole = translated(pattern, ignore_case=False)
    assert matches(whole, Strings.of(strings)).tolist() == wanted


@pytest.mark.parametrize("letter", "dwsDWS")
def test_classes_hold_the_same_characters_as_pythons(letter: str) -> None:
    characters = [chr(i) for i in range(0x30000) if not 0xD800 <= i < 0xE000]
    held = matches(translated(f"\\{letter}", ignore_case=False), Strings.of(characters))
    wanted = re.compile(f"\\{letter}").fullmatch
    assert [c for c, is_held in zip(characters, held, strict=True) if is_held != bool(wanted(c))] == []


def test_case_is_ignored_as_python_does_for_letters_in_use() -> None:
    letters = [chr(i) for i in range(0x250) if chr(i).isalpha() and chr(i) not in "İı"]  # Turkish: by language
    for letter in letters:
        held = matches(translated(letter, ignore_case=True), Strings.of(letters))
        assert held.tolist() == [re.fullmatch(letter, c, re.IGNORECASE) is not None for c in letters], letter


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|aa)+b", r"(.*a){12}b", r"(\w+\s?)+!"])
def test_a_pattern_that_is_exponential_elsewhere_takes_no_time(pattern: str) -> None:
    test = TokenTest(pattern=pattern)
    words = ["a" * 32 + "c", "a" * 100_000 + "c"]
    document = Document.build("d", [words])
    started = time.process_time()
    constraint = Lexicon(words=test, labels=("x",), weight=1.0)
    (ground,) = DeclaredConstraints((constraint,)).ground(Batch.of([document]), LabelSet(("x", "y"), Scheme.PLAIN))
    assert len(ground.rows) == 0
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("(?=a)b", "linear time"),
        ("(?<!a)b", "linear time"),
        (r"(a)\1", "linear time"),
        (r"\bword\b", "linear time"),
        ("a++", "linear time"),
        ("(?:a{1000}){1000}", "linear time"),
        ("[[a]b]", "no regular expression"),
        ("(", "no regular expression"),
        ("(" * 5000, "no regular expression"),
        ("a{99999999999999999999}", "no regular expression"),
        (r"\p{Lu}", "no regular expression"),
        ("\ud800", "linear time"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_named_in_one_line(pattern: str, part: str) -> None:
    with pytest.raises(PatternError, match=part) as caught:
        translated(pattern, ignore_case=True)
    message = str(caught.value)
    assert message.startswith(f"pattern {repr(pattern[:80])[:-1]}")
    assert "\n" not in message
    assert len(message) < 400


def test_lone_surrogates_are_characters_that_no_pattern_names() -> None:
    words = Strings.of(["a\ud800", "ab", "a\udfffb"])
    assert matches(translated("a.{1,2}", ignore_case=False), words).all()
    np.testing.assert_array_equal(matches(translated("a[b-z]+", ignore_case=False), words), [False, True, False])
