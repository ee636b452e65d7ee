"""Made-up documents of few words, with tags and chunks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from concord.schemas.document import Document
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.canisius.trigram_trials import Sample, tried

WORDS = ("Ada", "Paris", "met", "in", "the", "3.5", "NATO", "B2B", ",", "a")


def text(rng: np.random.Generator, lengths: Sequence[int]) -> tuple[list[list[str]], list[list[str]]]:
    words = [[WORDS[i] for i in rng.integers(0, len(WORDS), length)] for length in lengths]
    labels = []
    for sentence in words:
        row, open_type = [], ""
        for word in sentence:
            kind = {"Ada": "PER", "B2B": "PER", "Paris": "LOC", "NATO": "LOC"}.get(word, "")
            row.append(("I-" if kind == open_type else "B-") + kind if kind else "O")
            open_type = kind
        labels.append(row)
    return words, labels


def made_up(seed: int, name: str, lengths: Sequence[int] = (6, 1, 4)) -> Document:
    words, labels = text(np.random.default_rng(seed), lengths)
    tags = [[word[0].lower() for word in sentence] for sentence in words]
    return Document.build(name, words, labels=labels, pos=tags, chunk=tags)


DOCUMENTS = [made_up(seed, f"d{seed}") for seed in range(30)]


def plain(sample: Sample, settings: TrigramSettings, size: int) -> tuple[int, int]:
    """Right and tested, in a group of its own."""
    (tally,) = tried(sample, [settings], size)
    return tally[:2]
