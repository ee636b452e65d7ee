"""Kernels of the Gibbs sampler: sweeps over tokens, neighbours, spans and groups of equal words.

A call passes every field of every array of a tuple: what is called often takes the parts it reads, not the
chain. Nothing here but a random start makes an array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schemas.labels import Labels, LabelSet
from schemas.potentials import Floats
from schemas.problem import NO_KEY
from workers.inference.agreement import (
    DIFFERENT,
    AgreementState,
    Codec,
    count_labels,
    item_end,
    labels_cost,
    outside_cost,
    span_cost,
)
from workers.inference.names import Groups
from workers.inference.relaxation_kernels import Ints
from workers.inference.rows import RowState, set_label
from workers.kernel import inner_in_place, kernel, kernel_in_place

CERTAIN = 40.0
"""A margin of this many temperatures leaves less probability than a 53-bit uniform can show."""

NEGLIGIBLE = np.exp(-CERTAIN)
LARGEST_EXPONENT = 600.0
"""Keeps bounds on weights finite; no draw is above one of this size."""

UNKNOWN = np.inf
ROUNDING = 1e-9

SWEEPS_A_PAIR = 20
"""Two neighbours are resampled together at every twentieth sweep: a pair has many labellings to weigh."""

SWEEPS_A_GROUP = 20
"""Places of the same words change together at every twentieth sweep: what that misses is settled afterwards."""

STATE, DIRTY, FLIPS = 0, 1, 2
"""Places in ``counters``."""
NOW, BEST, ROWS, SPANS = 0, 1, 2, 3
"""Places in ``numbers``."""


class Labelling(NamedTuple):
    """Where a chain stands, ``labels`` (N,), and what scores it locally."""

    unary: Floats
    transition: Floats
    labels: Labels
    codec: Codec


class Slots(NamedTuple):
    """Places of several tokens where a span could be, ordered by start.

    Those of token t are ``pointer[t]:pointer[t + 1]`` of ``end`` and ``gain`` (the best local gain, or
    `UNKNOWN`); ``reach`` (1,) is how long the longest is.
    """

    pointer: Ints
    end: Ints
    gain: Floats
    reach: Ints


class Places(NamedTuple):
    """Where each key stands in the document, see `places_by_key`."""

    tokens: Ints
    bounds: Ints


class Scratch(NamedTuple):
    """Where a choice is worked out: labels to choose among, and what each choice means.

    One label is chosen from ``single`` (L, 1), two from ``pairs`` (L², 2), those of a slot from ``slot``
    (T + 1, N). Of C choices at most, ``gain`` (C,) are nats, exact where ``tried`` (C,), ``weight`` (C,) bounds
    their probability against that of the labels now, ``row_growth`` and ``span_growth`` (C,) are what penalties
    grow. ``members`` (P, 2) are places of one group.
    """

    single: Labels
    pairs: Labels
    slot: Labels
    gain: Floats
    weight: Floats
    row_growth: Floats
    span_growth: Floats
    tried: Any
    members: Ints


class Chain(NamedTuple):
    """One Markov chain over labellings: all arrays that the kernels read and write.

    ``best`` (N,) is the best labelling seen; ``dirty`` lists the positions at which it may differ from the
    one now, ``is_dirty`` (N,) marks them. ``margin`` (N,) is the best local gain of any other label,
    ``pays`` (N,) is what the labels at the token, and spans next to it, cost now at most, or `UNKNOWN`.
    ``pair_gain`` (N,) is the best local gain of token t and the next together. ``numbers``:
    objective now, best objective, penalty of rows and of spans now. ``counters``: random state, length of
    ``dirty``, flips.
    """

    at: Labelling
    best: Labels
    dirty: Ints
    is_dirty: Any
    margin: Floats
    pays: Floats
    places: Places
    pair_gain: Floats
    slots: Slots
    groups: Groups
    numbers: Floats
    counters: Any
    spans: AgreementState
    rows: RowState
    scratch: Scratch


def scratch_for(labels: LabelSet, count: int, groups: Groups) -> Scratch:
    """Scratch of a document of ``count`` tokens."""
    width, types = len(labels), len(labels.types)
    choices = max(width * width, types + 1)
    return Scratch(
        np.arange(width, dtype=np.int32)[:, None],
        np.indices((width, width), np.int32).reshape(2, -1).T.copy(),
        np.zeros((types + 1, count), np.int32),
        np.zeros(choices),
        np.zeros(choices),
        np.zeros(choices),
        np.zeros(choices),
        np.zeros(choices, np.bool_),
        np.zeros((int(np.diff(groups.pointer).max(initial=0)), 2), np.int64),
    )


@kernel_in_place
def anneal(chain: Any, temperatures: Any, done: int) -> None:
    """One sweep over the document a temperature (> 0), in place; ``done`` sweeps came before."""
    count, width = chain.at.unary.shape
    types, scratch = len(chain.at.codec.opening), chain.scratch
    opens_sentence, pair_gain = chain.at.codec.opens_sentence, chain.pair_gain
    margin, pays, numbers, counters, slots = chain.margin, chain.pays, chain.numbers, chain.counters, chain.slots
    for sweep in range(done, done + len(temperatures)):
        temperature = temperatures[sweep - done]
        for group in range(len(chain.groups.pointer) - 1 if sweep % SWEEPS_A_GROUP == 0 else 0):
            _resample_group(chain, group, temperature)
        for t in range(count):
            if pays[t] == UNKNOWN:
                pays[t] = _paid(chain.spans, chain.at, t, t + 1)
            draw = _draw(counters, (margin[t] + numbers[ROWS] + pays[t]) / temperature, width)
            if draw < 1.0:
                _resample(chain, t, t + 1, scratch.single, draw, temperature)
            if sweep % SWEEPS_A_PAIR == 0 and not opens_sentence[t + 1]:
                if pair_gain[t] == UNKNOWN:
                    pair_gain[t] = _best_pair(chain.at, t)
                paid = numbers[ROWS] + _paid(chain.spans, chain.at, t, t + 2)
                draw = _draw(counters, (pair_gain[t] + paid) / temperature, width * width)
                if draw < 1.0:
                    _resample(chain, t, t + 2, scratch.pairs, draw, temperature)
            for slot in range(slots.pointer[t], slots.pointer[t + 1]):
                end = slots.end[slot]
                if slots.gain[slot] == UNKNOWN:
                    slots.gain[slot] = _slot_options(chain.at, t, end, scratch.slot)[1]
                paid = numbers[ROWS]
                for i in range(t, end):
                    if pays[i] == UNKNOWN:
                        pays[i] = _paid(chain.spans, chain.at, i, i + 1)
                    paid += pays[i]
                draw = _draw(counters, (slots.gain[slot] + paid) / temperature, types + 1)
                if draw < 1.0:
                    choices = _slot_options(chain.at, t, end, scratch.slot)[0]
                    _resample(chain, t, end, scratch.slot[:choices], draw, temperature)


@inner_in_place
def _uniform(counters: Any) -> Any:
    """A uniform number in (0, 1): splitmix64 over the chain's own counter."""
    counters[STATE] += np.uint64(0x9E3779B97F4A7C15)
    z = counters[STATE]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@inner_in_place
def _draw(counters: Any, exponent: float, choices: int) -> Any:
    """A uniform draw, or 2 where no draw could change anything.

    ``exponent`` is the most that another choice gains locally plus what the document pays now for
    rows, and the site for spans (a change cannot save more), over the temperature: the other
    choices together have at most the mass (choices − 1) · exp(exponent).
    """
    if exponent < -CERTAIN:
        return 2.0
    draw = _uniform(counters)
    if exponent < 0.0 and draw >= (choices - 1) * np.exp(exponent):
        return 2.0
    return draw


@inner_in_place
def _paid(spans: Any, at: Any, first: int, last: int) -> Any:
    """Nats that the labels at ``first:last``, and spans next to it, cost now at most: pairs among them count twice."""
    low, high = _region(at, first, last)
    total, t = ROUNDING, low
    while t < high:
        kind = at.codec.type_of[at.labels[t]]
        end = item_end(at.codec.continues, at.codec.opens_sentence, at.labels, t, high)
        total += outside_cost(spans, t) if kind < 0 else span_cost(spans, t, end, kind)
        t = end
    return total


@inner_in_place
def _region(at: Any, first: int, last: int) -> Any:
    """The smallest part around ``first:last`` that no span crosses, whatever its labels."""
    codec, labels = at.codec, at.labels
    low = first
    if not codec.opens_sentence[low] and codec.type_of[labels[low - 1]] >= 0:
        low -= 1
        while not codec.opens_sentence[low] and codec.continues[labels[low - 1], labels[low]]:
            low -= 1
    high = last
    if not codec.opens_sentence[high] and codec.type_of[labels[high]] >= 0:
        high += 1
        while not codec.opens_sentence[high] and codec.continues[labels[high - 1], labels[high]]:
            high += 1
    return low, high


@inner_in_place
def _local(at: Any, first: int, last: int, option: Any) -> Any:
    """Local score of ``option`` at ``first:last``, transitions to both neighbours included."""
    total = 0.0
    for i in range(last - first):
        t = first + i
        total += at.unary[t, option[i]]
        if not at.codec.opens_sentence[t]:
            previous = at.labels[t - 1] if i == 0 else option[i - 1]
            total += at.transition[previous, option[i]]
    if not at.codec.opens_sentence[last]:
        total += at.transition[option[last - first - 1], at.labels[last]]
    return total


@inner_in_place
def _local_gains(at: Any, first: int, last: int, options: Any, gain: Any) -> Any:
    """Writes what each option gains locally over the labels now; returns which of them these are."""
    before, current = _local(at, first, last, at.labels[first:last]), 0
    for c in range(len(options)):
        gain[c] = _local(at, first, last, options[c]) - before
        same = True
        for i in range(last - first):
            same &= options[c, i] == at.labels[first + i]
        if same:
            current = c
    return current


@inner_in_place
def _write(rows: Any, labels: Any, first: int, last: int, option: Any) -> Any:
    """Sets labels and row sums; returns by how much the rows' penalty grew."""
    grown = 0.0
    for i in range(last - first):
        if len(rows.bound):
            grown += set_label(rows, labels, first + i, option[i])
        else:
            labels[first + i] = option[i]
    return grown


@inner_in_place
def _resample(chain: Any, first: int, last: int, options: Any, draw: float, temperature: float) -> None:
    """Resamples ``first:last`` among ``options``; its labels now must be one of them.

    Options are tried from the likeliest on: each has a bound, its local gain and all that may be
    saved, until it is tried. Nothing changes as soon as the draw is above the mass that all others can have.
    """
    at, spans, numbers, count = chain.at, chain.spans, chain.numbers, len(options)
    low, high = _region(at, first, last)
    gain, weight, tried = chain.scratch.gain[:count], chain.scratch.weight[:count], chain.scratch.tried[:count]
    current = _local_gains(at, first, last, options, gain)
    _weigh(gain, _paid(spans, at, first, last) + numbers[ROWS], temperature, weight)
    weight[current] = 0.0
    if _decided(draw, weight.sum()):
        return
    count_labels(spans, at.codec, at.labels, low, high, -1)
    old_cost = labels_cost(spans, at.codec, at.labels, low, high)
    tried[:] = False
    tried[current] = True
    row_growth, span_growth, grown = chain.scratch.row_growth, chain.scratch.span_growth, 0.0
    chosen, undecided = current, True
    while undecided:
        option = _likeliest(weight, tried)
        if _decided(draw, weight.sum()):
            undecided = False
        elif option < 0:
            chosen, undecided = _choose(gain, tried, current, draw, temperature), False
        else:
            grown += _write(chain.rows, at.labels, first, last, options[option])
            row_growth[option] = grown
            span_growth[option] = labels_cost(spans, at.codec, at.labels, low, high) - old_cost
            gain[option] -= span_growth[option] + grown
            weight[option], tried[option] = np.exp(min(gain[option] / temperature, LARGEST_EXPONENT)), True
    _write(chain.rows, at.labels, first, last, options[chosen])
    count_labels(spans, at.codec, at.labels, low, high, 1)
    if chosen != current:
        _touch(chain, first, last)
        _advance(chain, gain[chosen], row_growth[chosen], span_growth[chosen])


@inner_in_place
def _decided(draw: float, mass: float) -> Any:
    """Does a draw keep the labels now, whose weight is 1, where all others together weigh at most ``mass``?"""
    return draw * (1.0 + mass) >= mass


@inner_in_place
def _weigh(gain: Any, saved: float, temperature: float, weight: Any) -> None:
    """Writes the most that each option weighs if it saves ``saved`` nats, the labels now weighing 1."""
    for c in range(len(gain)):
        weight[c] = np.exp(min((gain[c] + saved) / temperature, LARGEST_EXPONENT))


@inner_in_place
def _likeliest(weight: Any, tried: Any) -> Any:
    """The option with most weight of those not tried, −1 where no draw could show any of them."""
    found, most = -1, NEGLIGIBLE
    for c in range(len(weight)):
        if not tried[c] and weight[c] > most:
            found, most = c, weight[c]
    return found


@inner_in_place
def _choose(gain: Any, tried: Any, current: int, draw: float, temperature: float) -> Any:
    """Which of the options that are tried a draw chooses, the current one among them.

    The others come first in [0, 1), so that a draw above their bound keeps the current one.
    """
    top, mass, reached = gain[current], 0.0, 0.0
    for c in range(len(gain)):
        if tried[c]:
            top = max(top, gain[c])
    for c in range(len(gain)):
        mass += np.exp((gain[c] - top) / temperature) if tried[c] else 0.0
    for c in range(len(gain)):
        if tried[c] and c != current:
            reached += np.exp((gain[c] - top) / temperature) / mass
            if draw < reached:
                return c
    return current


@inner_in_place
def _touch(chain: Any, first: int, last: int) -> None:
    """Notes that ``first:last`` changed: margins and slots near it, and where ``best`` may differ."""
    count, slots = len(chain.best), chain.slots
    chain.counters[FLIPS] += np.uint64(last - first)
    set_margins(chain.at, chain.margin, max(0, first - 1), min(count, last + 1))
    _forget_pays(chain, first, last)
    for slot in range(slots.pointer[max(0, first - slots.reach[0])], slots.pointer[min(count, last + 1)]):
        if slots.end[slot] >= first:
            slots.gain[slot] = UNKNOWN
    chain.pair_gain[max(0, first - 2) : last + 1] = UNKNOWN
    for t in range(first, last):
        if not chain.is_dirty[t]:
            chain.is_dirty[t] = True
            chain.dirty[chain.counters[DIRTY]] = t
            chain.counters[DIRTY] += np.uint64(1)


@inner_in_place
def _forget_pays(chain: Any, first: int, last: int) -> None:
    """Forgets what is paid at ``first:last``, next to it, and wherever words from there stand.

    Spans and outside labels around ``first:last`` have changed, and no key that does not begin there
    is counted otherwise now.
    """
    at, spans, places = chain.at, chain.spans, chain.places
    low, high = _region(at, first, last)
    chain.pays[max(0, low - 1) : high + 1] = UNKNOWN
    for a in range(len(spans.relation)):
        if spans.relation[a] == DIFFERENT:
            chain.pays[:] = UNKNOWN
    for g in range(len(spans.keys)):
        for t in range(low, high):
            for key in spans.keys[g, t]:
                if key != NO_KEY:
                    for place in places.tokens[g, places.bounds[g, key] : places.bounds[g, key + 1]]:
                        _forget_place(at, chain.pays, place)


@inner_in_place
def _forget_place(at: Any, pays: Any, place: int) -> None:
    """Forgets what is paid for the label at a token or, if a span holds it, on and beside that."""
    if at.codec.type_of[at.labels[place]] < 0:
        pays[place] = UNKNOWN
        return
    start, end = place, place + 1
    while not at.codec.opens_sentence[start] and at.codec.continues[at.labels[start - 1], at.labels[start]]:
        start -= 1
    while not at.codec.opens_sentence[end] and at.codec.continues[at.labels[end - 1], at.labels[end]]:
        end += 1
    pays[max(0, start - 1) : end + 1] = UNKNOWN


@inner_in_place
def _advance(chain: Any, gain: float, row_growth: float, span_growth: float) -> None:
    """Follows the objective and the penalties, and keeps the labels if none seen were better."""
    numbers = chain.numbers
    numbers[NOW] += gain
    numbers[ROWS] = max(0.0, numbers[ROWS] + row_growth)
    numbers[SPANS] = max(0.0, numbers[SPANS] + span_growth)
    if numbers[NOW] <= numbers[BEST]:
        return
    numbers[BEST] = numbers[NOW]
    for i in range(chain.counters[DIRTY]):
        t = chain.dirty[i]
        chain.best[t] = chain.at.labels[t]
        chain.is_dirty[t] = False
    chain.counters[DIRTY] = np.uint64(0)


@inner_in_place
def _resample_group(chain: Any, group: int, temperature: float) -> None:
    """Resamples places of the same words together: all spans of one type or, in some groups, all left out.

    Looks at all places of the group or at a random half, and changes them only if they agree now.
    Which are looked at does not depend on their labels, and places that may be left out never
    overlap, so the labellings among which it chooses look the same from each.
    """
    at, numbers, scratch = chain.at, chain.numbers, chain.scratch
    count, current = _agreeing(at, chain.groups, group, chain.counters, scratch.members)
    if count == 0:
        return
    members, option = scratch.members[:count], scratch.slot[0]
    choices = len(at.codec.opening) + int(chain.groups.may_leave[group])
    gain, weight, tried = scratch.gain[:choices], scratch.weight[:choices], scratch.tried[:choices]
    for choice in range(choices):
        _write_group(chain.rows, at, members, choice, option)
        gain[choice] = _group_local(at, members)
    _write_group(chain.rows, at, members, current, option)
    before = gain[current]
    for choice in range(choices):
        gain[choice] -= before
    draw = _uniform(chain.counters)
    _weigh(gain, numbers[ROWS] + numbers[SPANS] + ROUNDING, temperature, weight)
    weight[current] = 0.0
    if draw >= weight.sum():
        return
    _count_group(chain.spans, at, members, -1)
    old_cost = _group_cost(chain.spans, at, members)
    row_growth, span_growth, grown = scratch.row_growth, scratch.span_growth, 0.0
    for choice in range(choices):
        grown += _write_group(chain.rows, at, members, choice, option)
        row_growth[choice] = grown
        span_growth[choice] = _group_cost(chain.spans, at, members) - old_cost
        gain[choice] -= grown + span_growth[choice]
    tried[:] = True
    chosen = _choose(gain, tried, current, draw, temperature)
    _write_group(chain.rows, at, members, chosen, option)
    _count_group(chain.spans, at, members, 1)
    if chosen == current:
        return
    for m in range(count):
        _touch(chain, members[m, 0], members[m, 1])
    _advance(chain, gain[chosen], row_growth[chosen], span_growth[chosen])


@inner_in_place
def _agreeing(at: Any, groups: Any, group: int, counters: Any, members: Any) -> Any:
    """Writes the group's places, or a random half, where each is a span of one type or left out.

    Returns how many, none if they disagree, and what they are: a type, or the number of types where all
    are left out. A place that is anything else now (part of a longer span, say, or left out where the
    group may not be) is passed over.
    """
    type_of, types = at.codec.type_of, len(at.codec.opening)
    count, current = 0, -1
    everyone = _uniform(counters) < 0.5
    for place in range(groups.pointer[group], groups.pointer[group + 1]):
        if not everyone and _uniform(counters) < 0.5:
            continue
        first, last = groups.places[place, 0], groups.places[place, 1]
        kind = type_of[at.labels[first]]
        if kind < 0:
            if not groups.may_leave[group] or not _left_out(at, first, last):
                continue
            kind = types
        elif not _is_span(at, first, last):
            continue
        if current >= 0 and kind != current:
            return 0, -1
        current = kind
        members[count, 0], members[count, 1] = first, last
        count += 1
    return count, current


@inner_in_place
def _left_out(at: Any, first: int, last: int) -> Any:
    """Are all tokens of ``first:last`` outside?"""
    for t in range(first, last):
        if at.codec.type_of[at.labels[t]] >= 0:
            return False
    return True


@inner_in_place
def _write_group(rows: Any, at: Any, members: Any, choice: int, option: Any) -> Any:
    """Makes all members spans of one type, or leaves them out; returns by how much the rows' penalty grew."""
    codec = at.codec
    grown = 0.0
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        option[: last - first] = codec.outside[0] if choice == len(codec.opening) else codec.inside[choice]
        if choice < len(codec.opening):
            option[0] = codec.opening[choice]
        grown += _write(rows, at.labels, first, last, option)
    return grown


@inner_in_place
def _group_local(at: Any, members: Any) -> Any:
    """Local score of the members as they are labelled now, transitions to what is beside them included."""
    total, done = 0.0, -1
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        total += _local(at, first, last, at.labels[first:last])
        if first == done and not at.codec.opens_sentence[first]:
            # The member before it counted this transition already; −inf once is −inf.
            step = at.transition[at.labels[first - 1], at.labels[first]]
            total -= step if step > -np.inf else 0.0
        done = last
    return total


@inner_in_place
def _count_group(spans: Any, at: Any, members: Any, change: int) -> None:
    """Counts what the members are in (1) or out (−1)."""
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        count_labels(spans, at.codec, at.labels, first, last, change)


@inner_in_place
def _group_cost(spans: Any, at: Any, members: Any) -> Any:
    """Nats that the members cost with what is counted, they not being; see `labels_cost`."""
    total = 0.0
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        total += labels_cost(spans, at.codec, at.labels, first, last)
        count_labels(spans, at.codec, at.labels, first, last, 1)
    _count_group(spans, at, members, -1)
    return total


@kernel_in_place
def set_margins(at: Any, margin: Any, first: int, last: int) -> None:
    """Updates ``margin`` after labels next to ``first:last``, or there, changed."""
    unary, transition, labels, opens_sentence = at.unary, at.transition, at.labels, at.codec.opens_sentence
    for t in range(first, last):
        now, other = 0.0, -np.inf
        for label in range(unary.shape[1]):
            value = unary[t, label]
            if not opens_sentence[t]:
                value += transition[labels[t - 1], label]
            if not opens_sentence[t + 1]:
                value += transition[label, labels[t + 1]]
            if label == labels[t]:
                now = value
            else:
                other = max(other, value)
        margin[t] = other - now


@inner_in_place
def _best_pair(at: Any, t: int) -> Any:
    """The best local gain of other labels for tokens t and t + 1 together."""
    unary, transition, labels, opens_sentence = at.unary, at.transition, at.labels, at.codec.opens_sentence
    now, best = 0.0, -np.inf
    for one in range(unary.shape[1]):
        left = unary[t, one]
        if not opens_sentence[t]:
            left += transition[labels[t - 1], one]
        for other in range(unary.shape[1]):
            value = left + transition[one, other] + unary[t + 1, other]
            if not opens_sentence[t + 2]:
                value += transition[other, labels[t + 2]]
            if one == labels[t] and other == labels[t + 1]:
                now = value
            else:
                best = max(best, value)
    return best - now


@inner_in_place
def _is_span(at: Any, start: int, end: int) -> Any:
    """Is exactly ``start:end`` one labelled span now?"""
    codec, labels = at.codec, at.labels
    if codec.type_of[labels[start]] < 0:
        return False
    if not codec.opens_sentence[start] and codec.continues[labels[start - 1], labels[start]]:
        return False
    for t in range(start + 1, end):
        if not codec.continues[labels[t - 1], labels[t]]:
            return False
    return codec.opens_sentence[end] or not codec.continues[labels[end - 1], labels[end]]


@inner_in_place
def _slot_options(at: Any, start: int, end: int, options: Any) -> Any:
    """Writes what the slot ``start:end`` can hold; returns how many, and the best local gain.

    A slot holds one span of any type that stays apart from its neighbours, or, where the label
    set has an outside label, no span at all. While anything else stands there (a part of a longer
    span, say) it can hold nothing, and 0 is returned.
    """
    codec, labels = at.codec, at.labels
    length = end - start
    choices = 0
    blank = codec.type_of[labels[start]] < 0
    for t in range(start + 1, end):
        blank &= labels[t] == labels[start]
    if not blank and not _is_span(at, start, end):
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
    now = _local(at, start, end, labels[start:end])
    gain = -np.inf
    for c in range(choices):
        if options[c, 0] != labels[start]:
            gain = max(gain, _local(at, start, end, options[c]) - now)
    return choices, gain


@kernel
def random_labels(unary: Any, transition: Any, backward: Any, opens_sentence: Any, seed: Any) -> Any:
    """Label by label, uniform among those from which the sentence can still be finished."""
    count, width = unary.shape
    counters = np.array([seed])
    labels = np.zeros(count, np.int32)
    allowed = np.empty(width, np.int32)
    for t in range(count):
        kept = 0
        for label in range(width):
            step = 0.0 if opens_sentence[t] else transition[labels[t - 1], label]
            if step + unary[t, label] + backward[t, label] > -np.inf:
                allowed[kept] = label
                kept += 1
        if kept:
            labels[t] = allowed[int(_uniform(counters) * kept)]
    return labels
