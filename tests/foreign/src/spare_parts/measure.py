"""A measure: sentences that are right as a whole."""

from __future__ import annotations

import numpy as np

from concord.parts import Items, Measure, Pair, Places


def sentences(pair: Pair) -> Items:
    """Each sentence is a thing of gold and of the prediction, and of both where all its labels are right."""
    bounds = pair.batch.sentence_bounds
    owner = pair.owner[bounds[:-1]]
    wrong = np.concatenate([[0], np.cumsum(pair.gold != pair.predicted)])
    right = wrong[bounds[1:]] == wrong[bounds[:-1]]
    whole, good = (Places(place, np.zeros(len(place), np.int32)) for place in (owner, owner[right]))
    return Items(("sentences",), len(pair.batch), whole, whole, good)


SENTENCES = Measure(sentences, ("accuracy",), "whole sentences right")
