"""The vote of the nearest neighbours of a query; see `workers.papers.canisius.nearest`.

Kernels enter distances one after another, keep the instances at the least ones, and count their classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import inner_in_place, kernel
from concord.workers.papers.canisius.settings import Decay

DECAY_NUMBERS = {Decay.NONE: 0, Decay.INVERSE: 1, Decay.LINEAR: 2, Decay.EXPONENTIAL: 3}
NEAR = 1e-6
"""Number added to a distance before it is inverted."""
SAME_DISTANCE = 1e-9
"""Tolerance: distances, and shares, that differ by less are equal."""


class Ballot(NamedTuple):
    """Workspace for the neighbours of one query.

    - ``nearest``: the least distinct distances so far, ascending; one more than the largest k fit in.
    - ``distance``, ``of_class``: distance and class of each instance at one of these, and of others that were.
    - ``sizes`` (2,): number of entries in ``nearest``, and in ``distance``.
    - ``shares`` (C,): the outcome, the share of each class in the neighbours' weight.
    """

    nearest: Floats
    distance: Floats
    of_class: Ints
    sizes: Ints
    shares: Floats


@kernel
def new_ballot(votes: Ints, count: int, size: int) -> Ballot:
    """Ballot for the votes (V, 2), k and decay, of ``size`` instances of ``count`` classes."""
    widest = votes[:, 0].max()
    return Ballot(
        np.empty(widest + 1), np.empty(size), np.empty(size, np.int64), np.zeros(2, np.int64), np.zeros(count)
    )


@inner_in_place
def forget(ballot: Ballot) -> None:
    """Forgets the distances and instances of the last query."""
    ballot.sizes[:] = 0


@inner_in_place
def enter(ballot: Ballot, distance: float) -> None:
    """Adds a distance to the least distinct ones, if it is one of them."""
    nearest, found = ballot.nearest, ballot.sizes[0]
    if found == len(nearest) and distance > nearest[found - 1] - SAME_DISTANCE:
        return
    place = found
    while place > 0 and nearest[place - 1] > distance + SAME_DISTANCE:
        place -= 1
    if place > 0 and nearest[place - 1] > distance - SAME_DISTANCE:
        return
    if found < len(nearest):
        found += 1
    for j in range(found - 1, place, -1):
        nearest[j] = nearest[j - 1]
    nearest[place] = distance
    ballot.sizes[0] = found


@inner_in_place
def keep(ballot: Ballot, distance: float, of_class: int) -> None:
    """Adds an instance. Each is added once, as there is room for all."""
    ballot.distance[ballot.sizes[1]], ballot.of_class[ballot.sizes[1]] = distance, of_class
    ballot.sizes[1] += 1


@inner_in_place
def limit(ballot: Ballot) -> float:
    """The largest distance that an instance may have to be at one of the least; infinite while there are too few."""
    nearest, found = ballot.nearest, ballot.sizes[0]
    return nearest[found - 1] + SAME_DISTANCE if found == len(nearest) else np.inf


@inner_in_place
def leave_out_far(ballot: Ballot) -> None:
    """Leaves out instances that are not at one of the least distances."""
    most, there = limit(ballot), 0
    for i in range(ballot.sizes[1]):
        if ballot.distance[i] < most:
            ballot.distance[there], ballot.of_class[there] = ballot.distance[i], ballot.of_class[i]
            there += 1
    ballot.sizes[1] = there


@kernel
def voted(
    ballot: Ballot, votes: Ints, q: int, queries: int, outcomes: tuple[Ints, Ints, Floats], used: int
) -> tuple[tuple[Ints, Ints, Floats], int]:
    """Appends the outcome of every vote on query q (of ``queries``) to ``outcomes``: instances, classes and shares.

    Returns the arrays, which are longer ones where the given had no room, and the number of entries used.
    """
    most = used + len(votes) * len(ballot.shares)
    if most > len(outcomes[2]):
        grown = max(2 * len(outcomes[2]), most, 1024)
        outcomes = _grown(outcomes[0], grown), _grown(outcomes[1], grown), _grown_floats(outcomes[2], grown)
    for v in range(len(votes)):
        _vote(ballot, votes[v, 0], votes[v, 1])
        used = _told(ballot.shares, v * queries + q, outcomes[0], outcomes[1], outcomes[2], used)
    return outcomes, used


@inner_in_place
def _vote(ballot: Ballot, k: int, decay: int) -> None:
    """Computes the shares of the classes among the neighbours; takes one more distance where that breaks a tie."""
    nearest, found = ballot.nearest, ballot.sizes[0]
    most = nearest[min(k, found) - 1]
    _count(ballot, most, decay)
    if found > k and _tied(ballot.shares):
        _count(ballot, nearest[k], decay)
        if _tied(ballot.shares):
            _count(ballot, most, decay)


@inner_in_place
def _tied(shares: Floats) -> bool:
    best, times = -1.0, 0
    for share in shares:
        if share > best + SAME_DISTANCE:
            best, times = share, 1
        elif share > best - SAME_DISTANCE:
            times += 1
    return times > 1


@inner_in_place
def _count(ballot: Ballot, most: float, decay: int) -> None:
    """Computes the shares of the classes among all instances at a distance of at most ``most``."""
    shares, least = ballot.shares, ballot.nearest[0]
    for c in range(len(shares)):
        shares[c] = 0.0
    total = 0.0
    for i in range(ballot.sizes[1]):
        d = ballot.distance[i]
        if d < most + SAME_DISTANCE:
            weight = 1.0
            if decay == 1:
                weight = 1.0 / (d + NEAR)
            elif decay == 2 and most > least:
                weight = (most - d) / (most - least)
            elif decay == 3:
                weight = np.exp(-d)
            shares[ballot.of_class[i]] += weight
            total += weight
    for c in range(len(shares)):
        shares[c] /= total


@inner_in_place
def _told(shares: Floats, q: int, instance: Ints, of_class: Ints, share: Floats, used: int) -> int:
    for c in range(len(shares)):
        if shares[c] > 0.0:
            instance[used], of_class[used], share[used] = q, c, shares[c]
            used += 1
    return used


@kernel
def _grown(array: Ints, size: int) -> Ints:
    grown = np.empty(size, np.int64)
    grown[: len(array)] = array
    return grown


@kernel
def _grown_floats(array: Floats, size: int) -> Floats:
    grown = np.empty(size)
    grown[: len(array)] = array
    return grown
