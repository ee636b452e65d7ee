"""The present labels of a Gibbs chain: the spans that they make, and their local score."""

from __future__ import annotations

from typing import NamedTuple

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inner_in_place
from concord.workers.inference.core.agreement import Codec
from concord.workers.inference.core.recursion import edge_place


class Labelling(NamedTuple):
    """The present labels of a chain, with the local scores.

    - ``unary`` (N, L), ``edge`` (E, L, L): the potentials, in nats; see `ScoredChain`.
    - ``labels`` (N,): the present labels.
    - ``codec``: the spans that labels encode.
    """

    unary: Floats
    edge: Floats
    labels: Labels
    codec: Codec


@inner_in_place
def local_score(at: Labelling, first: int, last: int, option: Labels) -> float:
    """Local score of the labels ``option`` at ``first:last`` in nats, with the transitions to both neighbours."""
    total = 0.0
    for i in range(last - first):
        t = first + i
        total += at.unary[t, option[i]]
        if not at.codec.opens_sentence[t]:
            previous = at.labels[t - 1] if i == 0 else option[i - 1]
            total += at.edge[edge_place(at.edge, t), previous, option[i]]
    if not at.codec.opens_sentence[last]:
        total += at.edge[edge_place(at.edge, last), option[last - first - 1], at.labels[last]]
    return total


@inner_in_place
def is_span(at: Labelling, start: int, end: int) -> bool:
    """Is exactly ``start:end`` one labelled span now?"""
    codec, labels = at.codec, at.labels
    if codec.type_of[labels[start]] < 0:
        return False
    if not codec.opens_sentence[start] and codec.continues[labels[start - 1], labels[start]]:
        return False
    for t in range(start + 1, end):
        if not codec.continues[labels[t - 1], labels[t]]:
            return False
    return codec.opens_sentence[end] or not codec.continues[labels[end - 1], labels[end]]


@inner_in_place
def region(at: Labelling, first: int, last: int) -> tuple[int, int]:
    """The smallest range around ``first:last`` that no span crosses, whatever labels ``first:last`` gets."""
    codec, labels = at.codec, at.labels
    low = first
    if not codec.opens_sentence[low] and codec.type_of[labels[low - 1]] >= 0:
        low -= 1
        while not codec.opens_sentence[low] and codec.continues[labels[low - 1], labels[low]]:
            low -= 1
    high = last
    if not codec.opens_sentence[high] and codec.type_of[labels[high]] >= 0:
        high += 1
        while not codec.opens_sentence[high] and codec.continues[labels[high - 1], labels[high]]:
            high += 1
    return low, high
