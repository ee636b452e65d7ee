"""Answers to one document that are still the best under other weights of its constraints.

Let ŷ be the best labelling under weights w, with degrees d(ŷ). Under weights w' with w'_k = w_k where d_k(ŷ) > 0, and
w'_k ≥ w_k elsewhere, ŷ scores the same and no other labelling scores more, so ŷ is still the best. Weights that are
learned mostly rise, and most answers break nothing: an answer that was found once lasts.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Mask
from concord.schemas.labels import Labels

MOST_ANSWERS = 64
"""Answers that are kept; the oldest goes first."""


class Answer(NamedTuple):
    """Answer to one document.

    - ``labels`` (n,): the labels.
    - ``degrees`` (K,): degree of each constraint under them.
    - ``active`` (K,): marks the weighed constraints that were part of the search.
    """

    labels: Labels
    degrees: Floats
    active: Mask


class LastingAnswers:
    """Exact answers to one document, each with the weights that it was found under.

    - ``degrees``: degrees (K,) of labellings that were met, by their bytes.
    """

    def __init__(self) -> None:
        self.degrees: dict[bytes, Floats] = {}
        self._answers: deque[tuple[Floats, Answer]] = deque(maxlen=MOST_ANSWERS)

    def add(self, weights: Floats, answer: Answer) -> Answer:
        """Keeps the best labelling under ``weights`` (K,), 0 for constraints that were not searched; returns it."""
        self._answers.append((weights, answer))
        return answer

    def under(self, weights: Floats) -> Answer | None:
        """An answer that is the best under ``weights`` (K,) for certain; None if none is known to be."""
        for floor, answer in reversed(self._answers):
            if np.where(answer.degrees > 0, weights == floor, weights >= floor).all():
                return answer
        return None
