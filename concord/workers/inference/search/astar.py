"""A* over labels from left to right: Chang et al. (2008) §3.2.

A node is a prefix of a labelling. The queue is ordered by f, a loss that no completion of the prefix avoids
(`partial`): it counts the chain's best completion, the least degree that every linear row can still reach, and the cost
of closed spans. f is admissible because no penalty is negative, and a child's f is taken as no less than its parent's.

Invariant: each labelling that is better than the incumbent has a prefix in the queue. So the least f in the queue
bounds the loss of all of them, and the first complete labelling that is taken from the queue is optimal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.compiling.kernel import inner_in_place, kernel, kernel_in_place
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.folding import on_folded
from concord.workers.inference.core.incumbent import Search, limited
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.search.partial import (
    Partial,
    chain_loss,
    complete_loss,
    expand,
    nodes_a_look,
    root_loss,
    start_partial,
)
from concord.workers.inference.search.tree import Tree, add_node, grown, move, new_tree
from concord.workers.inference.settings import AstarSettings

FIRST_SIZE = 1 << 12

EMPTY, LEAF_FOUND, FULL, PAUSED = range(4)
"""Reasons why a run of the kernel ended."""


class Queue(NamedTuple):
    """A binary heap of node ids, least loss first, then deepest, then oldest; ``size`` is (1,)."""

    heap: NDArray[np.int64]
    size: NDArray[np.int64]


@on_folded
def solve(
    problem: Problem,
    *,
    config: AstarSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling, proven if the search ends in time; the bound is the least estimate still in the queue.

    Work is the number of expanded nodes. A queue of more than ``config.nodes`` nodes ends the search like a spent
    budget.
    """
    del rng
    search = Search(problem, budget=limited(budget, config.work), incumbent=incumbent)
    if search.closed:
        return search.decoded(0.0)
    start = start_partial(search.problem, chain_loss(search.problem), top=search.top, limit=search.loss)
    if start is None:
        return search.decoded(search.loss)
    tree, queue = _first(start)
    look = nodes_a_look(start)
    while not search.spent:
        before = int(tree.now["expanded"][0])
        ended = _advance(start, tree, queue, search.loss - ROUNDING, search.remaining(look))
        search.work += int(tree.now["expanded"][0]) - before
        if ended == LEAF_FOUND:
            if search.offer(start.labels):
                return search.decoded(min(complete_loss(start), search.loss))
            # It breaks a hard row by a rounding of its sum, and so is no answer.
            _take(tree, queue)
        if ended == EMPTY:
            return search.decoded(search.loss)
        if ended == FULL:
            if len(tree.label) >= config.nodes:
                break
            tree, queue = grown(tree), Queue(np.concatenate([queue.heap, np.zeros_like(queue.heap)]), queue.size)
    least = float(tree.loss[queue.heap[0]]) if queue.size[0] else search.loss
    return search.decoded(min(search.loss, max(least, root_loss(start))), cut_short=True)


def _first(start: Partial) -> tuple[Tree, Queue]:
    tree = new_tree(start, max(FIRST_SIZE, 2 * start.unary.shape[1]))
    return tree, Queue(np.zeros(len(tree.label), np.int64), np.ones(1, np.int64))


@kernel
def _advance(p: Partial, tree: Tree, queue: Queue, limit: float, nodes: int) -> int:
    """Expands up to ``nodes`` nodes of a loss below ``limit``; returns why it ended. At a leaf, the cursor is there."""
    count, width = p.unary.shape
    losses = np.empty(width)
    stop = tree.now[0].expanded + nodes
    while queue.size[0] > 0:
        node = queue.heap[0]
        if tree.depth[node] == count:
            move(p, tree, node)
            return LEAF_FOUND
        if tree.now[0].used + width > len(tree.label):
            return FULL
        if tree.now[0].expanded >= stop:
            return PAUSED
        _take(tree, queue)
        move(p, tree, node)
        expand(p, tree.depth[node], losses)
        tree.now[0].expanded += 1
        for b in range(width):
            if losses[b] < limit:
                _put(tree, queue, add_node(tree, node, b, max(losses[b], tree.loss[node])))
    return EMPTY


@inner_in_place
def _sooner(tree: Tree, one: int, other: int) -> bool:
    if tree.loss[one] != tree.loss[other]:
        return bool(tree.loss[one] < tree.loss[other])
    if tree.depth[one] != tree.depth[other]:
        return bool(tree.depth[one] > tree.depth[other])
    return one < other


@inner_in_place
def _put(tree: Tree, queue: Queue, node: int) -> None:
    at = queue.size[0]
    queue.size[0] = at + 1
    while at > 0 and _sooner(tree, node, queue.heap[(at - 1) // 2]):
        queue.heap[at] = queue.heap[(at - 1) // 2]
        at = (at - 1) // 2
    queue.heap[at] = node


@kernel_in_place
def _take(tree: Tree, queue: Queue) -> None:
    """Removes the first node from the queue."""
    size = queue.size[0] - 1
    queue.size[0] = size
    node = queue.heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _sooner(tree, queue.heap[child + 1], queue.heap[child]):
            child += 1
        if not _sooner(tree, queue.heap[child], node):
            break
        queue.heap[at] = queue.heap[child]
        at = child
    queue.heap[at] = node
