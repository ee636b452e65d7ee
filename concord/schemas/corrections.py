"""Corrections: what a person says of spans of a document, and an answer has to keep."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from concord.schemas.errors import InputError


class CorrectionError(InputError):
    """A correction that cannot be kept: names the file and the row, or the option."""


class Correction(NamedTuple):
    """A span of tokens that is exactly an entity of a type, or has no entity at any of its tokens.

    - ``start``, ``end``: its first token in the document, and the one after the last
    - ``type``: the type; None for no entity
    - ``row``: the row of the file that says so, from 1; 0 for none. No answer depends on it.
    """

    start: int
    end: int
    type: str | None
    row: int = 0

    @property
    def text(self) -> str:
        """The correction, for messages: ``3:5=PER``, or ``3:5`` for no entity."""
        return f"{self.start}:{self.end}" + ("" if self.type is None else f"={self.type}")


CLAMP = re.compile(r"(?P<start>[0-9]+):(?P<end>[0-9]+)(=(?P<type>.+))?")
"""A correction on a command line."""

Clamp = Sequence[tuple[int, int, str | None]]
"""Corrections of one document, each as its first token, the one after its last, and its type; None for no entity."""

Corrections = Mapping[str, tuple[Correction, ...]]
"""Corrections by document id, those of a document in the order of its tokens."""

ShardCorrections = tuple[tuple[str, tuple[Correction, ...]], ...]
"""The same of the documents of a shard, in the order of their ids."""


def corrections_digest(corrections: Sequence[Correction]) -> bytes:
    """Digest of the corrections of one document: of what they say, wherever it was written."""
    content = json.dumps([[one.start, one.end, one.type] for one in corrections])
    return hashlib.sha256(content.encode()).digest()


def clamped(clamp: Clamp) -> tuple[Correction, ...]:
    """The corrections of one document. Raises as `sorted_corrections`."""
    return sorted_corrections([Correction(start, end, kind) for start, end, kind in clamp])


def parsed_clamp(text: str) -> Correction:
    """The correction that ``START:END=TYPE`` says, or ``START:END`` for no entity. Raises `CorrectionError`."""
    match = CLAMP.fullmatch(text)
    if match is None:
        raise CorrectionError(f"--clamp {text}: want START:END=TYPE, such as 3:5=PER, or START:END for no entity")
    return Correction(int(match["start"]), int(match["end"]), match["type"])


def sorted_corrections(corrections: Sequence[Correction]) -> tuple[Correction, ...]:
    """The corrections of one document in the order of its tokens, each once.

    Raises `CorrectionError` for an empty span, one that begins before the document, and two that overlap; the message
    does not name the file.
    """
    ordered: list[Correction] = []
    for one in sorted(corrections, key=lambda one: (one.start, one.end, one.row)):
        if not 0 <= one.start < one.end:
            raise CorrectionError(f"{one.text} is no span; want 0 <= start < end, in tokens, end exclusive")
        last = ordered[-1] if ordered else None
        if last is not None and last[:3] == one[:3]:
            continue
        if last is not None and one.start < last.end:
            where = f" of row {last.row}" if last.row else ""
            raise CorrectionError(f"{one.text} overlaps {last.text}{where}; leave one of them out")
        ordered.append(one)
    return tuple(ordered)
