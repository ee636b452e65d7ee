"""JSON that carries its own SHA-256, so that a damaged or edited file is known by itself."""

from __future__ import annotations

import hashlib
import json
from typing import Any

DIGEST = "digest"
START = f'\n "{DIGEST}": "'.encode()
"""Start of the digest's line in sealed JSON; lines of nested objects begin with more spaces."""
ENCODER = json.JSONEncoder(indent=1, sort_keys=True)
HEX_DIGITS = 64
NO_DIGEST = "0" * HEX_DIGITS
"""In the digest's place while the rest is written."""


def seal(content: dict[str, Any]) -> bytes:
    """The object as JSON, keys in order, with a digest of all the rest. Equal objects give equal bytes."""
    text = _text(content | {DIGEST: NO_DIGEST})
    digest = _digest_of_rest(text) or _digest(content)
    start = text.find(START) + len(START)
    text[start : start + HEX_DIGITS] = digest.encode()
    return bytes(text)


def unseal(data: bytes) -> dict[str, Any] | None:
    """Sealed content without its digest; None for bytes that `seal` did not give."""
    try:
        content = json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    digest = content.pop(DIGEST, None)
    if not isinstance(digest, str):
        return None
    return content if digest == _digest_of_rest(data) or digest == _digest(content) else None


def _digest_of_rest(data: bytes | bytearray) -> str | None:
    """Digest of sealed bytes without the line that holds it; None for bytes that are laid out in another way.

    It is that of the content, which need not be written again for it.
    """
    start = data.find(START)
    end = start + len(START) + HEX_DIGITS + 1
    last = data[end : end + 1] != b","
    if start < 0 or (last and data[start - 1 : start] != b","):
        return None
    state = hashlib.sha256(memoryview(data)[: start - last])
    state.update(memoryview(data)[end + (not last) :])
    return state.hexdigest()


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(_text(content)).hexdigest()


def _text(content: dict[str, Any]) -> bytearray:
    """The object as JSON, written piece by piece: the pieces of a large one together take several times its memory."""
    text = bytearray()
    for piece in ENCODER.iterencode(content):
        text += piece.encode()
    text += b"\n"
    return text
