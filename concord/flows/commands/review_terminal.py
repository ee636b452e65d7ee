"""A review at a terminal: one thing after the other, a key for each answer."""

from __future__ import annotations

import os
import re
import shutil
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from concord.flows.commands.reviewing import Review, reader_name
from concord.flows.screen.progress import show
from concord.flows.screen.terminal import show_blocks
from concord.schemas.blocks import AnyBlock, Passage, Remark, Tone
from concord.schemas.review import NONE_THERE, ReadAnswer, ReadVerdict
from concord.schemas.shown import marked_tokens

Key = Callable[[], str]
"""Waits for a key and returns it."""
Ask = Callable[[str], str]
"""Shows a question and returns the line that is typed."""

KEYS = "r right · w wrong · s skip · u undo · q quit"
QUIT = frozenset("q\x04")
VERDICTS = {"r": ReadVerdict.RIGHT, "w": ReadVerdict.WRONG, "s": ReadVerdict.SKIPPED}
ROOM = 12
"""Columns that are left for the marks of entities."""


@contextmanager
def single_keys() -> Iterator[tuple[Key, Ask]]:
    """Has the terminal hand on each key as it is pressed, also those that come before they are asked for."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def key() -> str:
        try:
            return os.read(keyboard, 1).decode(errors="replace") or "q"  # nothing: the terminal is gone
        except KeyboardInterrupt:
            return "q"

    def ask(wording: str) -> str:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        try:
            return input(wording)
        finally:
            tty.setcbreak(keyboard, termios.TCSADRAIN)

    tty.setcbreak(keyboard, termios.TCSADRAIN)
    try:
        yield key, ask
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def read_on(review: Review, *, key: Key, ask: Ask) -> None:
    """Shows what is read next until there is nothing left to promise, or the key to quit comes.

    Every answer is on the disk before the next thing is shown. Raises `OutputError`.
    """
    who = reader_name()
    show(review.line, style="bold")
    show(KEYS, style="dim")
    place = review.place
    while place is not None:
        thing = review.things[place]
        show_blocks(question(review, place))
        pressed = _pressed(key, undoable=bool(review.answers))
        if pressed in QUIT:
            return
        if pressed == "u":
            place = review.undo()
            show("taken back; once more:", style="yellow")
            continue
        verdict = VERDICTS[pressed]
        wants_type = verdict is ReadVerdict.WRONG and thing.type is not None
        truth = truth_of(ask, review.types) if wants_type else UNSAID
        show(f"  {verdict}{truth.line}", style="dim")
        again = place == review.repeat
        review.add(ReadAnswer(**thing._asdict(), verdict=verdict, **truth._asdict(), by=who, again=again))
        show(review.line, style="bold")
        place = review.place


def _pressed(key: Key, *, undoable: bool) -> str:
    while True:
        pressed = key().lower()
        if pressed in QUIT or pressed in VERDICTS or (pressed == "u" and undoable):
            return pressed
        show(KEYS, style="dim")


class Truth(NamedTuple):
    """What a wrong entity is in truth: a type, or no entity; neither where that was not said."""

    right_type: str | None = None
    no_entity: bool = False

    @property
    def line(self) -> str:
        """What follows the verdict."""
        return f": {self.right_type}" if self.right_type else ": no entity" if self.no_entity else ""


UNSAID = Truth()


def truth_of(ask: Ask, types: Sequence[str]) -> Truth:
    """What is typed: a type by name, beginning or number; "none" for no entity; nothing where it has other bounds."""
    listed = ", ".join(f"{number} {name}" for number, name in enumerate(types, 1))
    while True:
        typed = ask(
            f"its type ({listed}; {NONE_THERE}: no entity there; Enter: other bounds, or I do not say): "
        ).strip()
        if not typed:
            return UNSAID
        exact = [name for name in types if name == typed]
        if not exact and typed.lower() == NONE_THERE:
            return Truth(no_entity=True)
        if typed.isdecimal() and 1 <= int(typed) <= len(types):
            return Truth(types[int(typed) - 1])
        meant = [name for name in types if name.lower().startswith(typed.lower())]
        if len(exact or meant) == 1:
            return Truth((exact or meant)[0])
        show(f"{typed!r}: {'several types begin so' if meant else 'no such type'}", style="yellow")


def question(review: Review, place: int) -> Iterator[AnyBlock]:
    """A thing in its sentence, between the sentences around it, how sure the run is, and why it says so."""
    item = review.question(place)
    yield Remark("")
    yield from _quiet(item.before)
    text, marked = marked_tokens(item.tokens, item.entities)
    yield Passage(in_lines(text), tuple(marked))
    yield from _quiet(item.after)
    yield Remark(" · ".join(item.facts), Tone.QUIET)


def _quiet(words: Sequence[str]) -> Iterator[Remark]:
    if words:
        yield Remark(in_lines(" ".join(words)), Tone.QUIET)


def in_lines(text: str) -> str:
    """The text with line breaks in the place of some blanks, so that no word is cut where the terminal ends."""
    width = max(shutil.get_terminal_size().columns - ROOM, 2 * ROOM)
    return re.sub(rf"(.{{1,{width}}})(?: |$)", r"\1\n", text).removesuffix("\n")
