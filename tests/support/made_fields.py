"""Rules about fields A and B, and documents that no model has seen, of words that are all alike."""

from __future__ import annotations

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.constraints.templates.order import Adjacency, ShouldNotPrecede
from concord.workers.constraints.templates.presence import MustAppear, StartsWith
from concord.workers.constraints.templates.runs import AppearsOnce
from concord.workers.learning.weights.unseen import Unseen

LABELS = LabelSet(("A", "B"), Scheme.PLAIN)
RULES = DeclaredConstraints(
    (
        AppearsOnce(name="one A", labels=("A",), weight=1.0),
        Adjacency(name="A then B", first=("A",), second=("B",), weight=1.0),
        StartsWith(name="starts with A", labels=("A",), weight=1.0),
        MustAppear(name="a B", labels=("B",), weight=1.0),
        ShouldNotPrecede(name="no A after B", first=("B",), second=("A",), weight=1.0),
    )
).bind(LABELS)
COUNTED = with_weights(RULES, {"one A": 3.0, "starts with A": 2.1, "a B": 4.0, "no A after B": 3.0, "A then B": 3.0})


def unseen_of(texts: list[list[str]], likes: list[Floats]) -> Unseen:
    documents = [Document.build(str(i), [["w"] * len(text)], labels=[text]) for i, text in enumerate(texts)]
    zero = np.zeros(1, np.int64)
    return Unseen(documents, [Potentials(own, np.zeros((2, 2)), zero) for own in likes], LABELS)
