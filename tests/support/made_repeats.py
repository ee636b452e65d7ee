"""Documents of one word, which could be of any type: all that cost can grow with, and no more."""

from __future__ import annotations

import numpy as np

from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.constraint_set import build_problem

LABELS = LabelSet.bio(["PER", "ORG", "LOC", "MISC"])


def repeated(tokens: int) -> Problem:
    """One word, a sentence each time, as likely of any type as of another."""
    document = Document.build("cost", [["Jordan"]] * tokens)
    unary = np.random.default_rng(0).normal(size=(tokens, len(LABELS)))
    pairs = np.full((4, 4), 5) + 1000 * np.eye(4, dtype=np.int64)
    constraints = LabelConsistency(PairCounts(LABELS.types, pairs, pairs, np.full(4, 200)))
    potentials = Potentials(unary, np.zeros((len(LABELS), len(LABELS))), document.sentence_starts).legal(LABELS)
    return build_problem(document, potentials, LABELS, constraints)
