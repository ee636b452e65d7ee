"""Buckets in this process, for tests that are not about the wire: obstore's `MemoryStore` in the place of a server.

Writes on condition, tags and lists are a server's, which `tests/test_object_output.py` compares. No other process sees
what they hold, not even one that is forked from this one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit

import obstore
from obstore.store import MemoryStore

from concord.workers.storage import object_storage
from concord.workers.storage.object_storage import ObjectStorage

_numbers = itertools.count()


class _Prefix(NamedTuple):
    """The client of a prefix; a `MemoryStore` has none of its own."""

    store: MemoryStore
    prefix: str

    def path_of(self, given: Any) -> Any:
        """Paths from the bucket on, for those from the prefix on; data are as they are."""
        if isinstance(given, str):
            return self.prefix + given
        return list(map(self.path_of, given)) if isinstance(given, list) else given


@contextmanager
def memory_store() -> Iterator[Callable[[str], str]]:
    """Keeps an empty bucket for the length of the block; gives what makes URIs of its prefixes."""
    bucket, store, server_client = f"in-memory-{next(_numbers)}", MemoryStore(), object_storage._client

    def client(uri: str) -> Any:
        parts = urlsplit(uri)
        return _Prefix(store, f"{parts.path.strip('/')}/") if parts.netloc == bucket else server_client(uri)

    with ExitStack() as stack:
        stack.enter_context(patch.object(object_storage, "_client", client))
        for name in ("get", "put", "copy", "delete", "open_reader"):
            stack.enter_context(patch.object(obstore, name, _below_prefix(getattr(obstore, name))))
        stack.enter_context(patch.object(obstore, "list", _listed_below(obstore.list)))
        yield lambda prefix: f"s3://{bucket}/{prefix}"


def _below_prefix(request: Callable[..., Any]) -> Callable[..., Any]:
    def requested(client: Any, *given: Any, **options: Any) -> Any:
        if not isinstance(client, _Prefix):
            return request(client, *given, **options)
        return request(client.store, *map(client.path_of, given), **options)

    return requested


def _listed_below(listing: Callable[..., Any]) -> Callable[..., Any]:
    def listed(client: Any, folder: str, *, offset: str | None = None) -> Iterator[Sequence[Any]]:
        if not isinstance(client, _Prefix):
            return iter(listing(client, folder, offset=offset))
        parts = listing(client.store, client.path_of(folder), offset=client.path_of(offset))
        return ([{**entry, "path": entry["path"].removeprefix(client.prefix)} for entry in part] for part in parts)

    return listed


def objects_below(uri: str) -> dict[str, bytes]:
    """All objects below a prefix, by name."""
    storage = ObjectStorage(uri)
    return {entry["path"]: storage.read(entry["path"]) or b"" for entry in storage._listed("")}


def copy_objects(uri: str, other: str) -> None:
    """Copies all objects below a prefix to another one, the oldest first."""
    source, target = ObjectStorage(uri), ObjectStorage(other)
    for entry in sorted(source._listed(""), key=lambda entry: entry["last_modified"]):
        target.write(entry["path"], source.read(entry["path"]) or b"")
