"""What may go to a terminal: no text of a corpus steers it."""

from __future__ import annotations

_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
"""Unicode's pictures of the control characters, such as ␛."""

_SECOND = range(0x80, 0xA0)
"""Control characters of eight bits, with which escape sequences start too."""

_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""What turns the direction of the letters around it, so that they are read as others than they are."""

_SHOWN = _PICTURES | dict.fromkeys((*_SECOND, *_DIRECTIONS), 0xFFFD)
_ESCAPED = {code: f"\\u{code:04x}" for code in (0x7F, *_SECOND, *_DIRECTIONS)}


def visible(text: str) -> str:
    """The text with a sign in the place of each character that a terminal would act on, but for blanks and lines.

    It has as many characters as before.
    """
    return text.translate(_SHOWN)


def visible_json(text: str) -> str:
    """The same JSON with those of these characters escaped that JSON allows as they are."""
    return text.translate(_ESCAPED)
