"""Corrections as masks: labels and transitions that contradict them get −inf, before anything is decoded.

A correction "start:end is of type T" leaves exactly the labellings that have this span:

| token | bio | loose | plain |
| --- | --- | --- | --- |
| start | B-T | B-T, or I-T unless the token before is of type T | T |
| start + 1 … end − 1 | I-T | I-T | T |
| start − 1, in the same sentence | any | any | not T |
| end, in the same sentence | not I-T | not I-T | not T |

"No entity" leaves the labels outside of spans at each token. All that follows is an ordinary problem: Viterbi labels,
bounds, certificates, marginals and lists are those of the labellings that keep the corrections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.corrections import Correction, CorrectionError
from concord.schemas.errors import DocumentError
from concord.schemas.labels import OUTSIDE, LabelSet, Scheme
from concord.schemas.names import nearest
from concord.schemas.potentials import Potentials

IMPOSSIBLE_CORRECTIONS = "no labelling of the model keeps the corrections"
"""Reason of the reject of a document of which they leave nothing."""


def check_corrections(
    corrections: Sequence[Correction], labels: LabelSet, sentence_starts: Ints, tokens: int, *, doc_id: str
) -> None:
    """Checks the corrections of a document of so many ``tokens``, in the order of its tokens.

    Raises `CorrectionError` for the first that its tokens, its sentences or the labels rule out; the message does not
    name the file, and ``row`` of the correction is the row.
    """
    bounds = [*sentence_starts.tolist(), tokens]
    before: Correction | None = None
    for one in corrections:
        fault = _fault(one, before, labels, bounds)
        if fault:
            raise CorrectionError(f"{_row(one)}document {doc_id!r}: {one.text} {fault}")
        before = one


def _row(one: Correction) -> str:
    return f"row {one.row}: " if one.row else ""


def _fault(one: Correction, before: Correction | None, labels: LabelSet, bounds: Sequence[int]) -> str:
    if one.end > bounds[-1]:
        return f"ends after the document's {bounds[-1]:,} tokens"
    if one.type is None:
        return "" if (labels.type_of < 0).any() else f"says no entity, and the model has no label {OUTSIDE!r}"
    if one.type not in labels.types:
        there = nearest(one.type, dict.fromkeys(labels.types))
        return f"is of a type that the model does not have{there}"
    crossed = next((start for start in bounds if one.start < start < one.end), None)
    if crossed is not None:
        return f"goes beyond its sentence, which ends at token {crossed}; an entity is in one sentence"
    touches = before is not None and before.end == one.start and before.type == one.type
    if touches and labels.scheme is Scheme.PLAIN and one.start not in bounds:
        return f"touches another {one.type}, and the model's labels cannot tell two neighbours of one type apart"
    return ""


def with_corrections(potentials: Potentials, labels: LabelSet, corrections: Sequence[Correction]) -> Potentials:
    """The potentials of a document that leave the labellings with its corrections, in new arrays.

    Raises `DocumentError` where a token is left without a label.
    """
    allowed = np.ones(potentials.unary.shape, np.bool_)
    for one in corrections:
        _limit(allowed, labels, one, potentials.sentence_starts)
    masked = potentials.restricted(allowed)
    if not np.isfinite(masked.unary).any(axis=1).all():
        raise DocumentError(IMPOSSIBLE_CORRECTIONS)
    if labels.scheme is not Scheme.LOOSE:
        return masked
    return replace(masked, transition=_freed_transitions(masked, labels, corrections))


def _limit(allowed: NDArray[np.bool_], labels: LabelSet, one: Correction, sentence_starts: Ints) -> None:
    """Leaves the labels of one correction at its tokens and beside them, in a mask (N, L)."""
    if one.type is None:
        allowed[one.start : one.end, labels.type_of >= 0] = False
        return
    kind = labels.types.index(one.type)
    inside = labels.inside[kind]
    ids = np.arange(allowed.shape[1])
    allowed[one.start, ~np.isin(ids, labels.first_labels[kind])] = False
    allowed[one.start + 1 : one.end, ids != inside] = False
    starts = set(sentence_starts.tolist())
    if one.end < len(allowed) and one.end not in starts:
        allowed[one.end, inside] = False
    if labels.scheme is Scheme.PLAIN and one.start not in starts:
        allowed[one.start - 1, inside] = False


def _freed_transitions(masked: Potentials, labels: LabelSet, corrections: Sequence[Correction]) -> NDArray[np.float64]:
    """(N, L, L) transitions by which an ``I-T`` at a correction's first token opens its span."""
    transition = masked.edges_by_token.copy()
    for one in corrections:
        if one.type is not None:
            own = labels.type_of == labels.types.index(one.type)
            transition[one.start][labels.continues & own] = -np.inf
    return transition
