"""Ray that a run leaves to the next one: to start it and to end it takes six seconds. Importing this imports no Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Generic, TypeVar

from concord.schemas.errors import UsageError

R = TypeVar("R")

Asked = tuple[str | None, int | None]
"""Address and number of workers that a run asks for."""


class LeftRay(Generic[R]):
    """The Ray of the last run of a block."""

    def __init__(self) -> None:
        """None yet."""
        self._stack = ExitStack()
        self._left: tuple[Asked, R] | None = None
        self._busy = False

    @contextmanager
    def at_work(self, asked: Asked, start: Callable[[], AbstractContextManager[R]]) -> Iterator[R]:
        """The Ray that the last run has left, if it asked for the same, or one that ``start`` starts.

        After a run that an error has ended it is not used again: with it end actors that were at work. Raises
        `UsageError` while another run is at work on it, and what ``start`` raises.
        """
        if self._busy:
            raise UsageError("another run of this process is at work on Ray; wait for its end")
        self._busy = True
        try:
            yield self._of(asked, start)
        except BaseException:
            self.end()
            raise
        finally:
            self._busy = False

    def _of(self, asked: Asked, start: Callable[[], AbstractContextManager[R]]) -> R:
        if self._left is not None and self._left[0] == asked:
            return self._left[1]
        self.end()
        running = self._stack.enter_context(start())
        self._left = asked, running
        return running

    def end(self) -> None:
        """Ends the Ray that is left, if any."""
        self._left = None
        self._stack.close()


_blocks: list[LeftRay[Any]] = []


@contextmanager
def one_ray() -> Iterator[None]:
    """In the block a run leaves its Ray to the next one that asks for the same; the last one ends with the block.

    Runs of a block come one after another. Ray starts with the first run that needs it.
    """
    left = LeftRay[Any]()
    _blocks.append(left)
    try:
        yield
    finally:
        _blocks.remove(left)
        left.end()


def left_ray() -> LeftRay[Any] | None:
    """That of the block around this call; None outside of any."""
    return _blocks[-1] if _blocks else None
