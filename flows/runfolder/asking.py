"""Questions to a storage, many at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.storage import Storage

T = TypeVar("T")
R = TypeVar("R")

REQUESTS_AT_ONCE = 32
"""Requests to an object store at once: each takes a while to come back."""

ASKED_IN_TURN = 64
"""Questions about files of a folder that a thread asks one after the other: a thread costs more than a small file."""

ASKED_AT_ONCE = 4096
"""Questions whose answers are in memory at once."""


def asked(storage: Storage, ask: Callable[[T], R], about: Iterable[T]) -> Iterator[tuple[T, R]]:
    """What a storage answers to questions, each with its answer, in their order; asked by several threads at once.

    Hashing leaves Python's lock; an object store answers many requests at once. Raises what ``ask`` raises.
    """
    remote = isinstance(storage, ObjectStorage)
    each, threads = (1, REQUESTS_AT_ONCE) if remote else (ASKED_IN_TURN, os.cpu_count())
    rest = iter(about)
    with ThreadPoolExecutor(max_workers=threads) as pool:
        while part := list(islice(rest, ASKED_AT_ONCE)):
            groups = [part[start : start + each] for start in range(0, len(part), each)]
            # All are there before one is given: whoever takes them would be in the threads' way.
            answers = list(chain.from_iterable(pool.map(lambda group: list(map(ask, group)), groups)))
            yield from zip(part, answers, strict=True)
