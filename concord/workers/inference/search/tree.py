"""A tree of partial labellings in flat arrays, and a cursor that moves between its nodes.

A node keeps only its label, parent, depth and loss. The costs of rows and spans are kept once, at the cursor. A move to
another node takes labels back up to the common ancestor, then decides those below it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Records, record_type
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.inference.search.partial import Partial, pop, push

TREE_NOW = record_type(("used", "i8"), ("cursor", "i8"), ("expanded", "i8"))
"""Fields of ``now`` of a `Tree`."""


class Tree(NamedTuple):
    """The nodes of a tree; node 0 is the root, where nothing is decided.

    - ``parent``, ``label``: each node's parent, and the label that it decides.
    - ``depth``: the number of decided tokens.
    - ``loss``: the estimate of its loss, in nats.
    - ``path`` (N,): scratch.
    - ``now`` (1,): nodes ``used``, the ``cursor``'s node, nodes ``expanded``.
    """

    parent: NDArray[np.int64]
    label: Labels
    depth: NDArray[np.int64]
    loss: Floats
    path: NDArray[np.int64]
    now: Records


def new_tree(partial: Partial, size: int) -> Tree:
    """A tree of the root alone, in arrays for ``size`` nodes."""
    return Tree(
        np.zeros(size, np.int64),
        np.zeros(size, np.int32),
        np.zeros(size, np.int64),
        np.zeros(size),
        np.zeros(len(partial.labels), np.int64),
        np.array([(1, 0, 0)], TREE_NOW),
    )


def grown(tree: Tree) -> Tree:
    """The same tree in arrays of twice the size."""
    return Tree(
        np.concatenate([tree.parent, np.zeros_like(tree.parent)]),
        np.concatenate([tree.label, np.zeros_like(tree.label)]),
        np.concatenate([tree.depth, np.zeros_like(tree.depth)]),
        np.concatenate([tree.loss, np.zeros_like(tree.loss)]),
        tree.path,
        tree.now,
    )


@inner_in_place
def add_node(tree: Tree, parent: int, label: int, loss: float) -> int:
    """Appends a child of ``parent``; returns its id."""
    node = tree.now[0].used
    tree.parent[node], tree.label[node], tree.loss[node] = parent, label, loss
    tree.depth[node] = tree.depth[parent] + 1
    tree.now[0].used = node + 1
    return int(node)


@kernel_in_place
def move(p: Partial, tree: Tree, node: int) -> None:
    """Moves the cursor, and the partial labelling with it, to a node."""
    at, goal = tree.now[0].cursor, node
    steps = 0
    while at != goal:
        if tree.depth[goal] > tree.depth[at]:
            tree.path[steps] = goal
            steps += 1
            goal = tree.parent[goal]
            continue
        pop(p, tree.depth[at] - 1)
        at = tree.parent[at]
    for i in range(steps - 1, -1, -1):
        push(p, tree.depth[tree.path[i]] - 1, tree.label[tree.path[i]])
    tree.now[0].cursor = node
