"""Warm-ups of nodes: one process on each compiles kernels first, since numba's caches race when many start cold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray

from concord.flows.cluster.deaths import ClusterError
from concord.flows.screen.progress import CompilingLines, say
from concord.flows.work.done import reason

ENDS = (
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.OutOfMemoryError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.TaskUnschedulableError,
)
"""Ends of a warm-up with its process or its node."""


@dataclass
class Warming:
    """Warm-ups of a task's nodes, each of which is begun once.

    - ``begin``: begins the warm-up of the node with this id, and returns the call; None if the task has no kernels.
    - ``insist``: raises if Ray has died.
    - ``nodes``: ids of the nodes whose warm-up has begun.
    - ``calls``: warm-ups that have not ended: id of the node, and printer of what is compiled.
    """

    begin: Callable[[str], Any] | None
    insist: Callable[[], None]
    nodes: set[str] = field(default_factory=set)
    calls: dict[Any, tuple[str, CompilingLines]] = field(default_factory=dict)

    def start(self, node: str, where: str) -> None:
        """Begins the warm-up of a node, unless that has been done; ``where`` names the node for people."""
        if self.begin is not None and node not in self.nodes:
            self.nodes.add(node)
            self.calls[self.begin(node)] = node, CompilingLines(where)

    def lasts(self, node: str) -> bool:
        """Has the warm-up of this node not ended?"""
        return any(node == place for place, _ in self.calls.values())

    def hear(self, call: Any) -> None:
        """Takes notice of a message of a warm-up, or of its end.

        The death of its process is no failure: the shard with its document is worked on later. Raises `ClusterError` if
        the warm-up fails in another way.
        """
        _, tell = self.calls[call]
        try:
            tell(ray.get(next(call)))
            return
        except StopIteration:
            pass
        except ENDS:
            self.insist()
            say("a process died in the warm-up; the workers start without it")
        except ray.exceptions.RayError as error:
            raise ClusterError(reason(error)) from error
        del self.calls[call]
