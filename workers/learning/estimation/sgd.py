"""Stochastic gradient descent on the objective of `workers.learning.estimation.objective`, sentence by sentence.

Bottou (2010): the prior shrinks all coordinates with one common factor, and the rate falls with each pass, here
geometrically (Tsuruoka et al. 2009 §3.1). A fit is one sequence of steps, so it runs on one core.

With dropout each step sees the features of each token but for a random share, and those left count for so much more
that scores stay the same on average (feature noising, Wang et al. 2013): none can rely on others that say the same.

Where there is little text it takes more passes to get anywhere: `Rates.of` has the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import kernel_in_place
from concord.workers.features.incidence import Lists
from concord.workers.learning.estimation.chains import (
    ChainMasks,
    ChainWeights,
    GoldChains,
    TokenFeatures,
    TrainingChains,
    score_tokens,
)
from concord.workers.learning.estimation.objective import ChainRoom, backward_scaled, forward_scaled
from concord.workers.models.settings import SgdSettings

SURE_WITHIN = 1e-4
"""A token whose label has at least 1 less this probability changes no coordinate: late passes cost half as much."""

VISITS = 2_000_000
"""Tokens that a fit looks at, those of all passes together: chosen on documents held out, see docs/benchmarks.md."""
FEWEST, MOST = 30, 300
"""Passes at least where there is more text than that goes round, and at most where there is next to none."""
LAST = 0.1
"""What is left of the first pass's rate in the last one."""


class Rates(NamedTuple):
    """The rate of the first pass, its factor from pass to pass, the number of passes, the share that is dropped."""

    first: float
    decay: float
    passes: int
    dropout: float

    @classmethod
    def of(cls, settings: SgdSettings, tokens: int) -> Self:
        """What is given, and for the rest: `VISITS` in passes over so many tokens, down to `LAST` of the rate."""
        passes = settings.passes or passes_over(tokens)
        decay = LAST ** (1.0 / passes) if settings.decay is None else settings.decay
        return cls(settings.rate, decay, passes, settings.dropout)


class SgdStep(NamedTuple):
    """How far a step goes.

    rate: the learning rate of the pass.
    shrink: what a step takes off each weight for the prior, as a share of the rate.
    everything: whether every class has a weight for every label, so that no mask has to be looked at.
    """

    rate: float
    shrink: float
    everything: bool


class SgdRoom(NamedTuple):
    """What a pass works in: scores (n, L) of a sentence, factors e^transition (L, L), and the chain's own room."""

    scores: Floats
    factors: Floats
    chain: ChainRoom


def passes_over(tokens: int) -> int:
    """So many that there are `VISITS`, from `FEWEST` to `MOST`."""
    return min(MOST, max(FEWEST, round(VISITS / max(1, tokens))))


def run_passes(
    chains: TrainingChains, c2: float, start: Floats, rates: Rates, rng: np.random.Generator
) -> Iterator[float]:
    """Moves ``start`` (size,) in place, pass by pass; gives −log p(gold) in nats as each pass met it.

    ``rng`` decides in which order each pass takes the sentences, and what it drops.
    """
    gold = chains.gold
    count = len(gold.bounds) - 1
    chain = ChainRoom.of(gold.bounds, gold.width)
    room = SgdRoom(np.zeros((len(chain.forward), gold.width)), np.zeros((gold.width, gold.width)), chain)
    value, noise = chains.value / (1.0 - rates.dropout), rng.spawn(1)[0]
    for number in range(rates.passes):
        order = rng.permutation(count)
        rate = rates.first * rates.decay**number
        shrink = 2.0 * c2 / count
        seen = _thinned(chains.flat, rates.dropout, noise) if rates.dropout else chains.flat
        step = SgdStep(rate, shrink, bool(chains.states.all()))
        loss, factor = _pass(TokenFeatures(*seen, value), gold, order, step, chains.allowed, chains.parts(start), room)
        start *= factor
        yield loss


def _thinned(lists: Lists, dropout: float, noise: np.random.Generator) -> Lists:
    """The lists without a share of their members."""
    kept = noise.random(len(lists.ids), np.float32) >= dropout
    return Lists(np.append(0, np.cumsum(kept))[lists.start], lists.ids[kept])


@kernel_in_place
def _pass(
    features: TokenFeatures,
    chains: GoldChains,
    order: Ints,
    step: SgdStep,
    allowed: ChainMasks,
    weights: ChainWeights,
    rooms: SgdRoom,
) -> tuple[float, float]:
    """One pass; afterwards every coordinate is the factor returned times what its array holds."""
    start, ids, value = features
    bounds, gold, width = chains
    has_state, has_transition = allowed
    states, transitions = weights
    scores, factors, room = rooms
    factor, loss = 1.0, 0.0
    for s in order:
        first, last = bounds[s], bounds[s + 1]
        for x in range(width):
            for y in range(width):
                factors[x, y] = np.exp(factor * transitions[x, y])
        score_tokens(features, states, first, last, scores)
        for t in range(first, last):
            row = scores[t - first]
            for y in range(width):
                row[y] *= factor
            loss -= row[gold[t]]
            if t > first:
                loss -= factor * transitions[gold[t - 1], gold[t]]
        part = scores[: last - first]
        room.joint[:] = 0.0
        loss += forward_scaled(part, factors, room)
        backward_scaled(part, factors, room)
        factor *= 1.0 - step.rate * step.shrink
        rate = step.rate / factor
        for t in range(first, last):
            row = part[t - first]
            row[gold[t]] -= 1.0
            if t > first:
                room.joint[gold[t - 1], gold[t]] -= 1.0 / factors[gold[t - 1], gold[t]]
            if row[gold[t]] > -SURE_WITHIN:
                continue
            for k in range(start[t], start[t + 1]):
                c = ids[k]
                move = rate * value[c]
                if step.everything:
                    for y in range(width):
                        states[c, y] -= move * row[y]
                else:
                    for y in range(width):
                        states[c, y] -= move * row[y] if has_state[c, y] else 0.0
        for x in range(width):
            for y in range(width):
                if has_transition[x, y]:
                    transitions[x, y] -= rate * room.joint[x, y] * factors[x, y]
    return loss, factor
