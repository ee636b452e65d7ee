"""Kernels of the relaxation of agreement: sentences and groups of equal words under prices, and the ascent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from schemas.potentials import Floats
from schemas.problem import NO_KEY
from workers.inference.agreement import CONTAINED, Codec

Ints = NDArray[np.int64]


class Chains(NamedTuple):
    """The sentences: candidate spans ordered by start, ``first`` (N + 1,) those of each token, ``inner``
    (M,) nats from opening to last label, ``last`` (M,) that label."""

    unary: Floats
    transition: Floats
    codec: Codec
    bounds: Ints
    first: Ints
    start: Ints
    end: Ints
    kind: Ints
    inner: Floats
    last: Ints


class Groups(NamedTuple):
    """Memberships ordered by group, slot (where the words stand) and role, and the groups' prices of pairs.

    ``slots`` bounds memberships by slot (P + 1,), ``groups`` bounds slots by group (Q + 1,). ``role``
    indexes ``pair`` (Q, R, R); ``roles`` (Q,) is how many of them a group has.
    """

    span: Ints
    role: Ints
    slots: Ints
    groups: Ints
    roles: Ints
    pair: Floats


@njit(cache=True, nogil=True)
def memberships(state: Any, start: Any, end: Any, kind: Any) -> Any:
    """(K, 6) span, group, table, role, slot, width: what each span's words and their parts belong to."""
    types = state.cost.shape[1]
    size = state.counts.shape[1]
    around = (state.relation == CONTAINED).any()
    rows = np.empty((max(16, 4 * len(start)), 6), np.int64)
    count = 0
    for i in range(len(start)):
        length = end[i] - start[i]
        if length > state.keys.shape[2]:
            continue
        for g in range(len(state.keys)):
            for width in range(1 if around else length, length + 1):
                for at in range(start[i], end[i] - width + 1):
                    key = state.keys[g, at, width - 1]
                    if key == NO_KEY:
                        continue
                    seen = False
                    for earlier in range(start[i], at):
                        seen |= state.keys[g, earlier, width - 1] == key
                    if seen:
                        continue
                    if count == len(rows):
                        rows = np.concatenate((rows, np.empty_like(rows)))
                    rows[count, 0] = i
                    rows[count, 1] = g * size + key
                    rows[count, 2] = g
                    rows[count, 3] = kind[i] if width == length else types + kind[i]
                    rows[count, 4] = at
                    rows[count, 5] = width
                    count += 1
    return rows[:count]


@njit(cache=True, nogil=True)
def inner_scores(unary: Any, transition: Any, codec: Any, start: Any, end: Any, kind: Any) -> Any:
    """(M,) nats of each span from its first label to its last, and (M,) that last label."""
    inner = np.empty(len(start))
    last = np.empty(len(start), np.int64)
    for i in range(len(start)):
        label = codec.opening[kind[i]]
        inner[i] = unary[start[i], label]
        for t in range(start[i] + 1, end[i]):
            following = codec.inside[kind[i]]
            inner[i] += transition[label, following] + unary[t, following]
            label = following
        last[i] = label
    return inner, last


@njit(cache=True, nogil=True)
def _enter(chains: Any, reached: Any, t: Any, label: Any) -> Any:
    """Best score of what stands before t given ``label`` opens there, and the label before it (−1: none)."""
    if chains.codec.opens_sentence[t]:
        return 0.0, -1
    best, before = -np.inf, -1
    for other in range(chains.unary.shape[1]):
        if not chains.codec.continues[other, label]:
            value = reached[t - 1, other] + chains.transition[other, label]
            if value > best:
                best, before = value, other
    return best, before


@njit(cache=True, nogil=True)
def _forward(chains: Any, charge: Any, reached: Any, entered: Any, from_span: Any, from_label: Any) -> Any:
    """Best score of every prefix that ends with a whole span or an outside label; returns the sentences' sum.

    ``charge`` (M,) is taken off each span's score.
    """
    reached[:] = -np.inf
    outside = np.flatnonzero(chains.codec.type_of < 0)
    total = 0.0
    for s in range(len(chains.bounds) - 1):
        for t in range(chains.bounds[s], chains.bounds[s + 1]):
            for label in outside:
                value, before = _enter(chains, reached, t, label)
                reached[t, label] = value + chains.unary[t, label]
                from_span[t, label] = -1
                from_label[t, label] = before
            if chains.first[t] == chains.first[t + 1]:
                continue
            for kind in range(len(chains.codec.opening)):
                entered[kind] = -np.inf
            for i in range(chains.first[t], chains.first[t + 1]):
                kind = chains.kind[i]
                if entered[kind] == -np.inf:
                    entered[kind] = _enter(chains, reached, t, chains.codec.opening[kind])[0]
                value = entered[kind] + chains.inner[i] - charge[i]
                last = chains.end[i] - 1
                if value > reached[last, chains.last[i]]:
                    reached[last, chains.last[i]] = value
                    from_span[last, chains.last[i]] = i
        total += reached[chains.bounds[s + 1] - 1].max()
    return total


@njit(cache=True, nogil=True)
def _trace(chains: Any, reached: Any, from_span: Any, from_label: Any, taken: Any, labels: Any) -> None:
    """Marks the spans of the best labelling and writes its labels."""
    taken[:] = False
    for s in range(len(chains.bounds) - 1):
        t = chains.bounds[s + 1] - 1
        label = np.argmax(reached[t])
        while t >= chains.bounds[s]:
            i = from_span[t, label]
            if i < 0:
                labels[t] = label
                label = from_label[t, label]
                t -= 1
                continue
            taken[i] = True
            labels[chains.start[i]] = chains.codec.opening[chains.kind[i]]
            labels[chains.start[i] + 1 : chains.end[i]] = chains.codec.inside[chains.kind[i]]
            t = chains.start[i] - 1
            label = _enter(chains, reached, chains.start[i], chains.codec.opening[chains.kind[i]])[1]


@njit(cache=True, nogil=True)
def _tabulate(groups: Any, q: int, prices: Any, gain: Any) -> Any:
    """Writes the best price of each role at each slot of group q; returns the slots and what they give at most."""
    total = 0.0
    first = groups.groups[q]
    for p in range(first, groups.groups[q + 1]):
        best = 0.0
        for r in range(groups.roles[q]):
            gain[p - first, r] = -np.inf
        for m in range(groups.slots[p], groups.slots[p + 1]):
            gain[p - first, groups.role[m]] = max(gain[p - first, groups.role[m]], prices[m])
            best = max(best, prices[m])
        total += best
    return groups.groups[q + 1] - first, total


@njit(cache=True, nogil=True)
def _set_terms(groups: Any, q: int, roles: int, charge: Any) -> Any:
    """What each role in the set pays a slot, and the price of all its pairs."""
    once = 0.0
    for r in range(groups.roles[q]):
        charge[r] = 0.0
        if roles >> r & 1:
            for other in range(groups.roles[q]):
                if roles >> other & 1:
                    charge[r] += groups.pair[q, r, other]
            once += charge[r] / 2.0
    return once


@njit(cache=True, nogil=True)
def _set_value(gain: Any, slots: int, count: int, roles: int, charge: Any, once: float) -> Any:
    """What a group costs at least that uses just these roles: by pairs (and what using each role adds), and with
    each pair paid once."""
    by_pair, by_once, regret = -once, once, 0.0
    short = np.full(count, np.inf)
    for p in range(slots):
        most, free = 0.0, 0.0
        for r in range(count):
            if roles >> r & 1:
                most = max(most, gain[p, r] - charge[r])
                free = max(free, gain[p, r])
        by_pair -= most
        by_once -= free
        for r in range(count):
            if roles >> r & 1:
                short[r] = min(short[r], most - gain[p, r] + charge[r])
    for r in range(count):
        if roles >> r & 1:
            regret = max(regret, short[r])
    return by_pair, by_once, regret


@njit(cache=True, nogil=True)
def _group(groups: Any, q: int, prices: Any, gain: Any, charge: Any, known: Any) -> Any:
    """The group's minimum; marks in ``known`` the memberships of one that attains it."""
    slots, total = _tabulate(groups, q, prices, gain)
    count = groups.roles[q]
    best, chosen, charged = 0.0, 0, False
    if total > 0.0:
        for roles in range(1, 1 << count):
            once = _set_terms(groups, q, roles, charge)
            if once - total >= best:
                continue
            by_pair, by_once, regret = _set_value(gain, slots, count, roles, charge, once)
            value = max(by_pair + regret, by_once)
            if value < best:
                best, chosen, charged = value, roles, by_pair + regret >= by_once
    _set_terms(groups, q, chosen, charge)
    for p in range(groups.groups[q], groups.groups[q + 1]):
        most, taken = 0.0, -1
        for m in range(groups.slots[p], groups.slots[p + 1]):
            known[m] = False
            r = groups.role[m]
            if chosen >> r & 1:
                value = prices[m] - (charge[r] if charged else 0.0)
                if value > most:
                    most, taken = value, m
        if taken >= 0:
            known[taken] = True
    return best


@njit(cache=True, nogil=True)
def ascend(chains: Any, groups: Any, prices: Any, optimum: float, upper: float, steps: int) -> Any:
    """Subgradient ascent: the best bound in nats of loss, its prices, and the sentences' labels under them."""
    count, width = chains.unary.shape
    reached, charge = np.empty((count, width)), np.zeros(len(chains.start))
    from_span, from_label = np.empty((count, width), np.int64), np.empty((count, width), np.int64)
    entered = np.empty(len(chains.codec.opening))
    taken, known = np.zeros(len(chains.start), np.bool_), np.zeros(len(prices), np.bool_)
    labels, best_labels = np.zeros(count, np.int32), np.zeros(count, np.int32)
    most_slots = 1
    for q in range(len(groups.roles)):
        most_slots = max(most_slots, groups.groups[q + 1] - groups.groups[q])
    gain, terms = np.empty((most_slots, groups.pair.shape[1])), np.empty(groups.pair.shape[1])
    best, best_prices = -np.inf, prices.copy()
    relaxation, idle = 1.0, 0
    now = prices.copy()
    for _ in range(steps):
        charge[:] = 0.0
        for m in range(len(now)):
            charge[groups.span[m]] += now[m]
        value = optimum - _forward(chains, charge, reached, entered, from_span, from_label)
        _trace(chains, reached, from_span, from_label, taken, labels)
        for q in range(len(groups.roles)):
            value += _group(groups, q, now, gain, terms, known)
        if value > best + 1e-6:
            idle = 0
        else:
            idle += 1
        if value > best:
            best = value
            best_prices[:] = now
            best_labels[:] = labels
        if best >= upper:
            break
        norm = 0.0
        for m in range(len(now)):
            step = int(taken[groups.span[m]]) - int(known[m])
            if step > 0 or now[m] > 0.0:
                norm += step * step
        if norm == 0.0:
            break
        if idle >= 4:
            relaxation *= 0.6
            idle = 0
            now[:] = best_prices
            continue
        length = relaxation * (upper - value) / norm
        for m in range(len(now)):
            now[m] = max(0.0, now[m] + length * (int(taken[groups.span[m]]) - int(known[m])))
    return best, best_prices, best_labels


@njit(cache=True, nogil=True)
def chain_losses(chains: Any, charge: Any) -> Any:
    """(M,) nats a sentence loses at least with each span, (N, L) with each outside label; ``charge`` (M,) is paid."""
    count, width = chains.unary.shape
    reached, remaining = np.empty((count, width)), np.zeros((count, width))
    from_span, from_label = np.empty((count, width), np.int64), np.empty((count, width), np.int64)
    opened = np.empty(len(chains.codec.opening))
    _forward(chains, charge, reached, opened, from_span, from_label)
    span_loss, outside_loss = np.empty(len(charge)), np.full((count, width), np.inf)
    outside = np.flatnonzero(chains.codec.type_of < 0)
    for s in range(len(chains.bounds) - 1):
        best = reached[chains.bounds[s + 1] - 1].max()
        for t in range(chains.bounds[s + 1] - 1, chains.bounds[s] - 1, -1):
            # ``remaining[t]``: the best from t + 1 on, given the label at t. Later tokens are done.
            for label in outside:
                outside_loss[t, label] = best - (reached[t, label] + remaining[t, label])
            opened[:] = -np.inf
            for i in range(chains.first[t], chains.first[t + 1]):
                kind = chains.kind[i]
                rest = chains.inner[i] - charge[i] + remaining[chains.end[i] - 1, chains.last[i]]
                span_loss[i] = best - (_enter(chains, reached, t, chains.codec.opening[kind])[0] + rest)
                opened[kind] = max(opened[kind], rest)
            if t == chains.bounds[s]:
                continue
            for before in range(width):
                most = -np.inf
                for following in outside:
                    rest = chains.unary[t, following] + remaining[t, following]
                    most = max(most, chains.transition[before, following] + rest)
                for kind in range(len(opened)):
                    opening = chains.codec.opening[kind]
                    if opened[kind] > -np.inf and not chains.codec.continues[before, opening]:
                        most = max(most, chains.transition[before, opening] + opened[kind])
                remaining[t - 1, before] = most
    return span_loss, outside_loss


@njit(cache=True, nogil=True)
def member_losses(groups: Any, prices: Any, limit: float) -> Any:
    """(K,) what a group's minimum grows at least if this membership is known to it; inf for more than ``limit``."""
    losses = np.full(len(prices), np.inf)
    known = np.empty(len(prices), np.bool_)
    most_slots = 1
    for q in range(len(groups.roles)):
        most_slots = max(most_slots, groups.groups[q + 1] - groups.groups[q])
    gain, charge = np.empty((most_slots, groups.pair.shape[1])), np.empty(groups.pair.shape[1])
    for q in range(len(groups.roles)):
        least = _group(groups, q, prices, gain, charge, known)
        slots, total = _tabulate(groups, q, prices, gain)
        count = groups.roles[q]
        for roles in range(1, 1 << count):
            once = _set_terms(groups, q, roles, charge)
            if once - total > least + limit:
                continue
            by_pair, by_once, _ = _set_value(gain, slots, count, roles, charge, once)
            if max(by_pair, by_once) > least + limit:
                continue
            for p in range(groups.groups[q], groups.groups[q + 1]):
                most, free = 0.0, 0.0
                for r in range(count):
                    if roles >> r & 1:
                        most = max(most, gain[p - groups.groups[q], r] - charge[r])
                        free = max(free, gain[p - groups.groups[q], r])
                for m in range(groups.slots[p], groups.slots[p + 1]):
                    r = groups.role[m]
                    if roles >> r & 1:
                        paired = by_pair + most - prices[m] + charge[r]
                        losses[m] = min(losses[m], max(paired, by_once + free - prices[m]) - least)
    return np.maximum(losses, 0.0)
