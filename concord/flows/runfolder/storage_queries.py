"""Questions to a storage, many at once where its answers take a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.storage import Storage

T = TypeVar("T")
R = TypeVar("R")

REQUESTS_AT_ONCE = 32
"""Questions at once to an object store, or to a slow disk: each answer takes a while to come back."""

ASKED_FIRST = 64
"""Questions to a folder from which is known how long its disk takes."""

SLOW_ANSWER = 0.001
"""Seconds of an answer from which threads are worth their price: of a network disk, or of large files to hash."""

ASKED_AT_ONCE = 4096
"""Questions whose answers are in memory at once."""


def ask_all(storage: Storage, ask: Callable[[T], R], about: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Asks a storage about each of ``about``, and yields each with its answer, in order. Raises what ``ask`` raises.

    Several threads ask where that is sooner: answers of an object store take a while, and hashing leaves Python's lock.
    Small files of a local disk are asked for in turn.
    """
    rest = iter(about)
    if not isinstance(storage, ObjectStorage):
        first, started = list(islice(rest, ASKED_FIRST)), time.perf_counter()
        answers = list(map(ask, first))
        taken = time.perf_counter() - started
        yield from zip(first, answers, strict=True)
        if taken <= len(first) * SLOW_ANSWER:
            yield from ((one, ask(one)) for one in rest)
            return
    with ThreadPoolExecutor(max_workers=REQUESTS_AT_ONCE) as pool:
        while part := list(islice(rest, ASKED_AT_ONCE)):
            # All are there before one is given: whoever takes them would be in the threads' way.
            yield from zip(part, list(pool.map(ask, part)), strict=True)
