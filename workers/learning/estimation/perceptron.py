"""The averaged structured perceptron (Collins 2002, figure 2 and §2.3), over the chains of a CRF.

Sentence by sentence, with ŷ the best labelling under the weights so far and y gold, w ← w + f(y) − f(ŷ). The weights
returned are the mean over all T sentences that were looked at, so that the last ones do not decide: of changes Δ_s,
made at the s-th sentence,

    (1 / T) Σ_t w_t = w_T − (1 / T) Σ_s (s − 1) Δ_s.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints, Mask
from concord.workers.compiling.kernel import kernel_in_place
from concord.workers.learning.estimation.chains import TrainingChains, score_tokens


def run_passes(chains: TrainingChains, start: Floats, passes: int, rng: np.random.Generator) -> Iterator[int]:
    """Moves ``start`` (size,) in place, to the mean after the last pass; gives the wrong labels that each pass met.

    ``rng`` decides in which order each pass takes the sentences.
    """
    gold = chains.gold
    late = np.zeros_like(start)
    count, longest = len(gold.bounds) - 1, int(np.diff(gold.bounds).max(initial=0))
    scores, back = np.zeros((longest, gold.width)), np.zeros((longest, gold.width), np.int32)
    answer = np.zeros(longest, np.int32)
    for number in range(passes):
        arrays = (*chains.flat, chains.value, gold.labels, gold.bounds, rng.permutation(count))
        points = (chains.states, chains.transitions, *chains.parts(start), *chains.parts(late))
        wrong = _pass(*arrays, number * count, *points, scores, back, answer)
        if number == passes - 1:
            start -= late / max(1, passes * count)
        yield wrong


@kernel_in_place
def _pass(
    start: Ints,
    ids: Ids,
    value: Floats,
    gold: Ids,
    bounds: Ints,
    order: Ints,
    seen: int,
    has_state: Mask,
    has_transition: Mask,
    states: Floats,
    transitions: Floats,
    late_states: Floats,
    late_transitions: Floats,
    scores: Floats,
    back: Ids,
    answer: Ids,
) -> int:
    """One pass, ``seen`` sentences after the first; the late sums are Σ (s − 1) Δ_s. Returns the wrong labels."""
    wrong = 0
    for s in order:
        first, last = bounds[s], bounds[s + 1]
        score_tokens(start, ids, value, states, first, last, scores)
        _best(scores[: last - first], transitions, back, answer)
        wrong += correct(
            start, ids, value, gold, answer, first, first, last, has_state, has_transition,
            states, transitions, late_states, late_transitions, seen,
        )  # fmt: skip
        seen += 1
    return wrong


@kernel_in_place
def correct(
    start: Ints,
    ids: Ids,
    value: Floats,
    gold: Ids,
    answer: Ids,
    begin: int,
    first: int,
    last: int,
    has_state: Mask,
    has_transition: Mask,
    states: Floats,
    transitions: Floats,
    late_states: Floats,
    late_transitions: Floats,
    seen: int,
) -> int:
    """Moves the weights from ``answer``, whose first label is token ``begin``'s, to gold on the sentence from ``first``
    to ``last``; returns the wrong labels."""
    wrong = 0
    for t in range(first, last):
        right, found = gold[t], answer[t - begin]
        if t > first:
            before, found_before = gold[t - 1], answer[t - begin - 1]
            if (before, right) != (found_before, found):
                if has_transition[before, right]:
                    transitions[before, right] += 1.0
                    late_transitions[before, right] += seen
                if has_transition[found_before, found]:
                    transitions[found_before, found] -= 1.0
                    late_transitions[found_before, found] -= seen
        if right == found:
            continue
        wrong += 1
        for k in range(start[t], start[t + 1]):
            c = ids[k]
            if has_state[c, right]:
                states[c, right] += value[c]
                late_states[c, right] += seen * value[c]
            if has_state[c, found]:
                states[c, found] -= value[c]
                late_states[c, found] -= seen * value[c]
    return wrong


@kernel_in_place
def _best(scores: Floats, transitions: Floats, back: Ids, answer: Ids) -> None:
    """Writes the best labels of a sentence to ``answer``; ties go to the lowest. ``scores`` (n, L) become messages."""
    count, width = scores.shape
    for t in range(1, count):
        for y in range(width):
            best = 0
            for x in range(1, width):
                if scores[t - 1, x] + transitions[x, y] > scores[t - 1, best] + transitions[best, y]:
                    best = x
            back[t, y] = best
            scores[t, y] += scores[t - 1, best] + transitions[best, y]
    label = 0
    for y in range(1, width):
        if scores[count - 1, y] > scores[count - 1, label]:
            label = y
    for t in range(count - 1, -1, -1):
        answer[t] = label
        label = back[t, label]
