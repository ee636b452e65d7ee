"""Which answers are read, in which order, and what they promise by now: nested sets of a run, and the whole run.

The sets A₁ ⊂ A₂ ⊂ … have the answers of least predicted error, and are fixed before the first one is read. One random
permutation of the run serves all of them: what is read of a set are its members in that order, so a larger set asks
only for members that a smaller one skipped. Each set is tried at the full α, after the sets before it are promised
(fixed sequence testing, Maurer, Hothorn & Lehmacher 1995): the first set that must not be promised is promised with a
probability of at most α, and no false promise comes before that. How well errors are predicted decides how much can be
promised, and never whether a promise holds.

The whole run is promised in two steps: the answers of largest predicted error are read and corrected, all of them, and
the rest is drawn from, of which as many may be wrong as in the whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints, Mask
from concord.workers.review.wealth import least_refused, promised_at

FIRST_ERROR = 0.2
"""Largest predicted error of an answer in the first set, as a share of the limit: 1 % for 5 %."""
FITTED_SHARE, UNFITTED_SHARE = 0.5, 0.3
"""Largest share of a run in the first set: a model's own word for its errors is believed less than a fit to gold."""
SET_GROWTH = 1.04
"""Size of a set, as a multiple of the one before."""
LEAST_MULTIPLE = 2
"""Least size of the first set, in answers that are needed where none is wrong."""

NOT_READ, READ_RIGHT, READ_WRONG, READ_SKIPPED = -1, 0, 1, 2
"""Verdicts; what is skipped counts as wrong until it is read."""


class PromiseLimits(NamedTuple):
    """What is to be promised: at most a share ``error`` is wrong, which is false with a probability of ``alpha``."""

    error: float
    alpha: float


class ReviewPlan(NamedTuple):
    """Order of a review of N things.

    - ``draw`` (N,): a random permutation
    - ``rank`` (N,): place of each by predicted error, the surest first
    - ``sizes``, ``refused`` (L,): size of each set, and the least number of wrong ones that its promise excludes
    - ``first`` (F,): what is read before, all of it, and is in no set
    - ``alpha``: probability of a false promise
    """

    draw: Ints
    rank: Ints
    sizes: Ints
    refused: Ints
    first: Ints
    alpha: float

    def members(self, level: int) -> Ints:
        """The members of a set, in the order in which they are read."""
        members: Ints = self.draw[self.rank[self.draw] < self.sizes[level]]
        return members


def set_sizes(predicted: Floats, limits: PromiseLimits, most: float) -> Ints:
    """Sizes of the nested sets (L,), the last of which is everything.

    - ``predicted`` (N,): errors, the least first
    - ``most``: largest share in the first set
    """
    total = len(predicted)
    if not total:
        return np.zeros(0, np.int64)
    sure = min(int(np.searchsorted(predicted, FIRST_ERROR * limits.error, side="right")), int(most * total))
    sizes = [min(total, max(sure, LEAST_MULTIPLE * least_answers(limits)))]
    while sizes[-1] < total:
        sizes.append(min(total, max(sizes[-1] + 1, math.floor(SET_GROWTH * sizes[-1]))))
    return np.array(sizes, np.int64)


def least_answers(limits: PromiseLimits) -> int:
    """Answers that are needed for a promise of many things where none is wrong: ln(1/α) / −ln(1 − ε); 1 for ε = 0."""
    return 1 if limits.error == 0 else math.ceil(math.log(1 / limits.alpha) / -math.log1p(-limits.error))


def nested_plan(
    predicted: Floats, limits: PromiseLimits, rng: np.random.Generator, *, most: float = UNFITTED_SHARE
) -> ReviewPlan:
    """The review of nested sets. ``predicted`` (N,) errors decide the order and the first set, see `set_sizes`."""
    draw, order = rng.permutation(len(predicted)), _surest_first(predicted, rng)
    sizes = set_sizes(predicted[order], limits, most)
    refused = np.array([least_refused(int(size), limits.error) for size in sizes], np.int64)
    return ReviewPlan(draw, np.argsort(order), sizes, refused, np.zeros(0, np.int64), limits.alpha)


def whole_plan(predicted: Floats, limits: PromiseLimits, share: float, rng: np.random.Generator) -> ReviewPlan:
    """The review of a whole run: the ``share`` of largest predicted error is read first, the rest is drawn from."""
    total = len(predicted)
    draw, order = rng.permutation(total), _surest_first(predicted, rng)
    rest = total - math.ceil(share * total)
    refused = np.array([least_refused(total, limits.error)], np.int64)
    return ReviewPlan(draw, np.argsort(order), np.array([rest], np.int64), refused, order[rest:][::-1], limits.alpha)


def _surest_first(predicted: Floats, rng: np.random.Generator) -> Ints:
    """Places by predicted error; equal ones at random, but not as in the draw, which has to be independent."""
    return np.lexsort((rng.permutation(len(predicted)), predicted))


class ReviewStanding(NamedTuple):
    """What a review has come to.

    - ``levels``: sets that are promised
    - ``place``: number of the thing that is read next; None if there is no next one
    - ``more``: answers until the next set is promised, if all of them are right; None if it cannot be promised any more
    """

    levels: int
    place: int | None
    more: int | None


def standing(plan: ReviewPlan, verdicts: Ints, levels: int = 0) -> ReviewStanding:
    """What may be promised after these ``verdicts`` (N,), where ``levels`` sets were promised before."""
    before = plan.first[verdicts[plan.first] == NOT_READ]
    if len(before):
        return ReviewStanding(0, int(before[0]), len(before) + _best(plan, verdicts, 0))
    while levels < len(plan.sizes):
        members = plan.members(levels)
        marks = verdicts[members]
        open_places = np.flatnonzero(marks == NOT_READ)
        read = int(open_places[0]) if len(open_places) else len(members)
        size, refused = int(plan.sizes[levels]), int(plan.refused[levels])
        if int((marks >= READ_WRONG).sum()) >= refused:
            return ReviewStanding(levels, None, None)
        if promised_at(marks[:read] >= READ_WRONG, size, refused, plan.alpha) is None:
            return ReviewStanding(levels, int(members[read]), _best(plan, verdicts, levels))
        levels += 1
    return ReviewStanding(levels, None, None)


def ahead(plan: ReviewPlan, verdicts: Ints, predicted: Floats, count: int) -> list[int]:
    """What is read next, in that order and as far as ``count``, if as many answers are wrong as is predicted.

    ``predicted`` (N,) are the errors. Where more turn out to be wrong, the sets in hand ask for more, and no answer was
    in vain. What is not needed so comes last. None where no further promise is possible.
    """
    marks, places, due = verdicts.copy(), list[int](), 0.5
    now = standing(plan, marks)
    while len(places) < count and now.place is not None:
        due += float(predicted[now.place])
        marks[now.place] = READ_WRONG if due >= 1 else READ_RIGHT
        due -= due >= 1
        places.append(now.place)
        now = standing(plan, marks, now.levels)
    for level in range(min(now.levels, len(plan.sizes) - 1), len(plan.sizes)):
        if len(places) >= count or not places:
            break
        members = plan.members(level)
        places += members[marks[members] == NOT_READ].tolist()
        marks[members] = READ_RIGHT
    return places[:count]


def _best(plan: ReviewPlan, verdicts: Ints, level: int) -> int:
    """Answers that the promise of a set needs at least: if all that is not read is right."""
    marks = verdicts[plan.members(level)]
    size, refused = int(plan.sizes[level]), int(plan.refused[level])
    window = 128
    while True:
        reached = promised_at(marks[:window] >= READ_WRONG, size, refused, plan.alpha)
        if reached is not None or window >= size:
            return int((marks[: size if reached is None else reached] == NOT_READ).sum())
        window *= 2


def promised_level(plan: ReviewPlan, verdicts: Ints, levels: int) -> int:
    """The largest of the first ``levels`` sets that later answers have not disproved; 0 for none."""
    wrong = plan.rank[verdicts >= READ_WRONG]
    while levels and int((wrong < plan.sizes[levels - 1]).sum()) >= plan.refused[levels - 1]:
        levels -= 1
    return levels


def promised_sizes(plan: ReviewPlan, wrong: Mask, budgets: list[int]) -> list[int]:
    """Size of the promised set after each number of answers, rising, where it is known what is ``wrong`` (N,).

    What `standing` comes to, answer by answer; for trials of the method.
    """
    read, levels, answers, sizes = np.zeros(len(wrong), np.bool_), 0, len(plan.first), list[int]()
    read[plan.first] = True
    for budget in budgets:
        answered_rows = read.copy()
        while levels < len(plan.sizes) and answers <= budget:
            members, size, refused = plan.members(levels), int(plan.sizes[levels]), int(plan.refused[levels])
            costs = np.cumsum(~read[members])
            reach = int(np.searchsorted(costs, budget - answers, side="right"))
            reached = promised_at(wrong[members[:reach]], size, refused, plan.alpha)
            disproved = int((wrong & read)[members].sum()) >= refused
            if disproved or reached is None:
                answered_rows[members[: 0 if disproved else reach]] = True
                break
            answers += int(costs[reached - 1]) if reached else 0
            read[members[:reached]] = True
            levels += 1
        top = promised_level(plan, np.where(answered_rows | read, wrong, NOT_READ).astype(np.int64), levels)
        sizes.append(int(plan.sizes[top - 1]) if top else 0)
    return sizes
