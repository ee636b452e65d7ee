"""Kernels of sentences over candidate spans: solved exactly under prices, and what each span loses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schemas.potentials import Floats, Ints
from workers.compiling.kernel import kernel, kernel_in_place
from workers.inference.core.agreement import Codec


class Chains(NamedTuple):
    """The sentences: candidate spans ordered by start, ``first`` (N + 1,) those of each token, ``inner``
    (M,) nats from opening to last label, ``last`` (M,) that label."""

    unary: Floats
    transition: Floats
    codec: Codec
    bounds: Ints
    first: Ints
    start: Ints
    end: Ints
    kind: Ints
    inner: Floats
    last: Ints


class Lattice(NamedTuple):
    """Scratch of the sentences: ``reached`` (N, L) is the best score of a prefix that ends here with a whole span
    or an outside label, ``from_span`` and ``from_label`` (N, L) say by which span, or after which label."""

    reached: Floats
    from_span: Ints
    from_label: Ints
    entered: Floats


@kernel
def inner_scores(unary: Any, transition: Any, codec: Any, start: Any, end: Any, kind: Any) -> Any:
    """(M,) nats of each span from its first label to its last, and (M,) that last label."""
    inner = np.empty(len(start))
    last = np.empty(len(start), np.int64)
    for i in range(len(start)):
        label = codec.opening[kind[i]]
        inner[i] = unary[start[i], label]
        for t in range(start[i] + 1, end[i]):
            following = codec.inside[kind[i]]
            inner[i] += transition[label, following] + unary[t, following]
            label = following
        last[i] = label
    return inner, last


@kernel
def lattice_for(chains: Any) -> Any:
    """Scratch for all sentences."""
    shape = chains.unary.shape
    backward = np.empty(shape, np.int64), np.empty(shape, np.int64)
    return Lattice(np.empty(shape), *backward, np.empty(len(chains.codec.opening)))


@kernel_in_place
def solve_sentence(chains: Any, s: int, charge: Any, lattice: Any) -> Any:
    """Best score of sentence s in nats; `trace_sentence` has its labels.

    ``charge`` (M + N,) is taken off each span's score, and each outside label's at a token.
    """
    reached = lattice.reached
    outside = chains.codec.outside
    reached[chains.bounds[s] : chains.bounds[s + 1]] = -np.inf
    for t in range(chains.bounds[s], chains.bounds[s + 1]):
        for label in outside:
            value, before = _enter(chains, reached, t, label)
            reached[t, label] = value + chains.unary[t, label] - charge[len(chains.start) + t]
            lattice.from_span[t, label] = -1
            lattice.from_label[t, label] = before
        if chains.first[t] == chains.first[t + 1]:
            continue
        lattice.entered[:] = -np.inf
        for i in range(chains.first[t], chains.first[t + 1]):
            kind = chains.kind[i]
            if lattice.entered[kind] == -np.inf:
                lattice.entered[kind] = _enter(chains, reached, t, chains.codec.opening[kind])[0]
            value = lattice.entered[kind] + chains.inner[i] - charge[i]
            last = chains.end[i] - 1
            if value > reached[last, chains.last[i]]:
                reached[last, chains.last[i]] = value
                lattice.from_span[last, chains.last[i]] = i
    best = -np.inf
    for value in reached[chains.bounds[s + 1] - 1]:
        best = max(best, value)
    return best


@kernel_in_place
def trace_sentence(chains: Any, s: int, lattice: Any, taken: Any, labels: Any) -> None:
    """Marks spans and outside labels of the best labelling in ``taken`` (M + N,) and writes its labels (N,)."""
    t = chains.bounds[s + 1] - 1
    label = np.argmax(lattice.reached[t])
    while t >= chains.bounds[s]:
        i = lattice.from_span[t, label]
        if i < 0:
            taken[len(chains.start) + t] = True
            labels[t] = label
            label = lattice.from_label[t, label]
            t -= 1
            continue
        taken[i] = True
        labels[chains.start[i]] = chains.codec.opening[chains.kind[i]]
        labels[chains.start[i] + 1 : chains.end[i]] = chains.codec.inside[chains.kind[i]]
        t = chains.start[i] - 1
        label = _enter(chains, lattice.reached, chains.start[i], chains.codec.opening[chains.kind[i]])[1]


@kernel_in_place
def _enter(chains: Any, reached: Any, t: Any, label: Any) -> Any:
    """Best score of what stands before t given ``label`` opens there, and the label before it (−1: none)."""
    if chains.codec.opens_sentence[t]:
        return 0.0, -1
    best, before = -np.inf, -1
    for other in range(chains.unary.shape[1]):
        if not chains.codec.continues[other, label]:
            value = reached[t - 1, other] + chains.transition[other, label]
            if value > best:
                best, before = value, other
    return best, before


@kernel
def chain_losses(chains: Any, charge: Any) -> Any:
    """(M,) nats a sentence loses at least with each span, (N, L) with each outside label; charges are paid."""
    count, width = chains.unary.shape
    lattice, remaining = lattice_for(chains), np.zeros((count, width))
    reached, opened = lattice.reached, lattice.entered
    span_loss, outside_loss = np.empty(len(chains.start)), np.full((count, width), np.inf)
    outside = chains.codec.outside
    for s in range(len(chains.bounds) - 1):
        best = solve_sentence(chains, s, charge, lattice)
        for t in range(chains.bounds[s + 1] - 1, chains.bounds[s] - 1, -1):
            # ``remaining[t]``: the best from t + 1 on, given the label at t. Later tokens are done.
            for label in outside:
                outside_loss[t, label] = best - (reached[t, label] + remaining[t, label])
            opened[:] = -np.inf
            for i in range(chains.first[t], chains.first[t + 1]):
                kind = chains.kind[i]
                rest = chains.inner[i] - charge[i] + remaining[chains.end[i] - 1, chains.last[i]]
                span_loss[i] = best - (_enter(chains, reached, t, chains.codec.opening[kind])[0] + rest)
                opened[kind] = max(opened[kind], rest)
            if t == chains.bounds[s]:
                continue
            for before in range(width):
                most = -np.inf
                for following in outside:
                    rest = chains.unary[t, following] - charge[len(chains.start) + t] + remaining[t, following]
                    most = max(most, chains.transition[before, following] + rest)
                for kind in range(len(opened)):
                    opening = chains.codec.opening[kind]
                    if opened[kind] > -np.inf and not chains.codec.continues[before, opening]:
                        most = max(most, chains.transition[before, opening] + opened[kind])
                remaining[t - 1, before] = most
    return span_loss, outside_loss
