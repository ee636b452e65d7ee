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

from concord.schemas.arrays import Floats, Ints, Mask
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.learning.estimation.chains import (
    ChainMasks,
    ChainWeights,
    Edges,
    GoldChains,
    TokenFeatures,
    TrainingChains,
    score_edges,
    score_tokens,
)
from concord.workers.learning.estimation.objective import ChainRoom, backward_scaled, forward_scaled, raise_edges
from concord.workers.learning.estimation.token_vectors import TokenVectors, add_vectors, move_vectors
from concord.workers.models.settings import DescentSettings

SURE_WITHIN = 1e-4
"""A token whose gold label has a probability of at least 1 − this changes no coordinate of a class; the same for gold
pairs of labels and classes of pairs.

It halves the cost of late passes.
"""

VISITS = 2_000_000
"""Tokens that a fit visits in all passes together; chosen on held-out documents, see benchmarks/results/models.md."""
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
    - ``every_state``: has every class a weight for every label? Then no mask is read.
    - ``every_pair``: the same for classes of pairs and pairs of labels.
    """

    rate: float
    shrink: float
    every_state: bool
    every_pair: bool


class SgdRoom(NamedTuple):
    """Workspace of a pass, for sentences of at most n tokens.

    - ``scores`` (n, L): scores of a sentence.
    - ``chain``: workspace of the recursions.
    """

    scores: Floats
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
    gold, weights = chains.gold, chains.parts(start)
    if vectors is None:
        vectors = TokenVectors.none(len(gold.labels), gold.width)
    count = len(gold.bounds) - 1
    chain = ChainRoom.of(gold.bounds, gold.width, by_token=len(weights.pairs) > 0)
    room, noise = SgdRoom(np.zeros((len(chain.forward), gold.width)), chain), rng.spawn(1)[0]
    edges = Edges.room(chains.pairs.features, weights, gold.bounds)
    every = bool(chains.states.all()), bool(chains.pairs.states.all())
    for number in range(rates.passes):
        order = rng.permutation(count)
        step = SgdStep(rates.first * rates.decay**number, 2.0 * c2 / count, *every)
        features, of_pairs = (_thinned(one.features, rates.dropout, noise) for one in (chains, chains.pairs))
        edges = edges._replace(features=of_pairs)
        dense = vectors.thinned(rates.dropout, noise)
        loss, factor = _pass(features, dense, edges, gold, order, step, chains.allowed, weights, room)
        start *= factor
        vectors.weights[:] *= factor
        yield loss


def _thinned(features: TokenFeatures, dropout: float, noise: np.random.Generator) -> TokenFeatures:
    """The features without a random fraction ``dropout`` of them, and the values of the others raised."""
    if not dropout:
        return features
    stays = noise.random(len(features.ids), np.float32) >= dropout
    start = np.append(0, np.cumsum(stays))[features.start]
    return TokenFeatures(start, features.ids[stays], features.value / (1.0 - dropout))


@kernel_in_place
def _pass(
    features: TokenFeatures,
    vectors: TokenVectors,
    edges: Edges,
    chains: GoldChains,
    order: Ints,
    step: SgdStep,
    allowed: ChainMasks,
    weights: ChainWeights,
    rooms: SgdRoom,
) -> tuple[float, float]:
    """Loss of one pass in nats, and a factor: each coordinate is now the factor times the number in its array."""
    bounds, gold, width = chains
    scores, room = rooms
    by_token = len(edges.pairs) > 0
    matrix = int(by_token)
    factor, loss = 1.0, 0.0
    for s in order:
        first, last = bounds[s], bounds[s + 1]
        score_edges(edges, first, last)
        raise_edges(edges, factor, last - first)
        score_tokens(features, weights.states, first, last, scores)
        for t in range(first, last):
            row = scores[t - first]
            add_vectors(vectors, t, row)
            for y in range(width):
                row[y] *= factor
            loss -= row[gold[t]]
            if t > first:
                loss -= factor * edges.scores[(t - first) * matrix, gold[t - 1] * width + gold[t]]
        part = scores[: last - first]
        room.joint[:] = 0.0
        loss += forward_scaled(part, edges.factors, room)
        backward_scaled(part, edges.factors, room)
        factor *= 1.0 - step.rate * step.shrink
        rate = step.rate / factor
        for t in range(first, last):
            row = part[t - first]
            row[gold[t]] -= 1.0
            if row[gold[t]] <= -SURE_WITHIN:
                _move_classes(features, weights.states, allowed.states, step.every_state, t, rate, row)
                move_vectors(vectors, t, rate, row)
        if by_token:
            _move_edges(edges, chains, allowed, step.every_pair, first, last, rate, weights, room.joint)
        else:
            _move_transitions(edges, chains, allowed.transitions, first, last, rate, weights, room.joint[0])
    return loss, factor


@inner_in_place
def _move_classes(
    features: TokenFeatures,
    states: Floats,
    allowed: Mask,
    everything: bool,  # noqa: FBT001 — a kernel takes no keywords
    t: int,
    rate: float,
    row: Floats,
) -> None:
    """Moves the coordinates (C, L) of token t's classes by its expected minus gold counts ``row`` (L,)."""
    start, ids, value = features
    width = states.shape[1]
    for k in range(start[t], start[t + 1]):
        c = ids[k]
        move = rate * value[c]
        if everything:
            for y in range(width):
                states[c, y] -= move * row[y]
        else:
            for y in range(width):
                states[c, y] -= move * row[y] if allowed[c, y] else 0.0


@inner_in_place
def _move_transitions(
    edges: Edges,
    chains: GoldChains,
    allowed: Mask,
    first: int,
    last: int,
    rate: float,
    weights: ChainWeights,
    joint: Floats,
) -> None:
    """Moves the transitions that the tokens of a sentence share; ``joint`` (L, L) is that of `ChainRoom`."""
    factors, transitions, width = edges.factors[0], weights.transitions, chains.width
    for t in range(first + 1, last):
        x, y = chains.labels[t - 1], chains.labels[t]
        joint[x, y] -= 1.0 / factors[x, y]
    for x in range(width):
        for y in range(width):
            if allowed[x, y]:
                transitions[x, y] -= rate * joint[x, y] * factors[x, y]


@inner_in_place
def _move_edges(
    edges: Edges,
    chains: GoldChains,
    allowed: ChainMasks,
    everything: bool,  # noqa: FBT001 — a kernel takes no keywords
    first: int,
    last: int,
    rate: float,
    weights: ChainWeights,
    joint: Floats,
) -> None:
    """Moves the transitions, and the classes of pairs, of a sentence whose tokens have matrices of their own.

    ``joint`` (n, L, L) is that of `ChainRoom`. The scores of the transitions are overwritten.
    """
    width, transitions = chains.width, weights.transitions
    for t in range(first + 1, last):
        row, place = edges.scores[t - first], t - first
        for x in range(width):
            for y in range(width):
                row[x * width + y] = joint[place, x, y] * edges.factors[place, x, y]
        own = chains.labels[t - 1] * width + chains.labels[t]
        row[own] -= 1.0
        for x in range(width):
            for y in range(width):
                if allowed.transitions[x, y]:
                    transitions[x, y] -= rate * row[x * width + y]
        if row[own] <= -SURE_WITHIN:
            _move_classes(edges.features, weights.pairs, allowed.pairs, everything, t, rate, row)
