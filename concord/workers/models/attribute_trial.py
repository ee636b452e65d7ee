"""Trial of a feature function beside a model file: which share of the attributes that it makes the model knows.

A function that is not the one that the model was trained with makes attributes under other names. Nothing fails then:
unknown attributes weigh nothing, and the labels are those of the transitions alone. The names show it. An attribute is
a name with a value, such as ``postag=NN`` or ``-1:word:Main``; all attributes of one name are a family.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.errors import DocumentError

SentenceAttributes = Sequence[Sequence[tuple[str, float]]]
"""Attributes (name, value) of each token of a sentence."""
Sentence = Mapping[str, Sequence[str]]
"""Token columns of a sentence by name."""

FAMILY = re.compile(r"(?s)(.+)[:=](.+)")
BARE = "features without a value"
"""Name of the family of all attributes that are a name alone."""
SENTENCES, MOST_WORDS = 200, 8
"""Number of made-up sentences, and largest number of words of one."""
FEW_KNOWN = 0.5
"""Share of known attributes below which something is wrong."""


class AttributeFamily(NamedTuple):
    """Attributes of one name that a function made: different values, those that the model knows, and all tokens."""

    name: str
    values: int
    known: int
    tokens: int


class AttributeTrial(NamedTuple):
    """What a feature function made of trial sentences.

    - ``sentences``, ``failed``: number of sentences, and of those that the function could not take.
    - ``fault``: reason of the first failure; empty if there was none.
    - ``made``, ``known``: attributes over all tokens, and those that the model knows.
    - ``families``: the families, those that the model knows least first.
    - ``unknown``: an attribute that the model does not know; empty if it knows all.
    """

    sentences: int
    failed: int
    fault: str
    made: int
    known: int
    families: tuple[AttributeFamily, ...]
    unknown: str

    @property
    def share(self) -> float:
        """Fraction of the attributes that the model knows; 0 where there are none."""
        return self.known / self.made if self.made else 0.0

    @property
    def weak(self) -> tuple[AttributeFamily, ...]:
        """Families of which the model knows less than `FEW_KNOWN`."""
        return tuple(family for family in self.families if family.known < FEW_KNOWN * family.values)


def try_function(
    make: Callable[[Sentence], SentenceAttributes], known: Mapping[str, int], sentences: Iterable[Sentence]
) -> AttributeTrial:
    """Tries a function ``make``, which raises `DocumentError` for a sentence that it cannot take.

    - ``known``: attributes of the model.
    """
    tried, failed, fault = 0, 0, ""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        tried += 1
        try:
            items = make(sentence)
        except DocumentError as error:
            failed, fault = failed + 1, fault or error.reason
            continue
        counts.update(name for item in items for name, value in item if value)
    values: dict[str, list[str]] = {}
    for name in counts:
        values.setdefault(family_of(name), []).append(name)
    families = [
        AttributeFamily(name, len(all_), sum(one in known for one in all_), sum(counts[one] for one in all_))
        for name, all_ in values.items()
    ]
    families.sort(key=lambda family: (family.known / family.values, -family.tokens, family.name))
    unknown = next((name for name in counts if name not in known), "")
    known_count = sum(count for name, count in counts.items() if name in known)
    return AttributeTrial(tried, failed, fault, counts.total(), known_count, tuple(families), unknown)


def family_of(attribute: str) -> str:
    """Name of an attribute without its value, or `BARE` for one that has none."""
    found = FAMILY.fullmatch(attribute)
    return found[1] if found else BARE


def values_of(attributes: Iterable[str], part: str = "") -> list[str]:
    """Values of the attributes whose names contain ``part``, each once, sorted."""
    found = (FAMILY.fullmatch(name) for name in attributes)
    return sorted({match[2] for match in found if match and part in match[1]})


def made_up(attributes: Sequence[str], columns: Sequence[str]) -> list[Sentence]:
    """Sentences of the model's own words and values, the same for the same attributes.

    The first of ``columns`` is that of words; a value of another is one that an attribute with the column's name has.
    """
    rng = np.random.default_rng(0)
    words = [value for value in values_of(attributes, "word") or values_of(attributes) if not value.isspace()] or ["a"]
    pools = [words, *(values_of(attributes, column) or ["_"] for column in columns[1:])]
    sizes = rng.integers(1, MOST_WORDS + 1, size=SENTENCES).tolist()
    return [
        {
            name: [pool[i] for i in rng.integers(len(pool), size=size).tolist()]
            for name, pool in zip(columns, pools, strict=True)
        }
        for size in sizes
    ]
