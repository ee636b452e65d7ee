"""Exact inference on linear chains: numba kernels over flat arrays, sentence by sentence.

Every function takes the `Potentials` of a document or of a whole batch, in nats, and treats −inf as impossible rather
than as a large number. Fersini et al. (2014) eq. 7–9 give the Viterbi recursion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.workers.compiling.kernel import kernel


def viterbi(potentials: Potentials) -> Labels:
    """(N,) the best labelling of every sentence; ties go to the lowest label id.

    If every path of a sentence is −inf, its labels are arbitrary and score −inf.
    """
    return best_labels(potentials)[0]


def best_labels(potentials: Potentials) -> tuple[Labels, Floats]:
    """The labels (N,) of `viterbi`, and the score (S,) of each sentence in nats."""
    p = potentials
    bounds = sentence_bounds(p)
    return _traced(_forward_max(p.unary, p.transition, bounds), p.transition, bounds)


def viterbi_score(potentials: Potentials) -> float:
    """The best local score of any labelling, in nats: the sum over sentences."""
    return float(best_labels(potentials)[1].sum())


def log_partition(potentials: Potentials) -> Floats:
    """(S,) log Z of each sentence, in nats; −inf where no labelling is possible."""
    p = potentials
    bounds = sentence_bounds(p)
    return _totals(p.unary + _incoming(p.unary, p.transition, bounds), bounds)


def marginals(potentials: Potentials) -> Floats:
    """(N, L) probability of each label of each token under the chain alone.

    Raises `ValueError` where a sentence has no possible labelling.
    """
    before, after, total = sum_messages(potentials)
    if not np.isfinite(total).all():
        raise ValueError(f"sentence {int(np.flatnonzero(~np.isfinite(total))[0])} has no possible labelling")
    lengths = np.diff(sentence_bounds(potentials))
    result: Floats = np.exp(potentials.unary + before + after - np.repeat(total, lengths)[:, None])
    return result


class SumMessages(NamedTuple):
    """Sum messages of the forward-backward algorithm: log-sums over labellings, in nats.

    - ``before`` (N, L): over the tokens of the sentence before t, given y_t = l.
    - ``after`` (N, L): over the tokens of the sentence after t, given y_t = l.
    - ``total`` (S,): log Z of each sentence; −inf where no labelling is possible.
    """

    before: Floats
    after: Floats
    total: Floats


def sum_messages(potentials: Potentials) -> SumMessages:
    """Forward and backward sum messages."""
    p = potentials
    bounds = sentence_bounds(p)
    before = _incoming(p.unary, p.transition, bounds)
    # What comes after a token is what comes before it when the chain is read from its end.
    reverse = np.ascontiguousarray(p.unary[::-1]), np.ascontiguousarray(p.transition.T), len(p) - bounds[::-1]
    after = np.ascontiguousarray(_incoming(*reverse)[::-1])
    return SumMessages(before, after, _totals(p.unary + before, bounds))


def _totals(forward: Floats, bounds: NDArray[np.int64]) -> Floats:
    return np.logaddexp.reduce(forward[bounds[1:] - 1], axis=1) if len(bounds) > 1 else np.zeros(0)


def max_marginals(potentials: Potentials) -> Floats:
    """(N, L) the best local score of the token's sentence among labellings with y_t = l, in nats."""
    forward, backward = max_messages(potentials)
    return forward + backward


def max_messages(potentials: Potentials) -> tuple[Floats, Floats]:
    """Forward and backward max messages, both (N, L), in nats.

    - ``forward[t, l]`` is the best score of the sentence up to t with y_t = l, including the unary score of t.
    - ``backward[t, l]`` is the best score of everything after t, given y_t = l.

    Their sum is the max-marginal.
    """
    p = potentials
    bounds = sentence_bounds(p)
    return _forward_max(p.unary, p.transition, bounds), _backward_max(p.unary, p.transition, bounds)


def sentence_bounds(potentials: Potentials) -> Ints:
    """(S + 1,) the first token of each sentence, and the number of tokens as the last value."""
    return np.append(potentials.sentence_starts, len(potentials)).astype(np.int64)


@kernel
def _traced(forward: Floats, transition: Floats, bounds: Ints) -> tuple[Labels, Floats]:
    """The best labels (N,), traced back from the end of each sentence by its forward messages, and their scores (S,).

    There are no back pointers: the label before is found again by comparing all L candidates. So the forward pass has
    no branch and runs in vector instructions.
    """
    count, width = forward.shape
    labels = np.zeros(count, np.int32)
    scores = np.zeros(len(bounds) - 1)
    for s in range(len(bounds) - 1):
        first, last = bounds[s], bounds[s + 1] - 1
        label = int(np.argmax(forward[last]))
        scores[s] = forward[last, label]
        labels[last] = label
        for t in range(last - 1, first - 1, -1):
            best, source = forward[t, 0] + transition[0, label], 0
            for previous in range(1, width):
                value = forward[t, previous] + transition[previous, label]
                if value > best:
                    best, source = value, previous
            label = source
            labels[t] = label
    return labels, scores


@kernel
def _forward_max(unary: Floats, transition: Floats, bounds: Ints) -> Floats:
    count, width = unary.shape
    forward = np.full((count, width), -np.inf)
    for s in range(len(bounds) - 1):
        forward[bounds[s]] = unary[bounds[s]]
        for t in range(bounds[s] + 1, bounds[s + 1]):
            before, best, own = forward[t - 1], forward[t], unary[t]
            for previous in range(width):
                score, row = before[previous], transition[previous]
                for label in range(width):
                    value = score + row[label]
                    # max() would ask for NaN too, at twice the time.
                    best[label] = value if value > best[label] else best[label]  # noqa: FURB136
            for label in range(width):
                best[label] += own[label]
    return forward


@kernel
def _backward_max(unary: Floats, transition: Floats, bounds: Ints) -> Floats:
    count, width = unary.shape
    backward = np.zeros((count, width))
    for s in range(len(bounds) - 1):
        for t in range(bounds[s + 1] - 2, bounds[s] - 1, -1):
            for label in range(width):
                best = -np.inf
                for following in range(width):
                    value = transition[label, following] + unary[t + 1, following] + backward[t + 1, following]
                    best = max(best, value)
                backward[t, label] = best
    return backward


@kernel
def _incoming(unary: Floats, transition: Floats, bounds: Ints) -> Floats:
    """(N, L) log-sum over all labels of the sentence before t, given y_t = l; 0 at its start."""
    count, width = unary.shape
    incoming = np.zeros((count, width))
    terms = np.empty(width)
    for s in range(len(bounds) - 1):
        for t in range(bounds[s] + 1, bounds[s + 1]):
            for label in range(width):
                for previous in range(width):
                    terms[previous] = incoming[t - 1, previous] + unary[t - 1, previous] + transition[previous, label]
                incoming[t, label] = _log_sum(terms)
    return incoming


@kernel
def _log_sum(terms: Floats) -> float:
    top = terms.max()
    if top == -np.inf:
        return float(top)
    return float(top + np.log(np.exp(terms - top).sum()))
