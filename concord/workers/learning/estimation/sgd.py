"""Stochastic gradient descent on the objective of `workers.learning.estimation.objective`, sentence by sentence.

Bottou (2010): the prior shrinks all coordinates by one common factor, and the learning rate falls with each pass, here
geometrically (Tsuruoka et al. 2009 §3.1). Each step depends on the one before, so a fit runs on one core.

With dropout each pass leaves out a random share of the features of each token. The values of the others are raised so
that scores stay the same on average (feature noising, Wang et al. 2013). So no feature can rely on others that say the
same.

Small corpora need more passes; `Rates.of` has the rule.
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
from concord.workers.learning.estimation.token_vectors import TokenVectors, add_vectors, move_vectors
from concord.workers.models.settings import DescentSettings

SURE_WITHIN = 1e-4
"""A token whose gold label has a probability of at least 1 − this changes no coordinate of a class.

It halves the cost of late passes.
"""

VISITS = 2_000_000
"""Tokens that a fit visits in all passes together; chosen on held-out documents, see docs/quality.md."""
FEWEST, MOST = 30, 300
"""Smallest number of passes, for large corpora, and largest, for tiny ones."""
LAST = 0.1
"""Learning rate after the last pass, as a fraction of the first pass's."""


class Rates(NamedTuple):
    """Schedule of a fit.

    - ``first``: learning rate of the first pass.
    - ``decay``: factor of the rate from one pass to the next.
    - ``passes``: number of passes.
    - ``dropout``: fraction of features left out.
    """

    first: float
    decay: float
    passes: int
    dropout: float

    @classmethod
    def of(cls, settings: DescentSettings, tokens: int) -> Self:
        """Schedule of the settings, for a corpus of so many tokens.

        If ``passes`` is not given, the passes visit `VISITS` tokens in all; if ``decay`` is not given, the rate falls
        to `LAST` of the first one.
        """
        passes = settings.passes or passes_over(tokens)
        decay = LAST ** (1.0 / passes) if settings.decay is None else settings.decay
        return cls(settings.rate, decay, passes, settings.dropout)


class SgdStep(NamedTuple):
    """Size of the steps of one pass.

    - ``rate``: learning rate of the pass.
    - ``shrink``: a step multiplies each coordinate by 1 − rate · shrink, for the prior.
    - ``everything``: has every class a weight for every label? Then no mask is read.
    """

    rate: float
    shrink: float
    everything: bool


class SgdRoom(NamedTuple):
    """Workspace of a pass, for sentences of at most n tokens.

    - ``scores`` (n, L): scores of a sentence.
    - ``factors`` (L, L): e^transition.
    - ``chain``: workspace of the recursions.
    """

    scores: Floats
    factors: Floats
    chain: ChainRoom


def passes_over(tokens: int) -> int:
    """Number of passes over so many tokens that visits `VISITS` in all; at least `FEWEST`, at most `MOST`."""
    return min(MOST, max(FEWEST, round(VISITS / max(1, tokens))))


def run_passes(
    chains: TrainingChains,
    c2: float,
    start: Floats,
    rates: Rates,
    rng: np.random.Generator,
    vectors: TokenVectors | None = None,
) -> Iterator[float]:
    """Loss −log p(gold) of each pass, in nats, summed while the weights change.

    Moves ``start`` (size,), and the weights of the tokens' ``vectors`` if they have any, in place. ``rng`` decides the
    order of the sentences in each pass, and which features and vectors it leaves out.
    """
    gold = chains.gold
    if vectors is None:
        vectors = TokenVectors.none(len(gold.labels), gold.width)
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
        features = TokenFeatures(*seen, value)
        dense = vectors.thinned(rates.dropout, noise)
        loss, factor = _pass(features, dense, gold, order, step, chains.allowed, chains.parts(start), room)
        start *= factor
        vectors.weights[:] *= factor
        yield loss


def _thinned(lists: Lists, dropout: float, noise: np.random.Generator) -> Lists:
    """The lists without a random fraction ``dropout`` of their members."""
    kept = noise.random(len(lists.ids), np.float32) >= dropout
    return Lists(np.append(0, np.cumsum(kept))[lists.start], lists.ids[kept])


@kernel_in_place
def _pass(
    features: TokenFeatures,
    vectors: TokenVectors,
    chains: GoldChains,
    order: Ints,
    step: SgdStep,
    allowed: ChainMasks,
    weights: ChainWeights,
    rooms: SgdRoom,
) -> tuple[float, float]:
    """Loss of one pass in nats, and a factor: each coordinate is now the factor times the number in its array."""
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
            add_vectors(vectors, t, row)
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
            move_vectors(vectors, t, rate, row)
        for x in range(width):
            for y in range(width):
                if has_transition[x, y]:
                    transitions[x, y] -= rate * room.joint[x, y] * factors[x, y]
    return loss, factor
