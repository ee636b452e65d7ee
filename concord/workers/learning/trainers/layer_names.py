"""What the labels of a layer (a tagger's answers) are called in gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.schemas.layers import ABOVE, NO_ANSWER, types_under

SAME_NAME = 0.5
"""Spans that a type's own name counts for beside those that both mark: of two maps as good, it wins."""

TypeNames = Mapping[str, str | None]
"""Gold's name for types of a layer, None for one that gold has no name for; a type that is not there keeps its own."""


def types_in_gold(documents: Sequence[Document], labels: LabelSet, layer: str) -> TypeNames:
    """Gold's names for the types of a layer, those alone that gold calls otherwise or not at all.

    Where gold has all of them, they stand for themselves. Otherwise names are given one to one, such that the layer and
    gold mark as many spans alike as they can. A type of which no span is marked alike gets no name but its own. A type
    above several (`schemas.layers.ABOVE`) is left as it is.

    - ``labels``: label set of the gold labels.
    """
    from scipy.optimize import linear_sum_assignment  # takes half a second to import

    theirs = sorted({kind for document in documents for kind in _types(document, layer)})
    if all(kind in labels.types for kind in theirs):
        return {}
    alike = _marked_alike(documents, labels, layer)
    counts = np.array([[alike[mine, gold] + SAME_NAME * (mine == gold) for gold in labels.types] for mine in theirs])
    rows, columns = linear_sum_assignment(counts, maximize=True)
    named = {
        theirs[i]: labels.types[j] for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if counts[i, j] > 0
    }
    return {kind: named.get(kind) for kind in theirs if named.get(kind) != kind}


def _types(document: Document, layer: str) -> set[str]:
    marked = (label for label in document.columns[layer].used() if label not in (OUTSIDE, NO_ANSWER))
    return {label[2:] for label in marked if ABOVE not in label}


def _marked_alike(documents: Sequence[Document], labels: LabelSet, layer: str) -> Counter[tuple[str, str]]:
    """Number of spans that both mark, by their types in the layer and in gold."""
    batch = Batch.of(documents)
    assert batch.labels is not None
    answers = [OUTSIDE if label == NO_ANSWER else label for label in batch.columns[layer].strings()]
    mine, gold = _spans(batch, LabelSet.infer(answers), answers), _spans(batch, labels, batch.labels.strings())
    return Counter((mine[place], gold[place]) for place in mine.keys() & gold.keys())


def _spans(batch: Batch, labels: LabelSet, names: Sequence[str]) -> dict[tuple[int, int], str]:
    spans = labels.spans(labels.encode(names), batch.sentence_starts)
    kinds = [labels.types[i] for i in spans.type.tolist()]
    return dict(zip(zip(spans.start.tolist(), spans.end.tolist(), strict=True), kinds, strict=True))


def own_labels(labels: LabelSet, answers: Iterable[str], names: TypeNames) -> list[str]:
    """Labels of the label set for those of a layer; a type that the set does not have is outside.

    Of a label above several types the first one counts that the set has.

    - ``names``: the set's names for types of the layer, see `types_in_gold`.
    """
    return [_own(labels, answer, names) for answer in answers]


def every_answer(labels: LabelSet, layer: str, names: TypeNames) -> Document:
    """A document that has every label by which a layer may mark a type of the label set, and that label's own.

    A model of few documents has to know the labels that the layer gives elsewhere.
    """
    kinds = {*names, *labels.types} - {kind for kind, name in names.items() if name is None}
    answers = [OUTSIDE, NO_ANSWER, *(begin + kind for kind in sorted(kinds) for begin in ("B-", "I-"))]
    words = [str(place) for place in range(len(answers))]
    return Document.build("", [words], labels=[own_labels(labels, answers, names)], **{layer: [answers]})


def _own(labels: LabelSet, answer: str, names: TypeNames) -> str:
    for kind in types_under(answer[2:]):
        named = names.get(kind, kind)
        for name in () if named is None else (answer[:2] + named, named):
            if name in labels.index:
                return name
    return OUTSIDE if OUTSIDE in labels.index else labels.names[0]
