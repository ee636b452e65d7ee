"""The best labellings of parts of a document that no penalty joins, and of all parts together."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.search.depth_first import (
    new_probe,
    next_leaf,
    open_loss,
)
from concord.workers.inference.search.partial import chain_loss, complete_loss, nodes_a_look, start_partial

STEPS_A_NODE = 200
"""Units of work for which a node of the tree counts: those of a relaxation that take as much time."""


class RankedPart(NamedTuple):
    """The best labellings found of a part with n tokens.

    - ``tokens`` (n,): the part's tokens in the document.
    - ``labels`` (M, n): the labellings.
    - ``loss`` (M,): nats below the part's local optimum, rising.
    - ``rest``: nats that all other labellings of the part lose at least.
    """

    tokens: Ints
    labels: Labels
    loss: Floats
    rest: float

    @property
    def least(self) -> float:
        """Nats that every labelling of the part loses at least."""
        return min(self.rest, float(self.loss[0])) if len(self.loss) else self.rest


class Together(NamedTuple):
    """The best combinations of labellings of P parts.

    - ``picks`` (M, P): index of each part's labelling.
    - ``loss`` (M,): nats that each combination loses, rising.
    - ``rest``: nats that all other combinations lose at least.
    """

    picks: NDArray[np.int64]
    loss: Floats
    rest: float


def best_of_part(
    problem: Prepared, tokens: Ints, *, start: Labels, count: int, most_loss: float, effort: Effort, work: int
) -> RankedPart:
    """The ``count`` best labellings of a part that lose less than ``most_loss`` nats, by depth first search.

    Once ``count`` are found, the search leaves out all that lose no less than the last one. It may add ``work`` units
    to the effort; if that is not enough for any labelling, ``start`` (n,) is listed.
    """
    best: list[tuple[float, bytes]] = []
    partial = start_partial(problem, chain_loss(problem), top=problem.viterbi_score, limit=most_loss)
    if partial is None:
        return _listed(tokens, best, most_loss)
    probe = new_probe(partial, loss=most_loss, most=np.inf, branching=len(problem.labels))
    hard = _has_hard(problem)
    look, until = nodes_a_look(partial), effort.work + work
    while probe.now["position"][0] >= 0 and effort.work < until and not effort.spent:
        before = int(probe.now["expanded"][0])
        # A labelling that breaks a hard row only by the rounding of its sum is no answer.
        leaf = next_leaf(partial, probe, look)
        if leaf and not (hard and problem.score(partial.labels).objective == -np.inf):
            insort(best, (complete_loss(partial), partial.labels.tobytes()))
            del best[count:]
            if len(best) == count:
                probe.now["loss_to_beat"][0] = min(most_loss, best[-1][0])
        effort.work += STEPS_A_NODE * (int(probe.now["expanded"][0]) - before)
    if not best and problem.score(start).objective > -np.inf:
        best = [(problem.viterbi_score - problem.score(start).objective, start.tobytes())]
    beaten = probe.now["loss_to_beat"][0]
    return _listed(tokens, best, min(float(beaten), open_loss(probe)))


def _has_hard(problem: Prepared) -> bool:
    """May a labelling that the chain allows break a hard constraint?"""
    return bool(np.isinf(problem.rows.weight).any()) or any(np.isinf(a.cost).any() for a in problem.agreements)


def _listed(tokens: Ints, best: Sequence[tuple[float, bytes]], rest: float) -> RankedPart:
    labels = np.frombuffer(b"".join(own for _, own in best), np.int32).reshape(len(best), len(tokens))
    return RankedPart(tokens, labels, np.array([loss for loss, _ in best], np.float64), rest - ROUNDING)


def together(parts: Sequence[RankedPart], count: int, most_loss: float) -> Together:
    """The ``count`` best combinations of parts that lose at most ``most_loss`` nats.

    Combinations with equal losses are in the order of their picks.
    """
    picks, loss = np.zeros((1, 0), np.int64), np.zeros(1)
    for part in parts:
        sums = (loss[:, None] + part.loss).ravel()
        order = np.argsort(sums, kind="stable")[:count]
        order = order[sums[order] <= most_loss]
        before, own = np.divmod(order, max(1, len(part.loss)))
        picks, loss = np.column_stack([picks[before], own]), sums[order]
    least = math.fsum(part.least for part in parts)
    others = [least - part.least + part.rest for part in parts] if least < np.inf else []
    last = float(loss[-1]) if len(loss) == count else np.inf
    return Together(picks, loss, min([last, most_loss, *others]))


def labellings(parts: Sequence[RankedPart], combinations: Together, otherwise: Labels) -> Labels:
    """(M, N) the combinations as labellings of the document; tokens of no part get the labels ``otherwise`` (N,)."""
    whole = np.repeat(otherwise[None, :], len(combinations.loss), axis=0)
    for p, part in enumerate(parts):
        whole[:, part.tokens] = part.labels[combinations.picks[:, p]]
    return whole
