"""The state of a Gibbs chain, and the steps that all its moves share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints, Records, record_type
from concord.schemas.labels import Labels, LabelSet
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.inference.core.agreement import AgreementState
from concord.workers.inference.core.recursion import edge_place
from concord.workers.inference.core.rows import RowState, set_label
from concord.workers.inference.sampling.labelling import Labelling
from concord.workers.inference.sampling.memory import UNKNOWN_COST, Readers, forget_around
from concord.workers.inference.sampling.names import Groups

CHAIN_NOW = record_type(
    *((name, "f8") for name in ("objective", "best_objective", "row_penalty", "span_penalty", "summed")),
    *((name, "u8") for name in ("random", "dirty_count", "flips", "rewritten", "work", "next_token")),
)
"""Fields of ``now`` of a `Chain`."""


class Slots(NamedTuple):
    """Places of several tokens where a span could be, ordered by start.

    - ``pointer`` (N + 1,): the slots that start at token t are ``pointer[t]:pointer[t + 1]``.
    - ``end``: exclusive end of each slot.
    - ``gain``: best local gain of other labels in the slot, in nats, or `UNKNOWN_COST`.
    - ``reach`` (1,): length of the longest slot, in tokens.
    """

    pointer: Ints
    end: Ints
    gain: Floats
    reach: Ints


class Scratch(NamedTuple):
    """Arrays for one choice: the labels to choose among, and the gain and cost of each of at most C choices.

    - ``single`` (L, 1): the choices for one label.
    - ``pairs`` (L², 2): the choices for two neighbours.
    - ``slot`` (T + 1, N): room for the choices of a slot.
    - ``gain`` (C,): nats gained over the present labels: locally, and with all penalties where ``tried``.
    - ``weight`` (C,): upper bound of exp(gain / τ).
    - ``row_growth``, ``span_growth`` (C,): growth of the penalties of rows and of spans, in nats.
    - ``tried`` (C,): mask of the choices that were scored with all penalties.
    - ``members`` (P, 2): occurrences of one group.
    """

    single: Labels
    pairs: Labels
    slot: Labels
    gain: Floats
    weight: Floats
    row_growth: Floats
    span_growth: Floats
    tried: NDArray[np.bool_]
    members: Ints


class Chain(NamedTuple):
    """One Markov chain over labellings: all arrays that the kernels read and write.

    - ``at``: the present labels.
    - ``best`` (N,): the best labelling seen.
    - ``dirty`` (N,): tokens at which ``best`` may differ from the present labels; the first ``dirty_count`` are
      valid.
    - ``is_dirty`` (N,): mask of these tokens.
    - ``margin`` (N,): best local gain of any other label at a token, in nats.
    - ``cost_bound`` (N,): upper bound of the agreement cost that a change at the token can save, in nats.
    - ``readers``: the counts from which ``cost_bound`` was computed.
    - ``pair_gain`` (N,): best local gain of other labels at t and t + 1 together, in nats.
    - ``slots``, ``groups``: places of several tokens, and occurrences of the same words.
    - ``now`` (1,): in nats ``objective``, ``best_objective``, ``row_penalty``, ``span_penalty``, and ``summed``
      magnitudes; then the ``random`` state, ``dirty_count`` (length of ``dirty``), ``flips`` (labels that changed),
      ``rewritten`` (labels in the ranges that moves changed), ``work``, and ``next_token`` of the sweep.
    - ``spans``, ``rows``: the counts of labelled spans, and the activities of rows.

    ``cost_bound`` is the present cost of the token's label and of the spans next to it. `UNKNOWN_COST` stands for a
    value that has to be computed again. The sum of magnitudes is that of all terms that were added up, for
    `check_drift`.
    """

    at: Labelling
    best: Labels
    dirty: Ints
    is_dirty: NDArray[np.bool_]
    margin: Floats
    cost_bound: Floats
    readers: Readers
    pair_gain: Floats
    slots: Slots
    groups: Groups
    now: Records
    spans: AgreementState
    rows: RowState
    scratch: Scratch


def scratch_for(labels: LabelSet, count: int, groups: Groups) -> Scratch:
    """Scratch arrays for a document of ``count`` tokens."""
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


@inner_in_place
def write(rows: RowState, labels: Labels, first: int, last: int, option: Labels) -> float:
    """Sets the labels ``first:last`` and the row sums; returns the growth of the rows' penalty in nats."""
    grown = 0.0
    for i in range(last - first):
        if len(rows.bound):
            grown += set_label(rows, labels, first + i, option[i])
        else:
            labels[first + i] = option[i]
    return grown


@inner_in_place
def count_work(now: Records, steps: int) -> None:
    """Counts work: labels, spans or occurrences visited, each some tens of nanoseconds."""
    now[0].work += np.uint64(steps)


@inner_in_place
def touch(chain: Chain, first: int, last: int, changed: int) -> None:
    """Follows a change of ``changed`` of the labels ``first:last``.

    Updates margins, and forgets the values read from these labels.
    """
    count, slots = len(chain.best), chain.slots
    chain.now[0].flips += np.uint64(changed)
    chain.now[0].rewritten += np.uint64(last - first)
    set_margins(chain.at, chain.margin, max(0, first - 1), min(count, last + 1))
    forget_around(chain.at, chain.cost_bound, first, last)
    near = slots.pointer[max(0, first - slots.reach[0])], slots.pointer[min(count, last + 1)]
    count_work(chain.now, last - first + near[1] - near[0])
    for slot in range(near[0], near[1]):
        if slots.end[slot] >= first:
            slots.gain[slot] = UNKNOWN_COST
    chain.pair_gain[max(0, first - 2) : last + 1] = UNKNOWN_COST
    for t in range(first, last):
        if not chain.is_dirty[t]:
            chain.is_dirty[t] = True
            chain.dirty[chain.now[0].dirty_count] = t
            chain.now[0].dirty_count += np.uint64(1)


@inner_in_place
def advance(chain: Chain, gain: float, row_growth: float, span_growth: float) -> None:
    """Adds a change to the objective and the penalties, in nats; updates ``best`` if the present labels are better."""
    now = chain.now
    now[0].summed += abs(now[0].objective) + abs(gain) + abs(row_growth) + abs(span_growth)
    now[0].objective += gain
    now[0].row_penalty = max(0.0, now[0].row_penalty + row_growth)
    now[0].span_penalty = max(0.0, now[0].span_penalty + span_growth)
    if now[0].objective <= now[0].best_objective:
        return
    now[0].best_objective = now[0].objective
    for i in range(chain.now[0].dirty_count):
        t = chain.dirty[i]
        chain.best[t] = chain.at.labels[t]
        chain.is_dirty[t] = False
    chain.now[0].dirty_count = np.uint64(0)


@kernel_in_place
def set_margins(at: Labelling, margin: Floats, first: int, last: int) -> None:
    """Computes ``margin`` at ``first:last``, after labels there or next to it changed."""
    unary, edge, labels, opens_sentence = at.unary, at.edge, at.labels, at.codec.opens_sentence
    for t in range(first, last):
        now, other = 0.0, -np.inf
        for label in range(unary.shape[1]):
            value = unary[t, label]
            if not opens_sentence[t]:
                value += edge[edge_place(edge, t), labels[t - 1], label]
            if not opens_sentence[t + 1]:
                value += edge[edge_place(edge, t + 1), label, labels[t + 1]]
            if label == labels[t]:
                now = value
            else:
                other = max(other, value)
        margin[t] = other - now
