"""Nodes that go away while their actors work: preempted, drained, killed or out of reach. No document is to blame."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import ray

from concord.flows.cluster.deaths import ClusterError
from concord.flows.cluster.ray_watch import Door
from concord.flows.screen.progress import say

LOST_NODES = 8
"""Number of nodes lost in a row, beyond those that there were at once and without any result, after which a run gives
up."""

SETTLE_SECONDS = 1.0
"""Time in which a node may go after its actors: whoever ends it may end them first."""

NODE_DIED = re.compile(r"its node has died\. Node Id: (\w+)")
"""What Ray says of an actor once it knows that its node is gone, preempted and drained nodes included."""


def lost_node(error: Exception, node: str | None, lost: Collection[str]) -> str | None:
    """Id of the node that an actor has ended with; None if the node is there.

    Ray itself takes half a minute to miss a node that goes without a word, and tells of its actors sooner. So this asks
    the node.

    - ``error``: Ray's word for the actor's end.
    - ``node``: id of the node where the actor was, if that is known.
    - ``lost``: ids of nodes that are known to be lost; a knock at a host that is gone takes seconds.
    """
    named = NODE_DIED.search(str(error))
    if named is not None:
        return named[1]
    if node is None or node == ray.get_runtime_context().get_node_id():
        return None
    if node in lost:
        return node
    deadline = time.monotonic() + SETTLE_SECONDS
    while _answers(node):
        if time.monotonic() >= deadline:
            return None
        time.sleep(SETTLE_SECONDS / 5)
    return node


def _answers(node: str) -> bool:
    entries: Any = ray.nodes()  # type: ignore[no-untyped-call]
    return any(
        Door("node", (entry["NodeManagerAddress"], entry["NodeManagerPort"]), knocks=1).knock()
        for entry in entries
        if entry["NodeID"] == node and entry["Alive"]
    )


@dataclass
class LostNodes:
    """The nodes that a pool has lost.

    - ``most``: largest number of nodes that it had at once.
    - ``nodes``: ids of those lost.
    - ``in_a_row``: number of those lost since the last result.
    """

    most: int = 0
    nodes: set[str] = field(default_factory=set)
    in_a_row: int = 0

    def add(self, node: str) -> None:
        """Notes the loss of a node, of which each actor tells. Raises `ClusterError` if the losses have no end."""
        if node in self.nodes:
            return
        self.nodes.add(node)
        self.in_a_row += 1
        if self.in_a_row >= self.most + LOST_NODES:
            raise ClusterError(
                f"{self.in_a_row} nodes were lost one after another without any result; see why they go (Ray's logs, "
                "the events of their pods), and give them more memory if that ends them"
            )
        say(f"the node {node[:12]} was lost; what it had at work is done again, elsewhere")
