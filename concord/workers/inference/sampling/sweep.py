"""Kernels of the Gibbs sampler: sweeps over tokens, neighbours and spans.

A call passes every field of every array of a tuple, so a function that is called often takes the parts it reads instead
of the chain. Only a random start allocates an array here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Records
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import copy_to, inner_in_place, kernel, kernel_in_place
from concord.workers.inference.core.agreement import (
    AgreementState,
    count_labels,
    item_end,
    labels_cost,
    outside_cost,
    span_cost,
)
from concord.workers.inference.core.recursion import edge_place
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.sampling.draws import choose, decided, draw_within, likeliest, uniform, weigh
from concord.workers.inference.sampling.group_move import resample_group
from concord.workers.inference.sampling.labelling import Labelling, is_span, local_score, region
from concord.workers.inference.sampling.memory import UNKNOWN_COST, Readers, forget_readers, note_labels
from concord.workers.inference.sampling.state import CHAIN_NOW, Chain, advance, count_work, touch, write

SWEEPS_A_PAIR = 20
"""Sweeps from one resampling of neighbouring pairs to the next: a pair is costly, with L² labellings to weigh."""

SWEEPS_A_GROUP = 20
"""Sweeps from one group move to the next: settling finds later what rare moves miss."""


@kernel_in_place
def anneal(chain: Chain, temperatures: Floats, done: int, limit: int) -> int:
    """Sweeps over the document in place, one for each of ``temperatures`` (> 0); ``done`` sweeps came before.

    Returns the number of complete sweeps. It stops when the chain's work reaches ``limit``; the next call goes on
    there.
    """
    count, now = len(chain.best), chain.now
    for sweep in range(done, done + len(temperatures)):
        temperature = temperatures[sweep - done]
        if now[0].next_token == 0 and sweep % SWEEPS_A_GROUP == 0:
            for group in range(len(chain.groups.pointer) - 1):
                resample_group(chain, group, temperature)
        now[0].next_token = np.uint64(_swept(chain, int(now[0].next_token), sweep, temperature, limit))
        if now[0].next_token < count:
            return sweep - done
        now[0].next_token = np.uint64(0)
    return len(temperatures)


@inner_in_place
def _swept(chain: Chain, first: int, sweep: int, temperature: float, limit: int) -> int:
    """Resamples every token from ``first`` on: alone, with the next one, and in its slots; returns where it stopped."""
    count, width = chain.at.unary.shape
    types, scratch = len(chain.at.codec.opening), chain.scratch
    opens_sentence, pair_gain = chain.at.codec.opens_sentence, chain.pair_gain
    margin, cost_bound, slots = chain.margin, chain.cost_bound, chain.slots
    now = chain.now
    for t in range(first, count):
        if t > first and int(now[0].work) >= limit:
            return t
        count_work(now, 1 + slots.pointer[t + 1] - slots.pointer[t])
        if cost_bound[t] == UNKNOWN_COST:
            _remember(chain.readers, chain.spans, chain.at, t, cost_bound, now)
        draw = draw_within(now, (margin[t] + now[0].row_penalty + cost_bound[t]) / temperature, width)
        if draw < 1.0:
            _resample(chain, t, t + 1, scratch.single, draw, temperature)
        if sweep % SWEEPS_A_PAIR == 0 and not opens_sentence[t + 1]:
            if pair_gain[t] == UNKNOWN_COST:
                pair_gain[t] = _best_pair(chain.at, t)
            removable = now[0].row_penalty + _cost_now(chain.spans, chain.at, t, t + 2)
            draw = draw_within(now, (pair_gain[t] + removable) / temperature, width * width)
            if draw < 1.0:
                _resample(chain, t, t + 2, scratch.pairs, draw, temperature)
        for slot in range(slots.pointer[t], slots.pointer[t + 1]):
            end = slots.end[slot]
            if slots.gain[slot] == UNKNOWN_COST:
                count_work(now, end - t)
                slots.gain[slot] = _slot_options(chain.at, t, end, scratch.slot)[1]
            removable = now[0].row_penalty
            count_work(now, end - t)
            for i in range(t, end):
                if cost_bound[i] == UNKNOWN_COST:
                    _remember(chain.readers, chain.spans, chain.at, i, cost_bound, now)
                removable += cost_bound[i]
            draw = draw_within(now, (slots.gain[slot] + removable) / temperature, types + 1)
            if draw < 1.0:
                choices = _slot_options(chain.at, t, end, scratch.slot)[0]
                _resample(chain, t, end, scratch.slot[:choices], draw, temperature)
    return int(count)


@inner_in_place
def _remember(readers: Readers, spans: AgreementState, at: Labelling, t: int, cost_bound: Floats, now: Records) -> None:
    """Computes ``cost_bound[t]``, and notes every key whose counts were read."""
    low, high = region(at, t, t + 1)
    count_work(now, high - low)
    note_labels(readers, spans, at.codec, at.labels, low, high)
    cost_bound[t] = _cost_now(spans, at, t, t + 1)


@inner_in_place
def _cost_now(spans: AgreementState, at: Labelling, first: int, last: int) -> float:
    """Upper bound of the present cost of the labels at ``first:last`` and the spans next to them, in nats.

    Pairs of spans among them count twice.
    """
    low, high = region(at, first, last)
    total, t = ROUNDING, low
    while t < high:
        kind = at.codec.type_of[at.labels[t]]
        end = item_end(at.codec.continues, at.codec.opens_sentence, at.labels, t, high)
        total += outside_cost(spans, t) if kind < 0 else span_cost(spans, t, end, kind)
        t = end
    return total


@inner_in_place
def _resample(chain: Chain, first: int, last: int, options: Labels, draw: float, temperature: float) -> None:
    """Resamples ``first:last`` among ``options``; the present labels must be one of them.

    The weight of each option is bounded by its local gain and the most that it could save. Options are scored exactly
    one by one, the likeliest first, until the draw is decided: either it keeps the present labels by the bound on all
    others (`decided`), or no unscored option has a weight that a draw could show.
    """
    at, spans, now, count = chain.at, chain.spans, chain.now, len(options)
    low, high = region(at, first, last)
    count_work(chain.now, high - low + count)
    gain, weight, tried = chain.scratch.gain[:count], chain.scratch.weight[:count], chain.scratch.tried[:count]
    current = _local_gains(at, first, last, options, gain)
    weigh(gain, _cost_now(spans, at, first, last) + now[0].row_penalty, temperature, weight)
    weight[current] = 0.0
    if decided(draw, weight.sum()):
        return
    count_labels(spans, at.codec, at.labels, low, high, -1)
    old_cost = labels_cost(spans, at.codec, at.labels, low, high)
    tried[:] = False
    tried[current] = True
    row_growth, span_growth, grown = chain.scratch.row_growth, chain.scratch.span_growth, 0.0
    chosen, undecided = current, True
    while undecided:
        option = likeliest(weight, tried)
        if decided(draw, weight.sum()):
            undecided = False
        elif option < 0:
            chosen, undecided = choose(gain, tried, current, draw, temperature), False
        else:
            count_work(chain.now, high - low)
            grown += write(chain.rows, at.labels, first, last, options[option])
            row_growth[option] = grown
            span_growth[option] = labels_cost(spans, at.codec, at.labels, low, high) - old_cost
            gain[option] -= span_growth[option] + grown
            weigh(gain[option : option + 1], 0.0, temperature, weight[option : option + 1])
            tried[option] = True
    write(chain.rows, at.labels, first, last, options[chosen])
    count_labels(spans, at.codec, at.labels, low, high, 1)
    if chosen != current:
        forget_readers(chain.readers, spans, at, chain.cost_bound, low, high)
        copy_to(at.labels[first:last], options[current])
        forget_readers(chain.readers, spans, at, chain.cost_bound, low, high)
        copy_to(at.labels[first:last], options[chosen])
        touch(chain, first, last, _differing(options, chosen, current, last - first))
        advance(chain, gain[chosen], row_growth[chosen], span_growth[chosen])


@inner_in_place
def _differing(options: Labels, one: int, other: int, length: int) -> int:
    """Number of labels in which two of the ``options`` differ, which are ``length`` labels long."""
    count = 0
    for i in range(length):
        count += options[one, i] != options[other, i]
    return count


@inner_in_place
def _local_gains(at: Labelling, first: int, last: int, options: Labels, gain: Floats) -> int:
    """Writes the local gain of each option over the present labels in nats; returns the index of the present labels."""
    before, current = local_score(at, first, last, at.labels[first:last]), 0
    for c in range(len(options)):
        gain[c] = local_score(at, first, last, options[c]) - before
        same = True
        for i in range(last - first):
            same &= options[c, i] == at.labels[first + i]
        if same:
            current = c
    return current


@inner_in_place
def _best_pair(at: Labelling, t: int) -> float:
    """The best local gain of other labels for tokens t and t + 1 together, in nats."""
    unary, edge, labels, opens_sentence = at.unary, at.edge, at.labels, at.codec.opens_sentence
    now, best = 0.0, -np.inf
    for one in range(unary.shape[1]):
        left = unary[t, one]
        if not opens_sentence[t]:
            left += edge[edge_place(edge, t), labels[t - 1], one]
        for other in range(unary.shape[1]):
            value = left + edge[edge_place(edge, t + 1), one, other] + unary[t + 1, other]
            if not opens_sentence[t + 2]:
                value += edge[edge_place(edge, t + 2), other, labels[t + 2]]
            if one == labels[t] and other == labels[t + 1]:
                now = value
            else:
                best = max(best, value)
    return best - now


@inner_in_place
def _slot_options(at: Labelling, start: int, end: int, options: Labels) -> tuple[int, float]:
    """Writes the labels that the slot ``start:end`` can hold; returns their number and the best local gain in nats.

    A slot can hold no span, if the label set has an outside label, or one span of any type that stays apart from its
    neighbours. While it holds anything else now (a part of a longer span, say) it is not resampled: the number is 0.
    """
    codec, labels = at.codec, at.labels
    length = end - start
    choices = 0
    blank = codec.type_of[labels[start]] < 0
    for t in range(start + 1, end):
        blank &= labels[t] == labels[start]
    if not blank and not is_span(at, start, end):
        return 0, -np.inf
    for label in codec.outside:
        options[choices, :length] = label
        choices += 1
    for kind in range(len(codec.opening)):
        opening, inside = codec.opening[kind], codec.inside[kind]
        apart = codec.opens_sentence[start] or not codec.continues[labels[start - 1], opening]
        if apart and (codec.opens_sentence[end] or not codec.continues[inside, labels[end]]):
            options[choices, 0] = opening
            options[choices, 1:length] = inside
            choices += 1
    now = local_score(at, start, end, labels[start:end])
    gain = -np.inf
    for c in range(choices):
        if options[c, 0] != labels[start]:
            gain = max(gain, local_score(at, start, end, options[c]) - now)
    return choices, gain


@kernel
def random_labels(
    unary: Floats, edge: Floats, backward: Floats, opens_sentence: NDArray[np.bool_], seed: np.uint64
) -> Labels:
    """Random labels (N,), one by one: uniform among the labels from which the sentence can still be finished."""
    count, width = unary.shape
    now = np.zeros(1, CHAIN_NOW)
    now[0].random = seed
    labels = np.zeros(count, np.int32)
    allowed = np.empty(width, np.int32)
    for t in range(count):
        kept = 0
        for label in range(width):
            step = 0.0 if opens_sentence[t] else edge[edge_place(edge, t), labels[t - 1], label]
            if step + unary[t, label] + backward[t, label] > -np.inf:
                allowed[kept] = label
                kept += 1
        if kept:
            labels[t] = allowed[int(uniform(now) * kept)]
    return labels
