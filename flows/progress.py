"""What people see: tables, lines, and progress of long work, a bar on a terminal and a line now and then elsewhere."""

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

from concord.schemas.visible import visible
from concord.workers.compiling.told import LISTENERS, Compiling, listening

LINE_SECONDS = 10.0
"""Without a terminal (a scheduled run's log) a line every so many seconds."""

SILENT_SECONDS = 4.0
"""Seconds that pass in silence: a process starts in less."""

COMPILING = "compiling kernels, once a machine and version"


class Terminal(Console):
    """The one console of all tables and lines: what it is given neither steers the terminal nor is markup.

    Texts, words, labels and ids come from corpora, models and files that somebody else may have written.
    """

    def __init__(self, *, stderr: bool = False, markup: bool = False, **options: Any) -> None:
        super().__init__(stderr=stderr, markup=markup, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """See `rich.console.Console`."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """See `rich.console.Console`; also what a table has in its cells comes by here."""
        if isinstance(renderable, Text):
            shown = renderable.copy()
            shown.plain = visible(renderable.plain)
            renderable = shown
        yield from super().render(renderable, options)


console = Terminal(stderr=True)


class Follower(Protocol):
    """Whoever is told of what people see, such as Prefect's page of the run."""

    def said(self, message: str) -> None:
        """A notice in one line."""
        ...

    def advanced(self, title: str, done: int, total: int | None, note: str) -> None:
        """A count went up to ``done``; see `Meter`."""
        ...


FOLLOWERS: list[Follower] = []
"""Who is told in this process: the last one alone, which is the innermost of flows."""


@contextmanager
def followed(follower: Follower) -> Iterator[None]:
    """Tells ``follower``, too, for the length of the block."""
    FOLLOWERS.append(follower)
    try:
        yield
    finally:
        FOLLOWERS.remove(follower)


class Meter:
    """A count that goes up to ``total`` (None: not known); ``note`` says how it is going."""

    def __init__(self, title: str, total: int | None, progress: Progress | None) -> None:
        self._title, self._total, self._progress = title, total, progress
        self._task = None if progress is None else progress.add_task(title, total=total, note="")
        self._done, self._said = 0, time.monotonic()

    def expect(self, total: int) -> None:
        """The count goes up to so many, as is known now."""
        self._total = total
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=total)

    def advance(self, steps: int = 1, *, note: str = "") -> None:
        """``steps`` more are done."""
        self._done += steps
        for follower in FOLLOWERS[-1:]:
            follower.advanced(self._title, self._done, self._total, note)
        if self._progress is not None and self._task is not None:
            # Training holds the interpreter, so the bar is drawn here and not by its own thread.
            self._progress.update(self._task, advance=steps, note=note, refresh=True)
            return
        if self._done == self._total or time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            goal = "" if self._total is None else f" of {self._total}"
            sys.stderr.write(visible(f"{self._title}: {self._done}{goal} {note}".rstrip()) + "\n")
            sys.stderr.flush()


@contextmanager
def meter(title: str, total: int | None) -> Iterator[Meter]:
    """Shows progress for the length of the block."""
    if not console.is_terminal:
        yield Meter(title, total, None)
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
    """Progress or a notice in one line, on standard error; what a command was asked for goes to `show`."""
    console.print(message, soft_wrap=True, style=style)
    for follower in FOLLOWERS[-1:]:
        follower.said(message)


def show(*results: RenderableType, style: str | None = None) -> None:
    """What a command was asked for, on standard output: lines, whole however long they are, and tables."""
    for result in results:
        # Asked anew each time: what stands for standard output may change.
        Terminal().print(result, soft_wrap=isinstance(result, str | Text), style=style)


@contextmanager
def explained(message: str, *, after: float = SILENT_SECONDS) -> Iterator[None]:
    """Says why the block takes long once it has taken ``after`` seconds."""
    timer = threading.Timer(after, say, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class CompilingLines:
    """Tells what is compiled ``where``: after `SILENT_SECONDS`, then every `LINE_SECONDS`."""

    def __init__(self, where: str = "") -> None:
        self._where = where
        self._said = -LINE_SECONDS

    def __call__(self, now: Compiling) -> None:
        """Hears of a kernel."""
        if now.seconds >= SILENT_SECONDS and now.seconds - self._said >= LINE_SECONDS:
            self._said = now.seconds
            say(f"{COMPILING}{self._where}: {now.done} done in {now.seconds:.0f} s, now {now.kernel}")


@contextmanager
def compiling_told() -> Iterator[None]:
    """Says what is compiled in this process in the block, unless somebody says so already."""
    if LISTENERS:
        yield
        return
    with listening(CompilingLines()):
        yield
