"""Check that Ray's nodes have room for the workers. Ray itself would let them wait for ever, silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from concord.flows.cluster.deaths import ClusterError
from concord.flows.screen.progress import say


def check_room(nodes: Sequence[Mapping[str, Any]], workers: int, memory: int) -> None:
    """Prints a notice if fewer ``workers`` fit than are asked for, of one CPU and ``memory`` bytes each.

    - ``nodes``: result of `ray.nodes`. All CPUs and memory count, even if others use them now: workers wait for these,
      and for nodes that a cluster starts on demand

    Raises `ClusterError` if there are nodes, but none has the memory.
    """
    rooms = [_room(node["Resources"]) for node in working(nodes)]
    largest = max((has for _, has in rooms), default=memory)
    if largest < memory:
        raise ClusterError(
            f"a worker needs {_shown(memory)} of memory with this model, and the largest of Ray's nodes has "
            f"{_shown(largest)} for its workers; end other programs there, add a larger node, or use a smaller model"
        )
    fit = sum(min(cpus, int(has) // memory) for cpus, has in rooms)
    if fit < workers:
        say(
            f"Ray's nodes have room for {fit} of {workers} workers, at a CPU and {_shown(memory)} of memory each; "
            "the run uses these, and more if nodes are added"
        )


def working(nodes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Nodes of `ray.nodes` that are alive and have a CPU for workers."""
    return [node for node in nodes if node["Alive"] and node["Resources"].get("CPU")]


def _room(resources: Mapping[str, float]) -> tuple[int, float]:
    return int(resources["CPU"]), resources.get("memory", 0.0)


def _shown(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"
