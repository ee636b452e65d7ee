"""Block coordinate descent: one sentence at a time is solved exactly against all others as they are labelled now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from workers.inference.agreement import add_labels, outside_cost, span_cost
from workers.inference.relaxation_kernels import lattice_for, solve_sentence, trace_sentence

MOST_PASSES = 20
LEAST_GAIN = 1e-9
"""Nats that a change has to bring, more than rounding can."""


@njit(cache=True, nogil=True)
def descend(chains: Any, state: Any, labels: Any) -> None:
    """Improves ``labels`` (N,) in place until no sentence alone can be bettered with the candidate spans.

    ``state`` is an `AgreementState` without counts, and is left so. What the spans of one sentence cost
    each other is not seen while it is solved, but a change has to pay with that too.
    """
    count = len(labels)
    spans = len(chains.start)
    lattice, charge = lattice_for(chains), np.zeros(spans + count)
    taken, fresh = np.zeros(len(charge), np.bool_), labels.copy()
    add_labels(state, chains.codec, labels, 0, count, 1)
    for _ in range(MOST_PASSES):
        changed = False
        for s in range(len(chains.bounds) - 1):
            first, last = chains.bounds[s], chains.bounds[s + 1]
            if chains.first[first] == chains.first[last]:
                continue
            before = _local(chains, labels, first, last) - add_labels(state, chains.codec, labels, first, last, -1)
            for i in range(chains.first[first], chains.first[last]):
                charge[i] = span_cost(state, chains.start[i], chains.end[i], chains.kind[i])
            for t in range(first, last):
                charge[spans + t] = outside_cost(state, t)
            solve_sentence(chains, s, charge, lattice)
            trace_sentence(chains, s, lattice, taken, fresh)
            after = _local(chains, fresh, first, last) - add_labels(state, chains.codec, fresh, first, last, 1)
            if after > before + LEAST_GAIN:
                labels[first:last] = fresh[first:last]
                changed = True
                continue
            add_labels(state, chains.codec, fresh, first, last, -1)
            add_labels(state, chains.codec, labels, first, last, 1)
        if not changed:
            break
    add_labels(state, chains.codec, labels, 0, count, -1)


@njit(cache=True, nogil=True)
def _local(chains: Any, labels: Any, first: int, last: int) -> Any:
    """The local score of a sentence's labels, in nats."""
    total = chains.unary[first, labels[first]]
    for t in range(first + 1, last):
        total += chains.transition[labels[t - 1], labels[t]] + chains.unary[t, labels[t]]
    return total
