"""The features of Finkel, Grenager & Manning (2005), table 2, a set for each of its rows, so that one can be left out.

Joined they are the feature sets ``finkel`` and, with wider windows and without tags, ``finkel-tf``.
"""

from __future__ import annotations

from concord.schemas.document import TOKENS
from concord.workers.features.templates import (
    POS_TAG,
    SHAPE,
    WORD,
    AttributeTemplate,
    Conjunction,
    Single,
    Source,
    Window,
)


def _around(source: Source) -> tuple[AttributeTemplate, ...]:
    """The values beside the token, and the pairs and the triple around it."""
    sequences = (-1, 0), (0, 1), (-1, 0, 1)
    return (
        Single(source, -1),
        Single(source, 1),
        *(Conjunction(tuple((source, offset) for offset in offsets)) for offsets in sequences),
    )


CURRENT_WORD = (Single(WORD),)
PREVIOUS_WORD = (Single(WORD, -1),)
NEXT_WORD = (Single(WORD, 1),)
SUBSTRINGS = (Single(Source(TOKENS, "ngrams")),)
CURRENT_TAG = (Single(POS_TAG),)
SURROUNDING_TAGS = _around(POS_TAG)
CURRENT_SHAPE = (Single(SHAPE),)
SURROUNDING_SHAPES = _around(SHAPE)
WINDOWS_OF_4 = (Window(WORD, -4, -1), Window(WORD, 1, 4))
WINDOWS_OF_9 = (Window(WORD, -9, -1), Window(WORD, 1, 9))
