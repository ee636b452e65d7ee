"""Viterbi over the labels and edges that hard rows leave: Fersini et al. (2014) eq. 10.

Constraint propagation removes edges until nothing changes. An edge (a, b) into token t is removed if, for some hard
row,

    coefficient of (a, b) at t + Σ over the row's other positions of the least coefficient there > bound,

since every labelling with that edge breaks the row. Fixed labels, forbidden labels and forbidden edges are such rows;
so are rows of several positions once all positions but one are decided. Viterbi over the remaining edges gives an upper
bound: its score is no lower than the best local score of the labellings that keep the hard rows, and penalties are
never negative.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import ANY, Problem
from concord.schemas.settings import EngineSettings
from concord.workers.compiling.kernel import inner, inner_in_place, kernel
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.core.recursion import ScoredChain, best_path, sentence_bounds
from concord.workers.inference.numerics import HARD_EXCESS


def solve(
    problem: Problem,
    *,
    config: EngineSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best path over the remaining edges; exact where hard rows fix labels or forbid labels and edges.

    An answer without penalty is proven optimal, and a document without any path is infeasible. Soft constraints, and
    hard ones that remove no edge, are scored but not searched. Work is the number of tokens.
    """
    del config, rng
    search = Search(problem, budget=budget, incumbent=incumbent)
    if search.closed:
        return search.decoded(0.0)
    search.work = len(problem)
    labels, scores = best_path(_allowed_chain(problem))
    score = float(scores.sum())
    if score > -np.inf:
        search.offer(labels)
    return search.decoded(search.top - score)


def _allowed_chain(problem: Problem) -> ScoredChain:
    """The document's chain, with −inf for the edges that `allowed_edges` leaves out."""
    p, edges = problem.potentials, allowed_edges(problem)
    unary = p.unary.copy()
    unary[p.sentence_starts] = np.where(edges[p.sentence_starts, 0], unary[p.sentence_starts], -np.inf)
    return ScoredChain(unary, np.where(edges, p.edges, -np.inf), sentence_bounds(p))


def allowed_edges(problem: Problem) -> NDArray[np.bool_]:
    """(N, L, L) the edges into each token that the potentials and the hard rows allow, by previous label and label.

    At the first token of a sentence, which has no previous label, all rows of the (L, L) table are alike.
    """
    p, rows = problem.potentials, problem.rows
    edges = np.isfinite(p.unary)[:, None, :] & np.isfinite(p.edges)
    edges[p.sentence_starts] = np.isfinite(p.unary[p.sentence_starts])[:, None, :]
    order = rows.by_position[np.isinf(rows.weight[rows.row_of_entry[rows.by_position]])]
    pointer = np.searchsorted(rows.row_of_entry[order], np.arange(len(rows) + 1)).astype(np.int64)
    hard_bound = np.where(np.isinf(rows.weight), rows.bound + HARD_EXCESS * rows.slack, np.inf)
    columns = rows.position[order], rows.previous[order], rows.label[order], rows.coefficient[order]
    while _propagate(pointer, *columns, hard_bound, edges):
        pass
    return edges


@kernel
def _propagate(
    pointer: Ints,
    position: NDArray[np.int32],
    previous: NDArray[np.int32],
    label: NDArray[np.int32],
    coefficient: Floats,
    bound: Floats,
    edges: NDArray[np.bool_],
) -> bool:
    """Removes each edge that some row forbids; returns whether any was removed."""
    width = edges.shape[1]
    changed = False
    least = np.empty(len(position))
    for r in range(len(bound)):
        total = 0.0
        low = pointer[r]
        while low < pointer[r + 1]:
            high = _group_end(position, low, pointer[r + 1])
            pairs = _pairs(previous, label, coefficient, low, high, width)
            least[low] = np.inf
            for a in range(width):
                for b in range(width):
                    if edges[position[low], a, b]:
                        least[low] = min(least[low], pairs[a, b])
            total += least[low]
            low = high
        if pointer[r] == pointer[r + 1] or total == np.inf:
            continue
        low = pointer[r]
        while low < pointer[r + 1]:
            high = _group_end(position, low, pointer[r + 1])
            pairs = _pairs(previous, label, coefficient, low, high, width)
            for a in range(width):
                for b in range(width):
                    if edges[position[low], a, b] and total - least[low] + pairs[a, b] > bound[r]:
                        edges[position[low], a, b] = False
                        changed = True
            low = high
    return changed


@inner_in_place
def _group_end(position: NDArray[np.int32], low: int, last: int) -> int:
    high = low + 1
    while high < last and position[high] == position[low]:
        high += 1
    return high


@inner
def _pairs(
    previous: NDArray[np.int32], label: NDArray[np.int32], coefficient: Floats, low: int, high: int, width: int
) -> Floats:
    """(L, L) the activity that each edge adds to a row at one of its positions."""
    pairs = np.zeros((width, width))
    for e in range(low, high):
        if previous[e] == ANY:
            pairs[:, label[e]] += coefficient[e]
        else:
            pairs[previous[e], label[e]] += coefficient[e]
    return pairs
