"""Warm-ups of nodes: one process on each compiles kernels first, since numba's caches race when many start cold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray

from concord.flows.cluster.deaths import ClusterError
from concord.flows.cluster.room import working
from concord.flows.screen.progress import CompilingLines, say
from concord.flows.work.done import reason

DEATHS = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
"""Ends of a warm-up with its process."""

LOSSES = (ray.exceptions.NodeDiedError, ray.exceptions.TaskUnschedulableError)
"""Ends of a warm-up with its node."""


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

    def look(self) -> None:
        """Begins the warm-ups of nodes that are new, while their actors start."""
        if self.begin is None:
            return
        nodes = working(ray.nodes())  # type: ignore[no-untyped-call]
        for node in nodes:
            name = node["NodeID"]
            if name not in self.nodes:
                self.nodes.add(name)
                tell = CompilingLines(f" on {node['NodeManagerHostname']}" if len(nodes) > 1 else "")
                self.calls[self.begin(name)] = name, tell

    def lasts(self, node: str) -> bool:
        """Has the warm-up of this node not ended, or not begun?"""
        if self.begin is None:
            return False
        return node not in self.nodes or any(node == place for place, _ in self.calls.values())

    def hear(self, call: Any) -> None:
        """Takes notice of a message of a warm-up, or of its end.

        The death of its process is no failure: the shard with its document is worked on later. Raises `ClusterError` if
        the warm-up fails in another way.
        """
        _, tell = self.calls[call]
        try:
            tell(ray.get(next(call)))
            return
        except (StopIteration, *LOSSES):
            pass
        except DEATHS:
            self.insist()
            say("a process died in the warm-up; the workers start without it")
        except ray.exceptions.RayError as error:
            raise ClusterError(reason(error)) from error
        del self.calls[call]
