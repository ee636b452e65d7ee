"""Annealed Gibbs sampling over a whole document: Finkel, Grenager & Manning (2005) §2 and §6.

One sweep visits every token. Its label is resampled from the conditional given all others
(eq. 1, 4 and 7), raised to 1/c (eq. 2) with c falling linearly from 1 towards 0. A blocked move
follows at the same token, because a span of several tokens cannot change its type one label at a
time: each slot there (a place where the local model could see a span) is resampled over {no span,
one span of each type}. At some sweeps two neighbours are resampled together, which is how the
first token of a span moves (alone it cannot: what follows would continue nothing). Now and then
all spans of the same words are resampled over the types at once. Each is a Gibbs step over a set of
labellings that looks the same from all its members, so the stationary distribution stays that of
the model.

Most sites are certain. The mass of all other labels is bounded from the local margin and the
penalty that the site's spans carry now; where a uniform draw falls above that bound nothing can
change, and nothing more is computed. This is exact, not an approximation.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from schemas.decoded import Budget, Decoded, Improvement, Status
from schemas.labels import Labels, Scheme
from schemas.problem import Problem
from schemas.settings import GibbsSettings
from workers.inference.agreement import (
    AgreementState,
    Codec,
    add_labels,
    codec,
    empty_state,
    outside_cost,
)
from workers.inference.chain import max_messages, viterbi
from workers.inference.engine import TOLERANCE, UNLIMITED, proven
from workers.inference.names import groups_of, places_of, settled
from workers.inference.rows import RowState, row_penalty, row_state, set_label
from workers.inference.spans import candidate_spans

CERTAIN = 40.0
"""A margin of this many temperatures leaves less probability than a 53-bit uniform can show."""

UNKNOWN = np.inf
ROUNDING = 1e-9

SWEEPS_A_PAIR = 20
"""Two neighbours are resampled together at every twentieth sweep: a pair has many labellings to weigh."""

SWEEPS_A_GROUP = 20
"""Places of the same words change together at every twentieth sweep: what that misses is settled afterwards."""


class Chain(NamedTuple):
    """One Markov chain over labellings: all arrays that the kernel reads and writes.

    ``labels`` (N,) is where it stands, ``best`` (N,) the best labelling seen; ``dirty`` lists the
    positions at which the two may differ, ``is_dirty`` (N,) marks them. ``margin`` (N,) is the best
    local gain of any other label, ``pays`` (N,) is 1 where a span on or beside the token, or leaving it
    unlabelled, can cost something and 0 elsewhere. ``numbers``: objective now, best objective, penalty of rows and
    of spans now. ``counters``: random state, length of ``dirty``, flips, sites that were not
    certain. Slots are ordered by start; those of token t are ``slot_pointer[t]:slot_pointer[t + 1]``
    of ``slot_end``, ``slot_gain`` (the best local gain, or `UNKNOWN`) and ``slot_pays``; ``reach`` is
    the longest. ``pair_gain`` (N,) is the best local gain of token t and the next together.
    """

    unary: NDArray[np.float64]
    transition: NDArray[np.float64]
    labels: NDArray[np.int32]
    best: NDArray[np.int32]
    dirty: NDArray[np.int64]
    is_dirty: NDArray[np.bool_]
    margin: NDArray[np.float64]
    pays: NDArray[np.float64]
    slot_pointer: NDArray[np.int64]
    slot_end: NDArray[np.int64]
    slot_gain: NDArray[np.float64]
    slot_pays: NDArray[np.float64]
    reach: NDArray[np.int64]
    pair_gain: NDArray[np.float64]
    group_pointer: NDArray[np.int64]
    group_start: NDArray[np.int64]
    group_end: NDArray[np.int64]
    group_may_leave: NDArray[np.bool_]
    numbers: NDArray[np.float64]
    counters: NDArray[np.uint64]
    codec: Codec
    spans: AgreementState
    rows: RowState


class Trace(NamedTuple):
    """What a chain did: objective after each sweep (nats), labels flipped, best labels and score."""

    objective: NDArray[np.float64]
    flips: int
    best: Labels
    best_objective: float


def solve(
    problem: Problem,
    *,
    config: GibbsSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """Runs ``config.chains`` annealed chains; the best labelling any of them saw is settled and returned.

    The first chain starts at ``incumbent``, or as ``config.start`` says; the others at random. Work
    is counted in resampled tokens. The bound is the local optimum, so a labelling without penalty
    at that optimum is proven, and where Viterbi's is that nothing is sampled.
    """
    started = time.perf_counter()
    best = viterbi(problem.potentials)
    bound = problem.potentials.score(best)
    first = best if config.start == "viterbi" else None
    best, objective = (best, problem.score(best).objective) if incumbent is None else _better(problem, best, incumbent)
    improvements = [Improvement(time.perf_counter() - started, 0, objective)]
    work = 0
    for number in range(config.chains if objective < bound - TOLERANCE else 0):
        start = incumbent if number == 0 and incumbent is not None else first if number == 0 else None
        chain = new_chain(problem, config=config, rng=rng, start=start)
        for from_sweep in range(0, config.sweeps, config.sweeps_a_check):
            if _spent(budget, started, work):
                break
            steps = range(from_sweep, min(config.sweeps, from_sweep + config.sweeps_a_check))
            anneal(chain, _temperatures(config, steps), from_sweep)
            work += len(steps) * len(problem)
            seen = chain.best.copy()
            value = problem.score(seen).objective
            if value > objective:
                best, objective = seen, value
                improvements.append(Improvement(time.perf_counter() - started, work, objective))
    spent = _spent(budget, started, work)
    if work and not spent:
        best = settled(problem, best, most_loss=config.slot_loss, hard_weight=config.hard_weight)
        value = problem.score(best).objective
        if value > objective:
            objective = value
            improvements.append(Improvement(time.perf_counter() - started, work, objective))
    return problem.decoded(
        best,
        bound=bound,
        status=proven(objective, bound, otherwise=Status.TIMEOUT if spent else Status.FEASIBLE),
        work=work,
        seconds=time.perf_counter() - started,
        improvements=improvements,
    )


def _better(problem: Problem, one: Labels, other: Labels) -> tuple[Labels, float]:
    scores = problem.score(one).objective, problem.score(other).objective
    return (one, scores[0]) if scores[0] >= scores[1] else (other, scores[1])


def _spent(budget: Budget, started: float, work: int) -> bool:
    late = budget.seconds is not None and time.perf_counter() - started >= budget.seconds
    return late or (budget.work is not None and work >= budget.work)


def _temperatures(config: GibbsSettings, steps: range) -> NDArray[np.float64]:
    if config.cooling == "none":
        return np.full(len(steps), config.temperature)
    return config.temperature * (1.0 - np.arange(steps.start, steps.stop) / config.sweeps)


def new_chain(problem: Problem, *, config: GibbsSettings, rng: np.random.Generator, start: Labels | None) -> Chain:
    """A chain at ``start`` (N,), or at a random possible labelling where that is None."""
    p = problem.potentials
    seed = rng.integers(0, 2**63, dtype=np.uint64)
    arrays = codec(problem)
    if start is None:
        backward = max_messages(p)[1]
        start = _random_labels(p.unary, p.transition, backward, arrays.opens_sentence, seed)
    labels = start.astype(np.int32)
    spans = empty_state(problem, config.hard_weight)
    rows = row_state(problem, labels, config.hard_weight)
    cost = add_labels(spans, arrays, labels, 0, len(problem), 1)
    objective = p.score(labels) - cost - row_penalty(rows)
    places = _slots(problem, config.slot_loss)
    pairs = places[places[:, 1] - places[:, 0] > 1]
    groups = groups_of(problem, spans, places)
    chain = Chain(
        p.unary,
        p.transition,
        labels,
        labels.copy(),
        np.zeros(len(problem), np.int64),
        np.zeros(len(problem), np.bool_),
        np.zeros(len(problem)),
        np.zeros(len(problem)),
        np.searchsorted(pairs[:, 0], np.arange(len(problem) + 1)).astype(np.int64),
        np.ascontiguousarray(pairs[:, 1]),
        np.full(len(pairs), UNKNOWN),
        np.zeros(len(pairs)),
        np.array([(pairs[:, 1] - pairs[:, 0]).max(initial=0)]),
        np.full(len(problem), UNKNOWN),
        groups.pointer,
        np.ascontiguousarray(groups.places[:, 0]),
        np.ascontiguousarray(groups.places[:, 1]),
        groups.may_leave,
        np.array([objective, objective, row_penalty(rows), cost]),
        np.array([seed, 0, 0, 0], np.uint64),
        arrays,
        spans,
        rows,
    )
    _set_margins(chain, 0, len(problem))
    return chain


def _slots(problem: Problem, most_loss: float) -> NDArray[np.int64]:
    """(M, 2) start and end of every span that the local model could see, ordered, each once.

    In a plain label set every run of a label is a span, and single labels can move its ends: there
    whole spans matter only where they are compared.
    """
    if not problem.agreements and problem.labels.scheme is not Scheme.BIO:
        return np.zeros((0, 2), np.int64)
    return places_of(candidate_spans(problem, most_loss))


def sample(
    problem: Problem, *, config: GibbsSettings, rng: np.random.Generator, start: Labels | None = None
) -> tuple[Trace, NDArray[np.float64]]:
    """One chain with its trace, and how often each token had each label after a sweep (N, L)."""
    chain = new_chain(problem, config=config, rng=rng, start=start)
    objective = np.zeros(config.sweeps)
    seen = np.zeros(problem.potentials.unary.shape)
    everywhere = np.arange(len(problem))
    for sweep in range(config.sweeps):
        anneal(chain, _temperatures(config, range(sweep, sweep + 1)), sweep)
        objective[sweep] = chain.numbers[0]
        seen[everywhere, chain.labels] += 1.0
    return Trace(objective, int(chain.counters[2]), chain.best.copy(), float(chain.numbers[1])), seen / config.sweeps


@njit(cache=True, nogil=True)
def anneal(chain: Any, temperatures: Any, done: int) -> None:
    """One sweep over the document a temperature (> 0), in place; ``done`` sweeps came before."""
    count, width = chain.unary.shape
    types = len(chain.codec.opening)
    single = np.arange(width).astype(np.int32).reshape(width, 1)
    options = np.empty((types + 1, count), np.int32)
    pairs = np.empty((width * width, 2), np.int32)
    for choice in range(width * width):
        pairs[choice] = choice // width, choice % width
    pair_gain, opens_sentence = chain.pair_gain, chain.codec.opens_sentence
    # The chain is a large tuple that every call copies: the common case is decided here.
    margin, pays, numbers, counters = chain.margin, chain.pays, chain.numbers, chain.counters
    slot_pointer, slot_end, slot_gain, slot_pays = chain.slot_pointer, chain.slot_end, chain.slot_gain, chain.slot_pays
    for sweep in range(done, done + len(temperatures)):
        temperature = temperatures[sweep - done]
        for group in range(len(chain.group_pointer) - 1 if sweep % SWEEPS_A_GROUP == 0 else 0):
            _resample_group(chain, group, temperature)
        for t in range(count):
            draw = _draw(counters, (margin[t] + numbers[2] + pays[t] * numbers[3]) / temperature, width)
            if draw < 1.0 and _may_change(chain, t, t + 1, margin[t], width, draw, temperature):
                _resample(chain, t, t + 1, single, width, draw, temperature)
            if sweep % SWEEPS_A_PAIR == 0 and not opens_sentence[t + 1]:
                if pair_gain[t] == UNKNOWN:
                    pair_gain[t] = _best_pair(chain.unary, chain.transition, chain.labels, opens_sentence, t)
                paid = numbers[2] + max(pays[t], pays[t + 1]) * numbers[3]
                draw = _draw(counters, (pair_gain[t] + paid) / temperature, width * width)
                if draw < 1.0 and _may_change(chain, t, t + 2, pair_gain[t], width * width, draw, temperature):
                    _resample(chain, t, t + 2, pairs, width * width, draw, temperature)
            for slot in range(slot_pointer[t], slot_pointer[t + 1]):
                if slot_gain[slot] == UNKNOWN:
                    slot_gain[slot] = _slot_options(chain, t, slot_end[slot], options)[1]
                    slot_pays[slot] = pays[t : slot_end[slot]].max()
                exponent = (slot_gain[slot] + numbers[2] + slot_pays[slot] * numbers[3]) / temperature
                draw = _draw(counters, exponent, types + 1)
                end = slot_end[slot]
                if draw < 1.0 and _may_change(chain, t, end, slot_gain[slot], types + 1, draw, temperature):
                    choices, _ = _slot_options(chain, t, end, options)
                    _resample(chain, t, end, options, choices, draw, temperature)


@njit(cache=True, nogil=True)
def _uniform(counters: Any) -> Any:
    """A uniform number in (0, 1): splitmix64 over the chain's own counter."""
    counters[0] += np.uint64(0x9E3779B97F4A7C15)
    z = counters[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@njit(cache=True, nogil=True)
def _draw(counters: Any, exponent: float, choices: int) -> Any:
    """A uniform draw, or 2 where no draw could change anything.

    ``exponent`` is the most that another choice gains locally plus what the document pays now for
    rows, and for spans if one is near (a change cannot save more), over the temperature: the other
    choices together have at most the mass (choices − 1) · exp(exponent).
    """
    if exponent < -CERTAIN:
        return 2.0
    draw = _uniform(counters)
    if exponent < 0.0 and draw >= (choices - 1) * np.exp(exponent):
        return 2.0
    return draw


@njit(cache=True, nogil=True)
def _may_change(chain: Any, first: int, last: int, gain: float, choices: int, draw: float, temperature: float) -> Any:
    """Can this draw change ``first:last``, given what leaving out words that are labelled elsewhere costs there?

    Of all tokens whose words recur few cost anything: a closer look than `_draw` takes, still without
    trying any choice.
    """
    if len(chain.spans.watching) == 0:
        return True
    saved = 0.0
    for t in range(first, last):
        if _beside_span(chain, t):
            return True
        saved += outside_cost(chain.spans, t)
    return draw < (choices - 1) * np.exp((gain + chain.numbers[2] + saved + ROUNDING) / temperature)


@njit(cache=True, nogil=True)
def _beside_span(chain: Any, t: int) -> Any:
    """Is t, or a token next to it, in a span?"""
    near = chain.codec.type_of[chain.labels[max(0, t - 1) : t + 2]]
    return near.max() >= 0


@njit(cache=True, nogil=True)
def _region(chain: Any, first: int, last: int) -> Any:
    """The smallest part around ``first:last`` that no span crosses, whatever its labels."""
    codec, labels = chain.codec, chain.labels
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


@njit(cache=True, nogil=True)
def _local(chain: Any, first: int, last: int, option: Any) -> Any:
    """Local score of ``option`` at ``first:last``, transitions to both neighbours included."""
    total = 0.0
    for i in range(last - first):
        t = first + i
        total += chain.unary[t, option[i]]
        if not chain.codec.opens_sentence[t]:
            previous = chain.labels[t - 1] if i == 0 else option[i - 1]
            total += chain.transition[previous, option[i]]
    if not chain.codec.opens_sentence[last]:
        total += chain.transition[option[last - first - 1], chain.labels[last]]
    return total


@njit(cache=True, nogil=True)
def _write(chain: Any, first: int, last: int, option: Any) -> Any:
    """Sets labels and row sums; returns by how much the rows' penalty grew."""
    grown = 0.0
    for i in range(last - first):
        grown += set_label(chain.rows, chain.labels, first + i, option[i])
    return grown


@njit(cache=True, nogil=True)
def _resample(chain: Any, first: int, last: int, options: Any, choices: int, draw: float, temperature: float) -> None:
    """Resamples ``first:last`` among ``options[:choices]``; its labels now must be one of them."""
    low, high = _region(chain, first, last)
    length = last - first
    old = chain.labels[first:last].copy()
    old_local = _local(chain, first, last, old)
    gain = np.empty(choices)
    current = 0
    for c in range(choices):
        gain[c] = _local(chain, first, last, options[c, :length]) - old_local
        if (options[c, :length] == old).all():
            current = c
    old_cost = add_labels(chain.spans, chain.codec, chain.labels, low, high, -1)
    if _stays(gain, current, old_cost + chain.numbers[2] + ROUNDING, draw, temperature):
        add_labels(chain.spans, chain.codec, chain.labels, low, high, 1)
        return
    row_growth = np.zeros(choices)
    span_growth = np.zeros(choices)
    grown = 0.0
    for c in range(choices):
        if gain[c] == -np.inf:
            continue
        grown += _write(chain, first, last, options[c, :length])
        cost = add_labels(chain.spans, chain.codec, chain.labels, low, high, 1)
        add_labels(chain.spans, chain.codec, chain.labels, low, high, -1)
        gain[c] -= cost - old_cost + grown
        row_growth[c] = grown
        span_growth[c] = cost - old_cost
    chosen = _choose(gain, current, draw, temperature)
    _write(chain, first, last, options[chosen, :length])
    add_labels(chain.spans, chain.codec, chain.labels, low, high, 1)
    chain.counters[3] += np.uint64(1)
    if chosen != current:
        _touch(chain, first, last)
        _advance(chain, gain[chosen], row_growth[chosen], span_growth[chosen])


@njit(cache=True, nogil=True)
def _stays(gain: Any, current: int, relief: float, draw: float, temperature: float) -> Any:
    """Is the draw above what all other choices can have, each bounded on its own?"""
    mass = 0.0
    for c in range(len(gain)):
        if c != current:
            mass += np.exp((gain[c] + relief) / temperature)
    return draw >= mass


@njit(cache=True, nogil=True)
def _choose(gain: Any, current: int, draw: float, temperature: float) -> Any:
    """The other choices come first in [0, 1), so that a draw above their bound keeps the current one."""
    weight = np.exp((gain - gain.max()) / temperature)
    weight /= weight.sum()
    reached = 0.0
    for c in range(len(weight)):
        if c != current:
            reached += weight[c]
            if draw < reached:
                return c
    return current


@njit(cache=True, nogil=True)
def _touch(chain: Any, first: int, last: int) -> None:
    """Notes that ``first:last`` changed: margins and slots near it, and where ``best`` may differ."""
    chain.counters[2] += np.uint64(last - first)
    _set_margins(chain, max(0, first - 1), min(len(chain.labels), last + 1))
    near = chain.slot_pointer[max(0, first - chain.reach[0])]
    for slot in range(near, chain.slot_pointer[min(len(chain.labels), last + 1)]):
        if chain.slot_end[slot] >= first:
            chain.slot_gain[slot] = UNKNOWN
    chain.pair_gain[max(0, first - 2) : last + 1] = UNKNOWN
    for t in range(first, last):
        if not chain.is_dirty[t]:
            chain.is_dirty[t] = True
            chain.dirty[chain.counters[1]] = t
            chain.counters[1] += np.uint64(1)


@njit(cache=True, nogil=True)
def _advance(chain: Any, gain: float, row_growth: float, span_growth: float) -> None:
    """Follows the objective and the penalties, and keeps the labels if none seen were better."""
    numbers = chain.numbers
    numbers[0] += gain
    numbers[2] = max(0.0, numbers[2] + row_growth)
    numbers[3] = max(0.0, numbers[3] + span_growth)
    if numbers[0] <= numbers[1]:
        return
    numbers[1] = numbers[0]
    for i in range(chain.counters[1]):
        t = chain.dirty[i]
        chain.best[t] = chain.labels[t]
        chain.is_dirty[t] = False
    chain.counters[1] = np.uint64(0)


@njit(cache=True, nogil=True)
def _resample_group(chain: Any, group: int, temperature: float) -> None:
    """Resamples places of the same words together: all spans of one type or, in some groups, all left out.

    Looks at all places of the group or at a random half, and changes them only if they agree now.
    Which are looked at does not depend on their labels, and places that may be left out never
    overlap, so the labellings among which it chooses look the same from each.
    """
    members, current = _agreeing(chain, group)
    if len(members) == 0:
        return
    choices = len(chain.codec.opening) + int(chain.group_may_leave[group])
    gain = np.zeros(choices)
    for choice in range(choices):
        _write_group(chain, members, choice)
        gain[choice] = _group_local(chain, members)
    _write_group(chain, members, current)
    gain -= gain[current]
    draw = _uniform(chain.counters)
    if _stays(gain, current, chain.numbers[2] + chain.numbers[3] + ROUNDING, draw, temperature):
        return
    old_cost = _count_group(chain, members, -1)
    row_growth, span_growth, grown = np.zeros(choices), np.zeros(choices), 0.0
    for choice in range(choices):
        grown += _write_group(chain, members, choice)
        row_growth[choice] = grown
        span_growth[choice] = _count_group(chain, members, 1) - old_cost
        _count_group(chain, members, -1)
        gain[choice] -= grown + span_growth[choice]
    chosen = _choose(gain, current, draw, temperature)
    _write_group(chain, members, chosen)
    _count_group(chain, members, 1)
    if chosen == current:
        return
    for place in members:
        _touch(chain, chain.group_start[place], chain.group_end[place])
    _advance(chain, gain[chosen], row_growth[chosen], span_growth[chosen])


@njit(cache=True, nogil=True)
def _agreeing(chain: Any, group: int) -> Any:
    """The group's places, or a random half, where each is a span of one type or left out; none if they disagree.

    Also returns what they are: a type, or the number of types where all are left out. A place that
    is anything else now (part of a longer span, say, or left out where the group may not be) is passed over.
    """
    types = len(chain.codec.opening)
    members = np.empty(chain.group_pointer[group + 1] - chain.group_pointer[group], np.int64)
    count, current = 0, -1
    everyone = _uniform(chain.counters) < 0.5
    for place in range(chain.group_pointer[group], chain.group_pointer[group + 1]):
        if not everyone and _uniform(chain.counters) < 0.5:
            continue
        first, last = chain.group_start[place], chain.group_end[place]
        kind = chain.codec.type_of[chain.labels[first]]
        if kind < 0:
            if not chain.group_may_leave[group] or chain.codec.type_of[chain.labels[first:last]].max() >= 0:
                continue
            kind = types
        elif not _is_span(chain, first, last):
            continue
        if current >= 0 and kind != current:
            return members[:0], -1
        current = kind
        members[count] = place
        count += 1
    return members[:count], current


@njit(cache=True, nogil=True)
def _write_group(chain: Any, members: Any, choice: int) -> Any:
    """Makes all members spans of one type, or leaves them out; returns by how much the rows' penalty grew."""
    codec = chain.codec
    grown = 0.0
    for place in members:
        first, last = chain.group_start[place], chain.group_end[place]
        option = np.full(last - first, codec.outside[0] if choice == len(codec.opening) else codec.inside[choice])
        if choice < len(codec.opening):
            option[0] = codec.opening[choice]
        grown += _write(chain, first, last, option)
    return grown


@njit(cache=True, nogil=True)
def _group_local(chain: Any, members: Any) -> Any:
    """Local score of the members as they are labelled now, transitions to what is beside them included."""
    total, done = 0.0, -1
    for place in members:
        first, last = chain.group_start[place], chain.group_end[place]
        total += _local(chain, first, last, chain.labels[first:last])
        if first == done and not chain.codec.opens_sentence[first]:
            # The member before it counted this transition already; −inf once is −inf.
            step = chain.transition[chain.labels[first - 1], chain.labels[first]]
            total -= step if step > -np.inf else 0.0
        done = last
    return total


@njit(cache=True, nogil=True)
def _count_group(chain: Any, members: Any, change: int) -> Any:
    """Counts what the members are in (1) or out (−1); returns its cost in nats."""
    total = 0.0
    for place in members:
        first, last = chain.group_start[place], chain.group_end[place]
        total += add_labels(chain.spans, chain.codec, chain.labels, first, last, change)
    return total


@njit(cache=True, nogil=True)
def _set_margins(chain: Any, first: int, last: int) -> None:
    """Updates ``margin`` and ``pays`` after labels next to ``first:last``, or there, changed."""
    width = chain.unary.shape[1]
    for t in range(first, last):
        now, other = 0.0, -np.inf
        for label in range(width):
            value = chain.unary[t, label]
            if not chain.codec.opens_sentence[t]:
                value += chain.transition[chain.labels[t - 1], label]
            if not chain.codec.opens_sentence[t + 1]:
                value += chain.transition[label, chain.labels[t + 1]]
            if label == chain.labels[t]:
                now = value
            else:
                other = max(other, value)
        chain.margin[t] = other - now
        chain.pays[t] = 1.0 if _beside_span(chain, t) or _recurs(chain.spans, t) else 0.0


@njit(cache=True, nogil=True)
def _recurs(spans: Any, t: int) -> Any:
    """Can leaving t unlabelled cost anything?"""
    for g in spans.watched:
        if spans.reach[g, t] > 0:
            return True
    return False


@njit(cache=True, nogil=True)
def _best_pair(unary: Any, transition: Any, labels: Any, opens_sentence: Any, t: int) -> Any:
    """The best local gain of other labels for tokens t and t + 1 together."""
    width = unary.shape[1]
    now, best = 0.0, -np.inf
    for one in range(width):
        left = unary[t, one]
        if not opens_sentence[t]:
            left += transition[labels[t - 1], one]
        for other in range(width):
            value = left + transition[one, other] + unary[t + 1, other]
            if not opens_sentence[t + 2]:
                value += transition[other, labels[t + 2]]
            if one == labels[t] and other == labels[t + 1]:
                now = value
            else:
                best = max(best, value)
    return best - now


@njit(cache=True, nogil=True)
def _is_span(chain: Any, start: int, end: int) -> Any:
    """Is exactly ``start:end`` one labelled span now?"""
    codec, labels = chain.codec, chain.labels
    if codec.type_of[labels[start]] < 0:
        return False
    if not codec.opens_sentence[start] and codec.continues[labels[start - 1], labels[start]]:
        return False
    for t in range(start + 1, end):
        if not codec.continues[labels[t - 1], labels[t]]:
            return False
    return codec.opens_sentence[end] or not codec.continues[labels[end - 1], labels[end]]


@njit(cache=True, nogil=True)
def _slot_options(chain: Any, start: int, end: int, options: Any) -> Any:
    """Writes what the slot ``start:end`` can hold; returns how many, and the best local gain.

    A slot holds one span of any type that stays apart from its neighbours, or, where the label
    set has an outside label, no span at all. While anything else stands there (a part of a longer
    span, say) it can hold nothing, and 0 is returned.
    """
    codec, labels = chain.codec, chain.labels
    length = end - start
    choices = 0
    blank = codec.type_of[labels[start]] < 0
    for t in range(start + 1, end):
        blank &= labels[t] == labels[start]
    if not blank and not _is_span(chain, start, end):
        return 0, -np.inf
    for label in range(len(codec.type_of)):
        if codec.type_of[label] < 0:
            options[choices, :length] = label
            choices += 1
    for kind in range(len(codec.opening)):
        opening, inside = codec.opening[kind], codec.inside[kind]
        apart = codec.opens_sentence[start] or not codec.continues[labels[start - 1], opening]
        if apart and (codec.opens_sentence[end] or not codec.continues[inside, labels[end]]):
            options[choices, 0] = opening
            options[choices, 1:length] = inside
            choices += 1
    now = _local(chain, start, end, labels[start:end])
    gain = -np.inf
    for c in range(choices):
        if options[c, 0] != labels[start]:
            gain = max(gain, _local(chain, start, end, options[c, :length]) - now)
    return choices, gain


@njit(cache=True, nogil=True)
def _random_labels(unary: Any, transition: Any, backward: Any, opens_sentence: Any, seed: Any) -> Any:
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
