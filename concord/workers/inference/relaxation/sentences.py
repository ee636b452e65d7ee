"""Kernels of sentences over candidate spans: the best labelling under charges, and each span's max-marginal loss.

A labelling of a sentence is a path through candidate spans and outside labels. With a charge θ_i on each span i, and on
the outside label at each token, a semi-Markov Viterbi recursion (Sarawagi & Cohen 2004) over ends of spans gives the
best charged score exactly:

    reached[t, l] = max over spans i that end with label l at t: enter(start_i, opening_i) + inner_i − θ_i,
                    or, for an outside label l: enter(t, l) + unary[t, l] − θ_{t},
    enter(t, l)   = max over l' that l does not continue: reached[t − 1, l'] + edge[t, l', l]; 0 at a start.

Invariant: reached[t, l] is the best charged score of the sentence's tokens up to t, over all paths with last label l on
which no span crosses t + 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inlined, inner, kernel, kernel_in_place
from concord.workers.inference.core.agreement import Codec
from concord.workers.inference.core.recursion import edge_place


class Chains(NamedTuple):
    """The sentences of a document with M candidate spans, ordered by start.

    - ``unary`` (N, L), ``edge`` (E, L, L): the potentials, in nats; see `ScoredChain`.
    - ``codec``: the spans that labels encode.
    - ``bounds`` (S + 1,): first token of each sentence, then N.
    - ``first`` (N + 1,): the spans that start at t are ``first[t]:first[t + 1]``.
    - ``start``, ``end``, ``kind`` (M,): start, exclusive end and type of each span.
    - ``inner`` (M,): score of a span's labels and the transitions between them, in nats.
    - ``last`` (M,): last label of each span.
    """

    unary: Floats
    edge: Floats
    codec: Codec
    bounds: Ints
    first: Ints
    start: Ints
    end: Ints
    kind: Ints
    inner: Floats
    last: Ints


class Lattice(NamedTuple):
    """Tables of the recursion.

    - ``reached`` (N, L): the scores of the module's recursion, in nats.
    - ``from_span`` (N, L): the span that ends there; −1 for an outside label.
    - ``from_label`` (N, L): the label before an outside label.
    - ``entered`` (T,): enter(t, opening) of each type at the current token, in nats.
    - ``ending`` (N, L): the labels that a token can have and no span cross its end, rising: outside labels, and the
      last labels of the spans that end there. All other labels of ``reached`` count as −inf.
    - ``endings`` (N,): number of these labels.
    - ``cut`` (N,): the last token, up to this one, that begins behind all spans that begin before it. What is before
      a cut does not depend on charges behind it.
    """

    reached: Floats
    from_span: Ints
    from_label: Ints
    entered: Floats
    ending: Ints
    endings: Ints
    cut: Ints


@kernel
def inner_scores(
    unary: Floats, edge: Floats, codec: Codec, start: Ints, end: Ints, kind: Ints
) -> tuple[Floats, NDArray[np.int64]]:
    """(M,) score of each span's labels and the transitions between them in nats, and (M,) its last label."""
    inner = np.empty(len(start))
    last = np.empty(len(start), np.int64)
    for i in range(len(start)):
        label = codec.opening[kind[i]]
        inner[i] = unary[start[i], label]
        for t in range(start[i] + 1, end[i]):
            following = codec.inside[kind[i]]
            inner[i] += edge[edge_place(edge, t), label, following] + unary[t, following]
            label = following
        last[i] = label
    return inner, last


@kernel
def lattice_for(chains: Chains) -> Lattice:
    """Unfilled tables for all sentences."""
    shape = chains.unary.shape
    backward = np.empty(shape, np.int64), np.empty(shape, np.int64)
    ending, endings = _endings(chains)
    entered = np.empty(len(chains.codec.opening))
    return Lattice(np.empty(shape), *backward, entered, ending, endings, _cuts(chains))


@inner
def _endings(chains: Chains) -> tuple[Ints, Ints]:
    """``ending`` and ``endings`` of a `Lattice`."""
    count, width = chains.unary.shape
    ends = np.zeros((count, width), np.bool_)
    for label in chains.codec.outside:
        ends[:, label] = True
    for i in range(len(chains.start)):
        ends[chains.end[i] - 1, chains.last[i]] = True
    ending, endings = np.empty((count, width), np.int64), np.zeros(count, np.int64)
    for t in range(count):
        for label in range(width):
            if ends[t, label]:
                ending[t, endings[t]] = label
                endings[t] += 1
    return ending, endings


@inner
def _cuts(chains: Chains) -> Ints:
    """``cut`` of a `Lattice`."""
    cut, last, covered = np.empty(len(chains.unary), np.int64), 0, 0
    for t in range(len(cut)):
        if covered <= t:
            last = t
        cut[t] = last
        for i in range(chains.first[t], chains.first[t + 1]):
            covered = max(covered, chains.end[i])
    return cut


@kernel_in_place
def solve_sentence(chains: Chains, s: int, charge: Floats, lattice: Lattice) -> float:
    """The best charged score of sentence s in nats, −inf if no path exists; `trace_sentence` gives its labels.

    ``charge`` (M + N,) are the nats charged for each span, and for an outside label at each token.
    """
    return solve_rest(chains, s, chains.bounds[s], charge, lattice)


@kernel_in_place
def solve_rest(chains: Chains, s: int, begin: int, charge: Floats, lattice: Lattice) -> float:
    """The same as `solve_sentence` where no charge before the cut ``begin`` changed since the sentence was solved."""
    reached, ending = lattice.reached, lattice.ending
    outside, tokens, end = chains.codec.outside, len(chains.start), chains.bounds[s + 1]
    for t in range(begin, end):
        for k in range(lattice.endings[t]):
            reached[t, ending[t, k]] = -np.inf
    for t in range(begin, end):
        for label in outside:
            value, before = _enter(chains, lattice, t, label)
            reached[t, label] = value + chains.unary[t, label] - charge[tokens + t]
            lattice.from_span[t, label] = -1
            lattice.from_label[t, label] = before
        if chains.first[t] == chains.first[t + 1]:
            continue
        lattice.entered[:] = -np.inf
        for i in range(chains.first[t], chains.first[t + 1]):
            kind = chains.kind[i]
            if lattice.entered[kind] == -np.inf:
                lattice.entered[kind] = _enter(chains, lattice, t, chains.codec.opening[kind])[0]
            value = lattice.entered[kind] + chains.inner[i] - charge[i]
            last = chains.end[i] - 1
            if value > reached[last, chains.last[i]]:
                reached[last, chains.last[i]] = value
                lattice.from_span[last, chains.last[i]] = i
    return _best_end(lattice, end - 1)[0]


@inlined
def _best_end(lattice: Lattice, t: int) -> tuple[float, int]:
    """The best score of all labels that can end at token t, and that label; −inf and 0 if none is possible."""
    best, label = -np.inf, 0
    for k in range(lattice.endings[t]):
        value = lattice.reached[t, lattice.ending[t, k]]
        if value > best:
            best, label = value, lattice.ending[t, k]
    return best, label


@kernel
def charged_score(chains: Chains, charge: Floats) -> float:
    """The best charged score of all sentences together, in nats; ``charge`` is that of `solve_sentence`."""
    lattice, total = lattice_for(chains), 0.0
    for s in range(len(chains.bounds) - 1):
        total += solve_sentence(chains, s, charge, lattice)
    return total


@kernel_in_place
def trace_sentence(chains: Chains, s: int, lattice: Lattice, taken: NDArray[np.bool_], labels: Labels) -> None:
    """Marks the spans and outside labels of the best labelling in ``taken`` (M + N,), and writes its labels (N,)."""
    t = chains.bounds[s + 1] - 1
    label = _best_end(lattice, t)[1]
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
        label = _enter(chains, lattice, chains.start[i], chains.codec.opening[chains.kind[i]])[1]


@inlined
def _enter(chains: Chains, lattice: Lattice, t: int, label: int) -> tuple[float, int]:
    """enter(t, label) of the module's recursion, and the label before t that it takes (−1: none)."""
    best, before = -np.inf, -1
    if chains.codec.opens_sentence[t]:
        best = 0.0
    else:
        place = edge_place(chains.edge, t)
        for k in range(lattice.endings[t - 1]):
            other = lattice.ending[t - 1, k]
            if not chains.codec.continues[other, label]:
                value = lattice.reached[t - 1, other] + chains.edge[place, other, label]
                if value > best:
                    best, before = value, other
    return best, before


@kernel
def chain_losses(chains: Chains, charge: Floats) -> tuple[Floats, Floats]:
    """(M,) nats by which the best path with each span is below the best path; (N, L) the same with each outside label.

    Both paths are charged. The loss is inf for labels that are not outside, and if there is no such path.
    """
    count, width = chains.unary.shape
    lattice, remaining = lattice_for(chains), np.zeros((count, width))
    reached, opened, entered = lattice.reached, lattice.entered, np.empty(len(lattice.entered))
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
                if opened[kind] == -np.inf:
                    entered[kind] = _enter(chains, lattice, t, chains.codec.opening[kind])[0]
                span_loss[i] = best - (entered[kind] + rest)
                opened[kind] = max(opened[kind], rest)
            if t == chains.bounds[s]:
                continue
            place = edge_place(chains.edge, t)
            for k in range(lattice.endings[t - 1]):
                before, most = lattice.ending[t - 1, k], -np.inf
                for following in outside:
                    rest = chains.unary[t, following] - charge[len(chains.start) + t] + remaining[t, following]
                    most = max(most, chains.edge[place, before, following] + rest)
                for kind in range(len(opened)):
                    opening = chains.codec.opening[kind]
                    if opened[kind] > -np.inf and not chains.codec.continues[before, opening]:
                        most = max(most, chains.edge[place, before, opening] + opened[kind])
                remaining[t - 1, before] = most
    return span_loss, outside_loss
