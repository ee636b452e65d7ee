"""A place in a notebook's output that is written again and again, such as a bar of progress. No widgets are needed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape
from importlib import import_module
from typing import Any

from concord.schemas.visible import visible

REDRAW_SECONDS = 0.2
"""Shortest time between two drawings of a bar."""


class InPlace:
    """One place in the output of the cell that runs; it is there from the first text on."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str, *, above: str = "") -> None:
        """Puts a line of text into the place; ``above`` is HTML before it."""
        shown = visible(text)
        self._put({"text/plain": shown, "text/html": f"<div>{above}{escape(shown)}</div>"})

    def _put(self, content: Mapping[str, str]) -> None:
        if self._handle is None:
            # IPython is there, since its kernel runs this; concord does not need it otherwise.
            self._handle = import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


class InPlaceBar:
    """A bar of progress in a notebook, drawn at most every `REDRAW_SECONDS`."""

    def __init__(self) -> None:
        self._place = InPlace()
        self._drawn = -REDRAW_SECONDS

    def draw(self, text: str, done: int, total: int | None, *, last: bool = False) -> None:
        """Draws the bar with a text beside it; ``total`` None: not known. The ``last`` drawing is of the text alone."""
        now = time.monotonic()
        if not last and now - self._drawn < REDRAW_SECONDS:
            return
        self._drawn = now
        far = "" if total is None else f' value="{done}" max="{max(total, 1)}"'
        self._place.show(text, above="" if last else f"<progress{far}></progress> ")
