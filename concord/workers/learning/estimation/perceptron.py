"""Averaged structured perceptron (Collins 2002, figure 2 and §2.3), over the chains of a CRF.

Each sentence moves the weights from the best labelling ŷ under them towards gold y: w ← w + f(y) − f(ŷ). The weights
returned are the mean over all T sentences visited, so that the last ones do not decide. With Δ_s the change made at the
s-th sentence,

    (1 / T) Σ_t w_t = w_T − (1 / T) Σ_s (s − 1) Δ_s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints, Mask
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.inference.core.recursion import BEST, pass_sentence, trace_sentence
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


def run_passes(chains: TrainingChains, start: Floats, passes: int, rng: np.random.Generator) -> Iterator[int]:
    """Number of wrong labels in each pass; moves ``start`` (size,) in place, to the mean after the last pass.

    ``rng`` decides the order of the sentences in each pass.
    """
    gold = chains.gold
    late = np.zeros_like(start)
    count, longest = len(gold.bounds) - 1, int(np.diff(gold.bounds).max(initial=0))
    shape = longest, gold.width
    room = AnswerRoom(np.zeros(shape), np.zeros(shape), np.zeros(gold.width), np.zeros(longest, np.int32))
    weights = AveragedWeights(chains.parts(start), chains.parts(late))
    edges = Edges.room(chains.pairs.features, weights.now, gold.bounds)
    for number in range(passes):
        order = rng.permutation(count)
        wrong = _pass(chains.features, edges, gold, order, number * count, chains.allowed, weights, room)
        if number == passes - 1:
            start -= late / max(1, passes * count)
        yield wrong


class AveragedWeights(NamedTuple):
    """The current weights w_t, and the sums Σ (s − 1) Δ_s from which their mean is computed at the end."""

    now: ChainWeights
    late: ChainWeights


class AnswerRoom(NamedTuple):
    """Workspace of Viterbi, for sentences of at most n tokens.

    - ``scores`` (n, L): scores of tokens, in nats.
    - ``before`` (n, L): messages of the recursion.
    - ``own`` (L,): scratch.
    - ``answer`` (n,): the best labels.
    """

    scores: Floats
    before: Floats
    own: Floats
    answer: Ids


@kernel_in_place
def _pass(
    features: TokenFeatures,
    edges: Edges,
    gold: GoldChains,
    order: Ints,
    seen: int,
    allowed: ChainMasks,
    weights: AveragedWeights,
    room: AnswerRoom,
) -> int:
    """Number of wrong labels in one pass, which moves the weights; ``seen`` sentences came before it."""
    wrong, width = 0, gold.width
    edge = edges.scores.reshape((len(edges.scores), width, width))
    for s in order:
        first, last = gold.bounds[s], gold.bounds[s + 1]
        score_tokens(features, weights.now.states, first, last, room.scores)
        score_edges(edges, first, last)
        pass_sentence(room.scores, edge, 0, last - first - 1, BEST, room.before, room.own)
        trace_sentence(room.scores, edge, 0, last - first - 1, room.before, room.own, room.answer)
        wrong += correct(features, edges.features, gold.labels, room.answer, first, last, allowed, weights, seen)
        seen += 1
    return wrong


@kernel_in_place
def correct(
    features: TokenFeatures,
    of_pairs: TokenFeatures,
    gold: Ids,
    answer: Ids,
    first: int,
    last: int,
    allowed: ChainMasks,
    weights: AveragedWeights,
    seen: int,
) -> int:
    """Number of wrong labels in the answer to one sentence; moves the weights from the answer towards gold.

    - ``features``, ``of_pairs``: classes of each token, and its classes of pairs.
    - ``gold`` (N,): gold labels of all tokens.
    - ``answer`` (n,): answered labels of the sentence.
    - ``first``, ``last``: tokens of the sentence, ``last`` exclusive.
    - ``seen``: number of sentences, or documents, before this one.
    """
    has_state, has_transition, has_pair = allowed
    states, transitions, pairs = weights.now
    late_states, late_transitions, late_pairs = weights.late
    width = len(transitions)
    wrong = 0
    for t in range(first, last):
        right, found = gold[t], answer[t - first]
        if t > first:
            before, found_before = gold[t - 1], answer[t - first - 1]
            if (before, right) != (found_before, found):
                if has_transition[before, right]:
                    transitions[before, right] += 1.0
                    late_transitions[before, right] += seen
                if has_transition[found_before, found]:
                    transitions[found_before, found] -= 1.0
                    late_transitions[found_before, found] -= seen
                own, other = before * width + right, found_before * width + found
                _correct_classes(of_pairs, t, own, other, has_pair, pairs, late_pairs, seen)
        if right == found:
            continue
        wrong += 1
        _correct_classes(features, t, right, found, has_state, states, late_states, seen)
    return wrong


@inner_in_place
def _correct_classes(
    features: TokenFeatures, t: int, right: int, wrong: int, allowed: Mask, states: Floats, late: Floats, seen: int
) -> None:
    """Moves the coordinates (C, L) of token t's classes from label ``wrong`` towards ``right``; these may be pairs."""
    start, ids, value = features
    for k in range(start[t], start[t + 1]):
        c = ids[k]
        if allowed[c, right]:
            states[c, right] += value[c]
            late[c, right] += seen * value[c]
        if allowed[c, wrong]:
            states[c, wrong] -= value[c]
            late[c, wrong] -= seen * value[c]
