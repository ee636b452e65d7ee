"""Beam search from left to right: Chang et al. (2008) §3.2.

After each token the beam keeps the ``width`` partial labellings with the least f, a loss that no completion avoids
(`partial`). Chang et al. estimate with the constraints as far as they can be judged on a prefix; f also looks ahead,
along the chain and in every row.

The bound: a labelling that the search does not meet begins with a prefix that was dropped, so it loses at least the
least f of the dropped prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.compiling.kernel import kernel
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.folding import on_folded
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.search.partial import Partial, chain_loss, expand, root_loss, start_partial
from concord.workers.inference.search.tree import Tree, add_node, move, new_tree
from concord.workers.inference.settings import BeamSettings


@on_folded
def solve(
    problem: Problem,
    *,
    config: BeamSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling that one pass over the document meets. Work is the number of expanded nodes.

    The least estimate of all prefixes that left the beam is a bound, so a beam that dropped nothing better proves its
    answer. If the budget leaves no more than one node a token, the beam narrows to one labelling; if not even that, the
    better of the Viterbi labelling and the incumbent comes back.
    """
    del rng
    search = Search(problem, budget=budget, incumbent=incumbent)
    if search.closed:
        return search.decoded(0.0)
    start = start_partial(search.problem, chain_loss(search.problem), top=search.top, limit=search.loss)
    if start is None:
        return search.decoded(search.loss)
    tree = new_tree(start, 1 + len(problem) * config.width)
    frontier = np.zeros(1, np.int64)
    dropped = np.inf
    for t in range(len(problem)):
        if search.remaining(1) == 0:
            return search.decoded(root_loss(start))
        width = 1 if _narrow(search, len(frontier) + len(problem) - t) else config.width
        frontier, lost = _step(start, tree, frontier, t, width, search.loss - ROUNDING)
        dropped = min(dropped, lost)
        search.work = int(tree.now["expanded"][0])
    # A leaf that breaks a hard row by a rounding of its sum is no answer; the next one may be.
    any(search.offer(labels) for labels in _leaves(start, tree, frontier))
    return search.decoded(max(root_loss(start), min(dropped, search.loss)))


def _narrow(search: Search, nodes: int) -> bool:
    """Is the time spent, or is the budget no larger than the ``nodes`` that one descent from here takes?"""
    seconds, work = search.budget
    return (seconds is not None and search.seconds >= seconds) or (work is not None and search.work + nodes >= work)


def _leaves(start: Partial, tree: Tree, frontier: Any) -> Iterator[Labels]:
    """The labellings of the leaves by rising loss. Each is valid only until the next one is asked for."""
    for place in np.argsort(tree.loss[frontier], kind="stable"):
        move(start, tree, int(frontier[place]))
        yield start.labels


@kernel
def _step(p: Partial, tree: Tree, frontier: Ints, t: int, width: int, limit: float) -> tuple[Ints, float]:
    """The children that stay in the beam, ordered by parent, and the least loss of the children that are dropped."""
    labels = p.unary.shape[1]
    losses = np.empty((len(frontier), labels))
    for i in range(len(frontier)):
        move(p, tree, frontier[i])
        expand(p, t, losses[i])
        tree.now[0].expanded += 1
    flat = losses.ravel()
    order = np.argsort(flat, kind="mergesort")
    kept = 0
    while kept < min(width, len(order)) and flat[order[kept]] < limit:
        kept += 1
    lost = flat[order[kept]] if kept < len(order) else np.inf
    # In the order of their parents, so that the cursor moves little.
    chosen = np.sort(order[:kept])
    following = np.empty(kept, np.int64)
    for i in range(kept):
        parent = chosen[i] // labels
        following[i] = add_node(tree, frontier[parent], chosen[i] % labels, flat[chosen[i]])
    return following, lost
