"""JSON that carries its own SHA-256, so that a damaged or edited file is known by itself."""

from __future__ import annotations

import hashlib
import json
from typing import Any

DIGEST = "digest"


def seal(content: dict[str, Any]) -> bytes:
    """The object as JSON, keys in order, with a digest of all the rest. Equal objects give equal bytes."""
    return _text(content | {DIGEST: _digest(content)})


def unseal(data: bytes) -> dict[str, Any] | None:
    """Sealed content without its digest; None for bytes that `seal` did not give."""
    try:
        content = json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    digest = content.pop(DIGEST, None)
    return content if digest == _digest(content) else None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(_text(content)).hexdigest()


def _text(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"
