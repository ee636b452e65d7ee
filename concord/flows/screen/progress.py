"""Output for people: tables, lines, and progress of long work (a bar on a terminal or in a notebook, or else lines)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

from concord.flows.screen.in_place import InPlace, InPlaceBar
from concord.schemas.visible import visible
from concord.workers.compiling.told import LISTENERS, Compiling, listening

LINE_SECONDS = 10.0
"""Seconds between lines of progress without a terminal, such as in the log of a scheduled run."""

SILENT_SECONDS = 4.0
"""Seconds that pass before a wait is explained: a process starts in less."""

COMPILING = "compiling kernels, once a machine and version"


class Terminal(Console):
    """The console of all tables and lines. Text in it neither steers the terminal nor counts as markup.

    Texts, words, labels and ids come from corpora, models and files that somebody else may have written.
    """

    def __init__(self, *, stderr: bool = False, markup: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=markup, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """See `rich.console.Console`."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """See `rich.console.Console`; the cells of a table pass through here, too."""
        if isinstance(renderable, Text):
            shown = renderable.copy()
            shown.plain = visible(renderable.plain)
            renderable = shown
        yield from super().render(renderable, options)


console = Terminal(stderr=True)


class Follower(Protocol):
    """Receiver of notices and progress, such as Prefect's page of the run."""

    def said(self, message: str) -> None:
        """A notice in one line."""
        ...

    def advanced(self, title: str, done: int, total: int | None, note: str) -> None:
        """A count has reached ``done``; see `Meter`."""
        ...

    def left(self, report: object) -> None:
        """A signal ends the run before its end; the report of what it has done."""
        ...


FOLLOWERS: list[Follower] = []
"""Followers in this process. Only the last one, that of the innermost flow, is told."""


@contextmanager
def followed(follower: Follower) -> Iterator[None]:
    """Adds a follower for the length of the block."""
    FOLLOWERS.append(follower)
    try:
        yield
    finally:
        FOLLOWERS.remove(follower)


def tell_left(report: object) -> None:
    """Tells the last follower what a run has done that a signal ends."""
    for follower in FOLLOWERS[-1:]:
        follower.left(report)


class Meter:
    """A count that goes up to ``total`` (None: not known)."""

    def __init__(self, title: str, total: int | None, progress: Progress | None) -> None:
        self._title, self._total, self._progress = title, total, progress
        self._task = None if progress is None else progress.add_task(title, total=total, note="")
        self._place = InPlaceBar() if console.is_jupyter else None
        self._note = ""
        self._done, self._said = 0, time.monotonic()

    def expect(self, total: int) -> None:
        """Sets the total, once it is known."""
        self._total = total
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=total)

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """Adds ``steps`` to the count; ``note``: text beside it, such as a speed."""
        self._done += steps
        for follower in FOLLOWERS[-1:]:
            follower.advanced(self._title, self._done, self._total, note)
        if self._progress is not None and self._task is not None:
            # Training holds the interpreter, so the bar is drawn here and not by its own thread.
            self._progress.update(self._task, advance=steps, note=note, refresh=True)
            return
        self._note = note
        if self._place is not None:
            self._place.draw(self._line, self._done, self._total)
        elif self._done == self._total or time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            sys.stderr.write(visible(self._line) + "\n")
            sys.stderr.flush()

    def end(self) -> None:
        """Leaves a notebook's bar as a line, with what was done."""
        if self._place is not None:
            self._place.draw(self._line, self._done, self._total, last=True)

    @property
    def _line(self) -> str:
        goal = "" if self._total is None else f" of {self._total}"
        return f"{self._title}: {self._done}{goal} {self._note}".rstrip()


@contextmanager
def meter(title: str, total: int | None) -> Iterator[Meter]:
    """Shows progress for the length of the block."""
    if not console.is_terminal:
        plain = Meter(title, total, None)
        try:
            yield plain
        finally:
            plain.end()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Meter(title, total, progress)


def say(message: str, *, style: str | None = None) -> None:
    """Prints progress or a notice in one line, on standard error; results go to `show`."""
    console.print(message, soft_wrap=True, style=style)
    _tell_follower(message)


def _tell_follower(message: str) -> None:
    for follower in FOLLOWERS[-1:]:
        follower.said(message)


def show(*results: RenderableType, style: str | None = None) -> None:
    """Prints results on standard output: tables, and lines, which are not wrapped."""
    for result in results:
        # Asked anew each time: what stands for standard output may change.
        Terminal().print(result, soft_wrap=isinstance(result, str | Text), style=style)


@contextmanager
def explained(message: str, *, after: float = SILENT_SECONDS) -> Iterator[None]:
    """Prints ``message`` if the block takes longer than ``after`` seconds."""
    timer = threading.Timer(after, say, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class CompilingLines:
    """Prints the kernels that are being compiled, first after `SILENT_SECONDS`, then every `LINE_SECONDS`.

    - ``where``: place of the compiler, which ends the line.
    """

    def __init__(self, where: str = "") -> None:
        self._where = where
        self._said = -LINE_SECONDS
        self._place = InPlace() if console.is_jupyter else None

    def __call__(self, now: Compiling) -> None:
        """Takes notice of a kernel."""
        if now.seconds >= SILENT_SECONDS and now.seconds - self._said >= LINE_SECONDS:
            self._said = now.seconds
            line = f"{COMPILING}{self._where}: {now.done} done in {now.seconds:.0f} s, now {now.kernel}"
            if self._place is None:
                say(line)
            else:
                self._place.show(line)
                _tell_follower(line)


@contextmanager
def compiling_told() -> Iterator[None]:
    """Prints the kernels that this process compiles in the block, unless an outer block does so already."""
    if LISTENERS:
        yield
        return
    with listening(CompilingLines()):
        yield
