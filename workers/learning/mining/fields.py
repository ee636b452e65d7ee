"""What rules speak of: span types and, where types are paths of fields, the levels of them (`venue/*`).

A *view* looks at all types from one depth: types below it count as their level. At each depth a run belongs to one
field, so that what is counted of types is counted of a view's fields in the same way.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Ints, Mask
from concord.schemas.labels import LabelSet
from concord.workers.constraints.templates.template import BELOW, below, levels


class View(NamedTuple):
    """``of`` (T + 1,) is the place of each type in the view, ``field`` (size,) which field stands there.

    What is outside all spans comes last, after T types and after F fields.
    """

    of: Ints
    field: Ints

    @property
    def size(self) -> int:
        """Fields of the view, and what is outside."""
        return len(self.field)


class Fields(NamedTuple):
    """The names of F fields, T types first; ``types`` (F, T) of each; a view for every depth, that of types first."""

    names: tuple[str, ...]
    types: Mask
    views: tuple[View, ...]


@lru_cache(maxsize=64)
def fields_of(labels: LabelSet) -> Fields:
    """The fields of a label set."""
    names = (*labels.types, *levels(labels))
    types = np.eye(len(names), len(labels.types), dtype=np.bool_)
    for i in range(len(labels.types), len(names)):
        types[i, below(labels, names[i])] = True
    place = {name: i for i, name in enumerate(names)}
    deepest = max((kind.count("/") for kind in labels.types), default=0) + 1
    # Below the deepest level there are types alone.
    seen = [tuple(place[_at(kind, depth, place)] for kind in labels.types) for depth in range(deepest + 1, 0, -1)]
    return Fields(names, types, tuple(_view(fields, len(names)) for fields in dict.fromkeys(seen)))


def _at(kind: str, depth: int, known: Container[str]) -> str:
    """The field of a type at a depth: a level, where the type has such a level and it is not the type alone."""
    path = kind.split("/")
    level = "/".join(path[:depth]) + BELOW
    return level if len(path) >= depth and level in known else kind


def _view(fields: tuple[int, ...], outside: int) -> View:
    field, of = np.unique(np.array([*fields, outside]), return_inverse=True)
    return View(of.astype(np.int64), field)
