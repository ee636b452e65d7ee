"""Ray of a run that may need none: it starts where the first worker is needed. Importing this imports no Ray."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from concord.schemas.run_context import RunContext

if TYPE_CHECKING:
    from concord.flows.cluster.cluster import Cluster


class RayOnDemand:
    """Ray for the length of a block, which it may end earlier by an inner block of its own."""

    def __init__(self, context: RunContext) -> None:
        self._context, self._stack = context, ExitStack()
        self._running: Cluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = None
        self._stack.__exit__(kind, error, trace)

    def started(self) -> Cluster:
        """The cluster, which is started at the first call. Raises `ClusterError`."""
        if self._running is None:
            from concord.flows.cluster.cluster import cluster

            self._running = self._stack.enter_context(cluster(self._context.ray, workers=self._context.workers))
        return self._running
