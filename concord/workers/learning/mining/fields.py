"""Fields, the terms of rules: span types and, where types are paths such as `venue/city`, their levels (`venue/*`).

A *view* shows all types at one depth: types below that depth count as their level. In each view a run belongs to one
field only, so that fields of a view are counted in the same way as types.
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
    """The types as seen at one depth; outside all spans is the last type, T, and the last field, F.

    - ``of`` (T + 1,): place of each type in the view.
    - ``field`` (size,): field at each place of the view.
    """

    of: Ints
    field: Ints

    @property
    def size(self) -> int:
        """The number of fields in the view, with outside as one."""
        return len(self.field)


class Fields(NamedTuple):
    """The F fields of a label set with T types.

    - ``names``: their names, types first.
    - ``types`` (F, T): does the field contain the type?
    - ``views``: one for each depth, that of single types first.
    """

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
    views = [tuple(place[_at(kind, depth, place)] for kind in labels.types) for depth in range(deepest + 1, 0, -1)]
    return Fields(names, types, tuple(_view(fields, len(names)) for fields in dict.fromkeys(views)))


def _at(kind: str, depth: int, fields: Container[str]) -> str:
    """The field of a type at a depth: its level there if that is a known field, otherwise the type itself."""
    path = kind.split("/")
    level = "/".join(path[:depth]) + BELOW
    return level if len(path) >= depth and level in fields else kind


def _view(fields: tuple[int, ...], outside: int) -> View:
    field, of = np.unique(np.array([*fields, outside]), return_inverse=True)
    return View(of.astype(np.int64), field)
