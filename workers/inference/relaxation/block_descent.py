"""Block coordinate descent: one sentence at a time is solved exactly against all others as they are labelled now."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Labels
from schemas.potentials import Floats, Ints
from workers.compiling.kernel import copy_to, inner_in_place, kernel, kernel_in_place
from workers.inference.core.agreement import AgreementState, count_labels, labels_cost, outside_cost, span_cost
from workers.inference.numerics import ROUNDING
from workers.inference.relaxation.sentences import Chains, Lattice, lattice_for, solve_sentence, trace_sentence

MOST_PASSES = 20


class Descent(NamedTuple):
    """``labels`` (N,), counted in ``state``, and what was last looked at.

    ``penalty`` (1,) is what they cost each other, in nats, ``work`` (1,) the labels and spans looked at. ``seen``
    (M + N,) is what each candidate span and each outside label cost when its sentence was last found best, NaN
    where it has yet to be solved;
    ``charge`` (M + N,), ``taken`` (M + N,), ``fresh`` (N,) and ``lattice`` are scratch.
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
def start_at(chains: Any, state: Any, labels: Any) -> Any:
    """A descent from ``labels`` (N,), which it changes; ``state`` is an `AgreementState` without counts."""
    count = len(labels)
    penalty = np.array([labels_cost(state, chains.codec, labels, 0, count)])
    count_labels(state, chains.codec, labels, 0, count, 1)
    items = len(chains.start) + count
    seen, charge, taken = np.full(items, np.nan), np.zeros(items), np.zeros(items, np.bool_)
    work = np.zeros(1, np.int64)
    return Descent(chains, state, labels, penalty, work, seen, charge, taken, labels.copy(), lattice_for(chains))


@kernel_in_place
def descend(descent: Any, most: int) -> Any:
    """Betters the labels until no sentence alone can be bettered with the candidate spans; returns what they reach.

    That is in nats, without rows. What the spans of one sentence cost each other is not seen while it is
    solved, but a change has to pay with that too. A sentence is solved again only if a price changed there. After
    ``most`` labels and spans looked at there are no more passes.
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
        reached += local_score(chains.unary, chains.transition, labels, chains.bounds[s], chains.bounds[s + 1])
    return reached


@kernel_in_place
def finish(descent: Any) -> None:
    """Takes the labels out of the counts."""
    count_labels(descent.state, descent.chains.codec, descent.labels, 0, len(descent.labels), -1)


@inner_in_place
def solve(descent: Any, s: int) -> Any:
    """Solves sentence s; returns whether that bettered it."""
    chains, labels, fresh = descent.chains, descent.labels, descent.fresh
    first, last = chains.bounds[s], chains.bounds[s + 1]
    cost = uncount_sentence(descent, first, last)
    _charges(chains, descent.state, first, last, descent.charge)
    solve_sentence(chains, s, descent.charge, descent.lattice)
    trace_sentence(chains, s, descent.lattice, descent.taken, fresh)
    before = local_score(chains.unary, chains.transition, labels, first, last) - cost
    after = local_score(chains.unary, chains.transition, fresh, first, last)
    after -= labels_cost(descent.state, chains.codec, fresh, first, last)
    better = after > before + ROUNDING
    descent.penalty[0] += count_sentence(descent, fresh if better else labels, first, last) - cost
    if better:
        charges_changed(descent, first, last)
    return better


@inner_in_place
def uncount_sentence(descent: Any, first: int, last: int) -> Any:
    """Takes a sentence's labels out of the counts; returns what they cost with the others."""
    count_labels(descent.state, descent.chains.codec, descent.labels, first, last, -1)
    return labels_cost(descent.state, descent.chains.codec, descent.labels, first, last)


@inner_in_place
def count_sentence(descent: Any, labels: Any, first: int, last: int) -> Any:
    """Gives a sentence that is not counted the labels there and counts it; returns what they cost with the others."""
    copy_to(descent.labels[first:last], labels[first:last])
    cost = labels_cost(descent.state, descent.chains.codec, labels, first, last)
    count_labels(descent.state, descent.chains.codec, labels, first, last, 1)
    return cost


@inner_in_place
def _charges(chains: Any, state: Any, first: int, last: int, charge: Any) -> None:
    """Writes what each candidate span and outside label of a sentence costs with what is counted."""
    for i in range(chains.first[first], chains.first[last]):
        charge[i] = span_cost(state, chains.start[i], chains.end[i], chains.kind[i])
    for t in range(first, last):
        charge[len(chains.start) + t] = outside_cost(state, t)


@inner_in_place
def charges_changed(descent: Any, first: int, last: int) -> Any:
    """Does anything in the sentence cost what it did not when last looked at? What it costs now is remembered."""
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
def local_score(unary: Any, transition: Any, labels: Any, first: int, last: int) -> Any:
    """The local score of a sentence's labels, in nats."""
    total = unary[first, labels[first]]
    for t in range(first + 1, last):
        total += transition[labels[t - 1], labels[t]] + unary[t, labels[t]]
    return total
