"""Functions that `concord import crfsuite` is given by `bench_taggers.py`, as users of these packages write them.

Two of the packages want parts of speech beside the words, and get them as columns of the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

VIETNAMESE = (
    *(f"T[{i}].lower" for i in (-2, -1, 0, 1, 2)),
    *(f"T[{i}].istitle" for i in (0, -1, 1, -2, 2)),
    *(f"T[{i}]" for i in (-2, -1, 0, 1, 2)),
    *(f"T[{i},{i + 1}]" for i in (-2, -1, 0, 1)),
    *(f"T[{i}][1]" for i in (-2, -1, 0, 1, 2)),
    *(f"T[{i},{i + 1}][1]" for i in (-2, -1, 0, 1)),
    *(f"T[{i}][3]" for i in (-3, -2, -1)),
)
"""Templates of underthesea's names; the last three are about labels that are not known yet."""


def thai(words: list[str], pos: list[str]) -> Any:
    """Attributes of pythainlp's names."""
    made = import_module("pythainlp.tag.thainer").ThaiNameTagger
    return made._extract_features(list(zip(words, pos, strict=True)))


def vietnamese(words: list[str], pos: list[str], chunk: list[str]) -> list[list[str]]:
    """Attributes of underthesea's names."""
    made = import_module("underthesea.pipeline.ner.tagged_feature").word2features
    rows = [(*row, "X") for row in zip(words, pos, chunk, strict=True)]
    return [made(rows, i, VIETNAMESE) for i in range(len(rows))]


def english(words: Sequence[str]) -> list[dict[str, str | bool]]:
    """What users of sklearn-crfsuite see of each word: itself, its endings and case, and its neighbours."""
    around = ["", *words, ""]
    return [
        {
            "bias": True,
            **_seen("", word),
            "end 3": word[-3:],
            "end 2": word[-2:],
            "digits": word.isdigit(),
            **_seen("-1 ", before),
            **_seen("+1 ", after),
        }
        for before, word, after in zip(around, words, around[2:], strict=False)
    ]


def _seen(place: str, word: str) -> dict[str, str | bool]:
    if not word:
        return {f"{place}edge": True}
    return {f"{place}word": word.lower(), f"{place}upper": word.isupper(), f"{place}title": word.istitle()}
