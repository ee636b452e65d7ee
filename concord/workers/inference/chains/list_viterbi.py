"""The K best labellings of each sentence under the chain alone: Viterbi with a list in each cell.

The cell of a token and a label holds the best labellings of the sentence up to this token that end with this label, by
falling score (the parallel list Viterbi algorithm, Seshadri & Sundberg 1994). Each extends another entry in the lists
of the previous token, so no labelling is listed twice. Exact backward messages tell what a prefix can still reach;
prefixes that lose more than the limit are not listed. So if few labellings are within the limit the lists are short,
however large K is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inner_in_place, kernel
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.recursion import edge_place, sentence_bounds


class SentenceLists(NamedTuple):
    """The best labellings of each of S sentences, by rising loss.

    - ``labels`` (K, N): those of sentence s are ``labels[: found[s]]`` at its tokens.
    - ``loss`` (S, K): nats below the best labelling of the sentence.
    - ``found`` (S,): how many labellings were found, K at most.
    """

    labels: Labels
    loss: Floats
    found: Ints


def list_viterbi(problem: Prepared, count: int, most_loss: float) -> SentenceLists:
    """The ``count`` best labellings of every sentence, among those that lose at most ``most_loss`` nats locally.

    Of equal ones, those with lower labels at the end come first. A sentence without possible labelling has none.
    """
    p, bounds = problem.potentials, sentence_bounds(problem.potentials)
    best = problem.best_marginals[bounds[:-1]]
    _, backward = problem.messages
    return SentenceLists(*_list_viterbi(p.unary, p.edges, bounds, backward, best, count, float(most_loss)))


@kernel
def _list_viterbi(
    unary: Floats, edge: Floats, bounds: Ints, backward: Floats, best: Floats, count: int, most_loss: float
) -> tuple[Labels, Floats, Ints]:
    width = unary.shape[1]
    longest = np.diff(bounds).max() if len(bounds) > 1 else 0
    labels = np.zeros((count, len(unary)), np.int32)
    loss = np.full((len(bounds) - 1, count), np.inf)
    found = np.zeros(len(bounds) - 1, np.int64)
    # A place in the lists of the token before: label · count + rank.
    source = np.zeros((longest, width, count), np.int64)
    score, before = np.empty((width, count)), np.empty((width, count))
    filled, filled_before = np.zeros(width, np.int64), np.zeros(width, np.int64)
    entering = np.empty(width)
    ending = np.zeros(count, np.int64)
    rank = np.zeros(width, np.int64)
    for s in range(len(best)):
        first, last, least = bounds[s], bounds[s + 1] - 1, best[s] - most_loss
        if best[s] == -np.inf:
            continue
        for label in range(width):
            score[label, 0] = unary[first, label]
            value = score[label, 0] + backward[first, label]
            filled[label] = 1 if value >= least and value > -np.inf else 0
        for t in range(first + 1, last + 1):
            before, score = score, before
            filled_before, filled = filled, filled_before
            place = edge_place(edge, t)
            for label in range(width):
                for previous in range(width):
                    entering[previous] = edge[place, previous, label] + unary[t, label]
                lowest = least - backward[t, label] if backward[t, label] > -np.inf else np.inf
                filled[label] = _merge(
                    before, filled_before, entering, rank, lowest, score[label], source[t - first, label]
                )
        entering[:] = 0.0
        found[s] = _merge(score, filled, entering, rank, least, loss[s], ending)
        for k in range(found[s]):
            loss[s, k] = max(0.0, best[s] - loss[s, k])
            entry = ending[k]
            for t in range(last, first - 1, -1):
                label = entry // count
                labels[k, t] = label
                entry = source[t - first, label, entry % count]
        loss[s, found[s] :] = np.inf
    return labels, loss, found


@inner_in_place
def _merge(lists: Floats, filled: Ints, added: Floats, rank: Ints, lowest: float, values: Floats, places: Ints) -> int:
    """Merges L falling ``lists`` (L, K) into one: ``values`` (K,) with their ``places`` (K,).

    The first ``filled`` (L,) entries of each list count, each raised by the list's ``added`` (L,). Returns how many
    values are not below ``lowest``. ``rank`` (L,) is scratch.
    """
    for label in range(len(lists)):
        rank[label] = 0
    for k in range(len(values)):
        best, chosen = -np.inf, -1
        for label in range(len(lists)):
            if rank[label] < filled[label]:
                value = lists[label, rank[label]] + added[label]
                if value > best:
                    best, chosen = value, label
        if chosen < 0 or best < lowest:
            return k
        values[k], places[k] = best, chosen * len(values) + rank[chosen]
        rank[chosen] += 1
    return len(values)
