"""Digests of the running code, worked out once for the same sources and kept beside the kernels made from them."""

from __future__ import annotations

import hashlib
from functools import cache, partial

from concord.workers.compiling.code import (
    LABELLING_CODE,
    LIBRARIES,
    WORKERS,
    digest_of_code,
    digest_of_libraries,
    registered_code,
)
from concord.workers.compiling.kernel_folder import kept_for_sources
from concord.workers.parts import LABELLING_PARTS, Group


def code_digest() -> str:
    """Hex digest of all code that can change an answer."""
    return kept_digest(LABELLING_CODE, LABELLING_PARTS)


def workers_digest() -> str:
    """Hex digest of all code that a worker may run, which must be the driver's; parts of any other package with it."""
    return kept_digest((*LABELLING_CODE, *WORKERS), tuple(Group))


@cache
def kept_digest(modules: tuple[str, ...], groups: tuple[Group, ...]) -> str:
    """`digest_of_code` of modules that are among the sources of kernels."""
    digests = [*modules, *groups, *registered_code(groups), digest_of_libraries(LIBRARIES)]
    name = hashlib.sha256("\0".join(digests).encode()).hexdigest()
    return kept_for_sources(name, partial(digest_of_code, modules, groups))
