"""What is left of a sweep file without the entries that have mistakes, so that one mistake hides no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from concord.workers.storage.lined_yaml import Location

AXIS_OF = {
    "corpora": "corpus",
    "models": "model",
    "constraints": "constraints",
    "penalties": "penalty",
    "engines": "engine",
}
"""Axis of the entries of each section."""


class SoundContent:
    """Content of a sweep file, from which entries are dropped.

    - ``has_cells``: is it still known which cells there are? Not without what the file says under ``cross``.
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = {key: dict(part) if isinstance(part, dict) else part for key, part in content.items()}
        self.has_cells = True
        self._dropped: dict[str, set[str]] = {axis: set() for axis in AXIS_OF.values()}

    def drop(self, places: Iterable[Location]) -> bool:
        """Drops the entries around some places, and what names them. False where too little is left to look at."""
        before = len(str(self.content))
        for place in places:
            self._drop(place)
        self._forget_names()
        empty = any(self.content.get(section) in ({}, []) for section in (*AXIS_OF, "cross"))
        return not empty and len(str(self.content)) < before

    def _drop(self, place: Location) -> None:
        section, name = place[0] if place else "", place[1] if len(place) > 1 else None
        entries = self.content.get(str(section))
        if section in AXIS_OF and isinstance(entries, dict) and name is not None:
            entries.pop(str(name), None)
            self._dropped[AXIS_OF[str(section)]].add(str(name))
            return
        self.has_cells = self.has_cells and section != "cross"
        self.content.pop(str(section), None)

    def _forget_names(self) -> None:
        """Takes entries that were dropped out of what names them."""
        crossings = self.content.get("cross")
        if isinstance(crossings, list):
            sound_crossings = [self._without_names(one) if isinstance(one, dict) else one for one in crossings]
            self.content["cross"] = [one for one in sound_crossings if one is not None]
        choice = self.content.get("select")
        baseline = choice.get("baseline") if isinstance(choice, dict) else None
        named = baseline.items() if isinstance(baseline, dict) else ()
        if self._dropped["corpus"] or any(name in self._dropped.get(axis, ()) for axis, name in named):
            self.content.pop("select", None)
            self.content.pop("search", None)  # some ways to search want a choice

    def _without_names(self, crossing: Mapping[str, Any]) -> dict[str, Any] | None:
        """A crossing without the entries that were dropped; None where it has none left on an axis."""
        sound = dict(crossing)
        for axis, names in self._dropped.items():
            if isinstance(sound.get(axis), list):
                sound[axis] = [name for name in sound[axis] if name not in names]
                if not sound[axis] and crossing[axis]:
                    return None
        return sound
