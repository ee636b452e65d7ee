"""Text for a terminal, without characters by which a corpus could steer it."""

from __future__ import annotations

_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
"""Unicode's pictures of the control characters, such as ␛."""

_SECOND = range(0x80, 0xA0)
"""Eight-bit control characters, which can start escape sequences too."""

_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that reverse the direction of the letters around them, so that these read as other words."""

_SHOWN = _PICTURES | dict.fromkeys((*_SECOND, *_DIRECTIONS), 0xFFFD)
_ESCAPED = {code: f"\\u{code:04x}" for code in (0x7F, *_SECOND, *_DIRECTIONS)}


def visible(text: str) -> str:
    """The text with a sign in place of each character that a terminal would act on, except tabs and line ends.

    It has as many characters as before.
    """
    return text.translate(_SHOWN)


def visible_json(text: str) -> str:
    """The JSON with escapes for those of these characters that JSON allows unescaped."""
    return text.translate(_ESCAPED)
