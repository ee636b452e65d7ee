"""Block coordinate descent: one sentence at a time is solved exactly against the present labels of all others.

For sentence s, with the labels y_{−s} of the others held,

    y_s ← argmax_y score(y) − Σ over spans and outside labels of y: their cost with the items of y_{−s},

by dynamic programming (`sentences`). Costs between spans of y_s itself are not in that sum; they are counted when the
old and the new labels are compared. The new labels are taken only if they gain more than `ROUNDING`.

Invariant: the objective without rows never falls, and ``state`` counts exactly the labels of all sentences. So the
descent ends, and its result is no worse than its start. It proves nothing about the optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import copy_to, inner_in_place, kernel, kernel_in_place
from concord.workers.inference.core.agreement import AgreementState, count_labels, labels_cost, outside_cost, span_cost
from concord.workers.inference.core.recursion import edge_place
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.relaxation.sentences import Chains, Lattice, lattice_for, solve_sentence, trace_sentence

MOST_PASSES = 20
"""Largest number of passes over all sentences: late passes change little."""


class Descent(NamedTuple):
    """The present labels, and the charges under which each sentence was last solved; N tokens, M candidate spans.

    - ``chains``: the sentences.
    - ``state``: counts of the present labels.
    - ``labels`` (N,): the present labels.
    - ``penalty`` (1,): agreement cost of these labels, in nats.
    - ``work`` (1,): number of labels and spans visited.
    - ``seen`` (M + N,): last charge of each candidate span and outside label in nats, NaN if it was never computed.
    - ``charge`` (M + N,), ``taken`` (M + N,), ``fresh`` (N,): scratch.
    - ``lattice``: scratch.
    """

    chains: Chains
    state: AgreementState
    labels: Labels
    penalty: Floats
    work: Ints
    seen: Floats
    charge: Floats
    taken: NDArray[np.bool_]
    fresh: Labels
    lattice: Lattice


@kernel
def start_at(chains: Chains, state: AgreementState, labels: Labels) -> Descent:
    """A descent from ``labels`` (N,), which it changes; ``state`` is an `AgreementState` without counts."""
    count = len(labels)
    penalty = np.array([labels_cost(state, chains.codec, labels, 0, count)])
    count_labels(state, chains.codec, labels, 0, count, 1)
    items = len(chains.start) + count
    seen, charge, taken = np.full(items, np.nan), np.zeros(items), np.zeros(items, np.bool_)
    work = np.zeros(1, np.int64)
    return Descent(chains, state, labels, penalty, work, seen, charge, taken, labels.copy(), lattice_for(chains))


@kernel_in_place
def descend(descent: Descent, most: int) -> float:
    """Passes over all sentences until none changes; returns the objective of the labels without rows, in nats.

    A sentence is solved again only if one of its charges changed. There is no further pass after `MOST_PASSES`, or once
    ``most`` labels and spans have been visited.
    """
    chains, labels = descent.chains, descent.labels
    for _ in range(MOST_PASSES):
        changed = False
        for s in range(len(chains.bounds) - 1):
            first, last = chains.bounds[s], chains.bounds[s + 1]
            descent.work[0] += last - first + chains.first[last] - chains.first[first]
            if chains.first[first] < chains.first[last] and charges_changed(descent, first, last):
                changed |= solve(descent, s)
        if not changed or descent.work[0] >= most:
            break
    reached = -descent.penalty[0]
    for s in range(len(chains.bounds) - 1):
        reached += local_score(chains.unary, chains.edge, labels, chains.bounds[s], chains.bounds[s + 1])
    return float(reached)


@kernel_in_place
def finish(descent: Descent) -> None:
    """Takes all labels out of the counts, so that these are empty again."""
    count_labels(descent.state, descent.chains.codec, descent.labels, 0, len(descent.labels), -1)


@inner_in_place
def solve(descent: Descent, s: int) -> bool:
    """Solves sentence s and takes its new labels if they are better; returns whether they are."""
    chains, labels, fresh = descent.chains, descent.labels, descent.fresh
    first, last = chains.bounds[s], chains.bounds[s + 1]
    cost = uncount_sentence(descent, first, last)
    _charges(chains, descent.state, first, last, descent.charge)
    solve_sentence(chains, s, descent.charge, descent.lattice)
    trace_sentence(chains, s, descent.lattice, descent.taken, fresh)
    if _are_alike(fresh, labels, first, last):
        count_labels(descent.state, chains.codec, labels, first, last, 1)
        return False
    before = local_score(chains.unary, chains.edge, labels, first, last) - cost
    after = local_score(chains.unary, chains.edge, fresh, first, last)
    after -= labels_cost(descent.state, chains.codec, fresh, first, last)
    better = after > before + ROUNDING
    descent.penalty[0] += count_sentence(descent, fresh if better else labels, first, last) - cost
    if better:
        charges_changed(descent, first, last)
    return better


@inner_in_place
def _are_alike(one: Labels, other: Labels, first: int, last: int) -> bool:
    """Are the labels from ``first`` to ``last``, exclusive, the same?"""
    for t in range(first, last):
        if one[t] != other[t]:
            return False
    return True


@inner_in_place
def uncount_sentence(descent: Descent, first: int, last: int) -> float:
    """Takes a sentence's labels out of the counts; returns the nats that they cost each other and the others."""
    count_labels(descent.state, descent.chains.codec, descent.labels, first, last, -1)
    return labels_cost(descent.state, descent.chains.codec, descent.labels, first, last)


@inner_in_place
def count_sentence(descent: Descent, labels: Labels, first: int, last: int) -> float:
    """Copies ``labels[first:last]`` to a sentence that is not counted, and counts it; returns its cost in nats."""
    copy_to(descent.labels[first:last], labels[first:last])
    cost = labels_cost(descent.state, descent.chains.codec, labels, first, last)
    count_labels(descent.state, descent.chains.codec, labels, first, last, 1)
    return cost


@inner_in_place
def _charges(chains: Chains, state: AgreementState, first: int, last: int, charge: Floats) -> None:
    """Writes the nats that each candidate span and outside label of a sentence costs with what is counted."""
    for i in range(chains.first[first], chains.first[last]):
        charge[i] = span_cost(state, chains.start[i], chains.end[i], chains.kind[i])
    for t in range(first, last):
        charge[len(chains.start) + t] = outside_cost(state, t)


@inner_in_place
def charges_changed(descent: Descent, first: int, last: int) -> bool:
    """Do any charges of the sentence differ from those in ``seen``? Copies the present ones to ``seen``."""
    chains, charge, seen = descent.chains, descent.charge, descent.seen
    _charges(chains, descent.state, first, last, charge)
    differs = False
    for i in range(chains.first[first], chains.first[last]):
        differs |= charge[i] != seen[i]
        seen[i] = charge[i]
    for i in range(len(chains.start) + first, len(chains.start) + last):
        differs |= charge[i] != seen[i]
        seen[i] = charge[i]
    return differs


@inner_in_place
def local_score(unary: Floats, edge: Floats, labels: Labels, first: int, last: int) -> float:
    """The local score of a sentence's labels, in nats."""
    total = unary[first, labels[first]]
    for t in range(first + 1, last):
        total += edge[edge_place(edge, t), labels[t - 1], labels[t]] + unary[t, labels[t]]
    return float(total)
