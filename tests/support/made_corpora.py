"""Made-up corpora with names among plain words."""

from __future__ import annotations

import numpy as np

from concord.schemas.document import Document

NAMES = ("Ada Byron", "Basel", "Cora Bank", "Delft", "Ems Öl AG")
TYPES = ("PER", "LOC", "ORG", "LOC", "ORG")
PLAIN = ("the", "said", "in", "of", "1996", ",", "visited", "a|b=c", "中", "x")


def corpus(seed: int, count: int) -> list[Document]:
    """Generated documents with names among plain words; one-token sentences included."""
    rng = np.random.default_rng(seed)
    documents = []
    for i in range(count):
        words: list[list[str]] = []
        labels: list[list[str]] = []
        for _ in range(int(rng.integers(1, 6))):
            sentence: list[str] = []
            gold: list[str] = []
            for _ in range(int(rng.integers(1, 8))):
                if rng.random() < 0.3:
                    k = int(rng.integers(len(NAMES)))
                    parts = NAMES[k].split()
                    sentence += parts
                    gold += [("B-" if j == 0 else "I-") + TYPES[k] for j in range(len(parts))]
                else:
                    sentence.append(PLAIN[int(rng.integers(len(PLAIN)))])
                    gold.append("O")
            words.append(sentence)
            labels.append(gold)
        tags = [["NNP" if w[0].isupper() else "X" for w in s] for s in words]
        documents.append(Document.build(f"d{i}", words, labels=labels, pos=tags))
    return documents
