"""Crossover and mutation of labellings at the borders of spans: Stokman (2011) §4.2.3, figure 5.

A section is a span, or a run of tokens outside any span. The borders of sections are Stokman's transition points
(eq. 65). Every operator writes whole sections and then mends the one label after them, so that a legal labelling stays
legal (his eq. 64). A labelling that the potentials forbid for another reason scores −inf.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import copy_to, inner, inner_in_place, kernel
from concord.workers.inference.core.agreement import Codec

ONE, OTHER, CROSSED, CHANCE, WHERE, WHAT = range(6)
"""Places of the uniform numbers that one offspring takes: its two parents, the part crossed, and three for mutation."""

DRAWS = 6
"""Number of uniform numbers that one offspring takes."""

MUTATION, SHIFT = range(2)
"""Places in ``rates``."""


@kernel
def breed(codec: Codec, parents: NDArray[np.int32], draws: Floats, rates: Floats, offspring: NDArray[np.int32]) -> None:
    """Writes each offspring (λ, N): a crossover of two of the ``parents`` (μ, N), sometimes mutated.

    ``draws`` (λ, DRAWS) are uniform in [0, 1). ``rates`` (2,) are the mutation rate β and the sequence mutation rate ω.
    Parents are drawn uniformly.
    """
    for child in range(len(offspring)):
        u = draws[child]
        one, other = parents[int(u[ONE] * len(parents))], parents[int(u[OTHER] * len(parents))]
        labels = offspring[child]
        labels[:] = one
        _cross(codec, labels, other, u[CROSSED])
        if u[CHANCE] < rates[MUTATION]:
            mutate(codec, labels, u[CHANCE] / rates[MUTATION], rates[SHIFT], u[WHERE], u[WHAT])


@kernel
def mutate(codec: Codec, labels: Labels, choice: float, shift_rate: float, where: float, what: float) -> None:
    """Shifts a border by one token with probability ω (``shift_rate``), otherwise gives a section another type."""
    points = borders(codec, labels)
    k = int(where * len(points))
    first = points[k]
    if choice < shift_rate:
        _shift(codec, labels, first, what)
        return
    last = points[k + 1] if k + 1 < len(points) else len(labels)
    _flip(codec, labels, first, last, what)


@inner
def borders(codec: Codec, labels: Labels) -> NDArray[np.int64]:
    """The first tokens of all sections, by position."""
    points = np.empty(len(labels), np.int64)
    found = 0
    for t in range(len(labels)):
        if not codec.opens_sentence[t]:
            before, now = labels[t - 1], labels[t]
            if codec.continues[before, now] or (codec.type_of[before] < 0 and codec.type_of[now] < 0):
                continue
        points[found] = t
        found += 1
    return points[:found]


@inner
def _cross(codec: Codec, labels: Labels, other: Labels, where: float) -> None:
    """Copies the part between two neighbouring borders of ``labels`` from ``other``."""
    points = borders(codec, labels)
    k = int(where * len(points))
    first = points[k]
    last = points[k + 1] if k + 1 < len(points) else len(labels)
    copy_to(labels[first:last], other[first:last])
    _mend(codec, labels, first)
    _mend(codec, labels, last)


@inner_in_place
def _shift(codec: Codec, labels: Labels, t: int, what: float) -> None:
    """Moves the border before t by one token, to either side; the start of a sentence stays."""
    if codec.opens_sentence[t]:
        return
    kind = codec.type_of[labels[t - 1]]
    if what < 0.5:
        kind = codec.type_of[labels[t]]
        labels[t - 1] = codec.opening[kind] if kind >= 0 else labels[t]
        if kind >= 0:
            labels[t] = codec.inside[kind]
        _mend(codec, labels, t - 1)
        return
    labels[t] = codec.inside[kind] if kind >= 0 else labels[t - 1]
    _mend(codec, labels, t + 1)


@inner_in_place
def _flip(codec: Codec, labels: Labels, first: int, last: int, what: float) -> None:
    """Gives a section another type, or makes it outside if the label set has an outside label."""
    outside = -1
    for label in range(len(codec.type_of)):
        if codec.type_of[label] < 0:
            outside = label
    now = codec.type_of[labels[first]]
    types = len(codec.opening)
    choices = types + (1 if outside >= 0 else 0)
    if choices < 2:
        return
    kind = int(what * (choices - 1))
    if kind >= (now if now >= 0 else types):
        kind += 1
    if kind >= types:
        labels[first:last] = outside
    else:
        labels[first] = codec.opening[kind]
        labels[first + 1 : last] = codec.inside[kind]
    _mend(codec, labels, last)


@inner_in_place
def _mend(codec: Codec, labels: Labels, t: int) -> None:
    """Makes the label at t open its span if there is nothing for it to continue."""
    if t >= len(labels) or codec.type_of[labels[t]] < 0:
        return
    if codec.opens_sentence[t] or not codec.continues[labels[t - 1], labels[t]]:
        labels[t] = codec.opening[codec.type_of[labels[t]]]
