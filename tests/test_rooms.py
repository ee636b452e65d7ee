"""The picture of the rooms of flows: it is of these imports, and all of its arrows go down."""

from __future__ import annotations

import runpy
from pathlib import Path

DRAWN = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "rooms.py"))


def test_the_picture_is_of_the_imports_that_there_are() -> None:
    assert DRAWN["drawing"]() == DRAWN["PICTURE"].read_text(), "draw it again: python docs/rooms.py"


def test_arrows_that_follow_from_others_are_left_out() -> None:
    arrows = {"a": {"b", "c", "d"}, "b": {"c"}, "c": set(), "d": set()}
    assert DRAWN["needed"](arrows) == {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": set()}
