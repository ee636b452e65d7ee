"""Grids of a sweep file: an entry with several values of an option becomes an entry for each combination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TypeVar

from concord.schemas.sweep import Crossing, SweepFile, SweptEngine, SweptModel, SweptPenalty

Entry = TypeVar("Entry", SweptModel, SweptPenalty, SweptEngine)


def spread(file: SweepFile) -> tuple[SweepFile, Mapping[str, str]]:
    """A file without grids, and the name of the entry that each new one comes from.

    A crossing that names an entry with a grid takes all that it became, unless its lists are taken side by side.
    """
    models = {name: _combinations(name, entry) for name, entry in file.models.items()}
    engines = {
        name: _combinations(name, entry if entry.engine else entry.model_copy(update={"engine": name}))
        for name, entry in file.engines.items()
    }
    penalties = {
        name: _combinations(name, entry if entry.penalty else entry.model_copy(update={"penalty": name}))
        for name, entry in file.penalties.items()
    }
    became = {
        "model": {name: list(combinations) for name, combinations in models.items()},
        "penalty": {name: list(combinations) for name, combinations in penalties.items()},
        "engine": {name: list(combinations) for name, combinations in engines.items()},
    }
    update = {
        "models": {name: entry for some in models.values() for name, entry in some.items()},
        "penalties": {name: entry for some in penalties.values() for name, entry in some.items()},
        "engines": {name: entry for some in engines.values() for name, entry in some.items()},
        "cross": tuple(_crossing(crossing, became) for crossing in file.cross),
    }
    origins = {name: source for every in became.values() for source, names in every.items() for name in names}
    return file.model_copy(update=update), origins


def _combinations(name: str, entry: Entry) -> dict[str, Entry]:
    if not entry.grid:
        return {name: entry}
    every = {}
    for values in product(*entry.grid.values()):
        point = dict(zip(entry.grid, values, strict=True))
        options_text = ", ".join(f"{option}={value}".replace("/", "|") for option, value in point.items())
        every[f"{name} {options_text}"] = entry.model_copy(update={"options": {**entry.options, **point}, "grid": {}})
    return every


def _crossing(crossing: Crossing, became: Mapping[str, Mapping[str, Sequence[str]]]) -> Crossing:
    if crossing.zip:
        return crossing
    update: dict[str, Sequence[str] | None] = {}
    for axis, entries in became.items():
        names = getattr(crossing, axis)
        if names is not None:
            update[axis] = tuple(name for source in names for name in entries.get(source, [source]))
    return crossing.model_copy(update=update)
