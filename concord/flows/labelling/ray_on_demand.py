"""Workers of a run that may need none: they start where the first one is needed. Importing this imports no Ray."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from concord.flows.environment import ray_address
from concord.flows.work.in_process import InProcess, same_kernels
from concord.schemas.run_context import RunContext

if TYPE_CHECKING:
    from concord.flows.work.done import Workers

IN_PROCESS = 500
"""Most documents that a run does by itself where neither a cluster nor a number of workers is named: Ray's start takes
as long.
"""


class RayOnDemand:
    """Workers for the length of a block, which it may end earlier by an inner block of its own."""

    def __init__(self, context: RunContext) -> None:
        self._context, self._stack = context, ExitStack()
        self._running: Workers | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = None
        self._stack.__exit__(kind, error, trace)

    def started(self, documents: int | None = None) -> Workers:
        """The workers, which are started at the first call: this process for few ``documents``, otherwise Ray.

        Raises `ClusterError`.
        """
        if self._running is None and documents is not None and self._needs_none(documents):
            return InProcess()
        if self._running is None:
            from concord.flows.cluster.cluster import cluster

            self._running = self._stack.enter_context(cluster(self._context.ray, workers=self._context.workers))
        return self._running

    def _needs_none(self, documents: int) -> bool:
        if self._context.workers is not None:
            return self._context.workers == 0
        named = self._context.ray is not None or ray_address(None) is not None
        return documents <= IN_PROCESS and not named and same_kernels()
