"""Documents of any text, and what features make of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from concord.schemas.document import Document
from concord.workers.features.gazetteers import Gazetteer
from concord.workers.features.incidence import Incidence
from concord.workers.features.templates import FeatureSet, feature_set, lists_of

LABELS = 5


# Few letters, so that words and n-grams recur; the rest are the awkward ones.
ALPHABET = "abAB01.-=|[]<>/ß\u0130\u00df\u4e2d\U0001f600\x00\x1f\n \ud800"
words = st.text(ALPHABET, max_size=8)
tags = st.sampled_from(["N", "V", "", "<s>"])
sentences = st.lists(st.tuples(words, tags), min_size=1, max_size=7)
documents = st.lists(st.lists(sentences, min_size=0, max_size=4), min_size=1, max_size=3)
Nested = Sequence[Sequence[Sequence[tuple[str, str]]]]


def documents_from(nested: Nested) -> list[Document]:
    return [
        Document.build(
            str(i),
            [[w for w, _ in s] for s in d],
            pos=[[p[:1] for _, p in s] for s in d],
        )
        for i, d in enumerate(nested)
    ]


def expected_scores(rows: list[list[str]], table: dict[str, np.ndarray]) -> np.ndarray:
    return np.array([sum((table[a] for a in row if a in table), np.zeros(LABELS)) for row in rows]).reshape(-1, LABELS)


LISTED = Gazetteer.of([((("a",), "x:1"), "0"), ((("a",), "y:3+"), None), ((("ab",), "x:2"), None)])


def example(name: str) -> FeatureSet:
    """A feature set by name, with a small list where it reads one."""
    return feature_set(name, lists=dict.fromkeys(lists_of(name), LISTED))


def rows_of(found: Incidence) -> list[list[str]]:
    """The attributes of each token as strings."""
    flat, names = found.groups.through(found.members), found.attributes.names().to_pylist()
    return [[names[i] for i in flat.ids[a:b]] for a, b in zip(flat.start, flat.start[1:], strict=False)]
