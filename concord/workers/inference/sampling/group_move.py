"""A blocked move of the Gibbs sampler: occurrences of the same words change their type together."""

from __future__ import annotations

import numpy as np

from concord.schemas.arrays import Ints, Records
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inner_in_place
from concord.workers.inference.core.agreement import AgreementState, count_labels, labels_cost
from concord.workers.inference.core.recursion import edge_place
from concord.workers.inference.core.rows import RowState
from concord.workers.inference.numerics import ROUNDING
from concord.workers.inference.sampling.draws import choose, uniform, weigh
from concord.workers.inference.sampling.labelling import Labelling, is_span, local_score
from concord.workers.inference.sampling.memory import forget_readers
from concord.workers.inference.sampling.names import Groups
from concord.workers.inference.sampling.state import Chain, advance, count_work, touch, write


@inner_in_place
def resample_group(chain: Chain, group: int, temperature: float) -> None:
    """Resamples occurrences of the same words together: all get one type or, in some groups, all are left out.

    A step takes all occurrences of the group, or a random half of them, and passes over those that cannot join: an
    occurrence has to be one span or, if the group may be left out, outside. If the others agree now, the step draws one
    of the joint choices (each type; left out) from their conditional distribution given all other labels. Otherwise it
    does nothing.

    Detailed balance: the random half does not depend on the labels, and occurrences that may be left out do not
    overlap. So each joint choice, once made, gives the same set of choices again.
    """
    at, now, scratch = chain.at, chain.now, chain.scratch
    count_work(chain.now, chain.groups.pointer[group + 1] - chain.groups.pointer[group])
    count, current = _agreeing(at, chain.groups, group, chain.now, scratch.members)
    if count == 0:
        return
    count_work(chain.now, count * (len(at.codec.opening) + 1))
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
    draw = uniform(chain.now)
    weigh(gain, now[0].row_penalty + now[0].span_penalty + ROUNDING, temperature, weight)
    weight[current] = 0.0
    if draw >= weight.sum():
        return
    _forget_group(chain, members)
    _count_group(chain.spans, at, members, -1)
    old_cost = _group_cost(chain.spans, at, members)
    row_growth, span_growth, grown = scratch.row_growth, scratch.span_growth, 0.0
    for choice in range(choices):
        grown += _write_group(chain.rows, at, members, choice, option)
        row_growth[choice] = grown
        span_growth[choice] = _group_cost(chain.spans, at, members) - old_cost
        gain[choice] -= grown + span_growth[choice]
    tried[:] = True
    chosen = choose(gain, tried, current, draw, temperature)
    _write_group(chain.rows, at, members, chosen, option)
    _count_group(chain.spans, at, members, 1)
    if chosen == current:
        return
    _forget_group(chain, members)
    for m in range(count):
        # Labels of another type, or of none: each of them is another one.
        touch(chain, members[m, 0], members[m, 1], members[m, 1] - members[m, 0])
    advance(chain, gain[chosen], row_growth[chosen], span_growth[chosen])


@inner_in_place
def _agreeing(at: Labelling, groups: Groups, group: int, now: Records, members: Ints) -> tuple[int, int]:
    """Writes the occurrences that a step takes to ``members``; returns their number and their common choice.

    The choice is a type, or the number of types if all are left out. The number is 0 if the occurrences disagree. An
    occurrence is passed over if it is neither one span nor left out (part of a longer span, say), or if it is left out
    in a group that may not be.
    """
    type_of, types = at.codec.type_of, len(at.codec.opening)
    count, current = 0, -1
    everyone = uniform(now) < 0.5
    for place in range(groups.pointer[group], groups.pointer[group + 1]):
        if not everyone and uniform(now) < 0.5:
            continue
        first, last = groups.places[place, 0], groups.places[place, 1]
        kind = type_of[at.labels[first]]
        if kind < 0:
            if not groups.may_leave[group] or not _left_out(at, first, last):
                continue
            kind = types
        elif not is_span(at, first, last):
            continue
        if current >= 0 and kind != current:
            return 0, -1
        current = kind
        members[count, 0], members[count, 1] = first, last
        count += 1
    return count, current


@inner_in_place
def _left_out(at: Labelling, first: int, last: int) -> bool:
    """Are all tokens of ``first:last`` outside?"""
    for t in range(first, last):
        if at.codec.type_of[at.labels[t]] >= 0:
            return False
    return True


@inner_in_place
def _write_group(rows: RowState, at: Labelling, members: Ints, choice: int, option: Labels) -> float:
    """Makes each member a span of the chosen type, or leaves it out; returns the growth of the row penalty in nats."""
    codec = at.codec
    grown = 0.0
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        option[: last - first] = codec.outside[0] if choice == len(codec.opening) else codec.inside[choice]
        if choice < len(codec.opening):
            option[0] = codec.opening[choice]
        grown += write(rows, at.labels, first, last, option)
    return grown


@inner_in_place
def _group_local(at: Labelling, members: Ints) -> float:
    """Local score of the members' present labels in nats, with the transitions to their neighbours."""
    total, done = 0.0, -1
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        total += local_score(at, first, last, at.labels[first:last])
        if first == done and not at.codec.opens_sentence[first]:
            # The member before it counted this transition already; −inf once is −inf.
            step = at.edge[edge_place(at.edge, first), at.labels[first - 1], at.labels[first]]
            total -= step if step > -np.inf else 0.0
        done = last
    return total


@inner_in_place
def _count_group(spans: AgreementState, at: Labelling, members: Ints, change: int) -> None:
    """Adds the members' labels to the counts (``change`` 1) or takes them out (−1)."""
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        count_labels(spans, at.codec, at.labels, first, last, change)


@inner_in_place
def _forget_group(chain: Chain, members: Ints) -> None:
    """Forgets every cached cost that was read from counts of the members' present labels."""
    for m in range(len(members)):
        forget_readers(chain.readers, chain.spans, chain.at, chain.cost_bound, members[m, 0], members[m, 1])


@inner_in_place
def _group_cost(spans: AgreementState, at: Labelling, members: Ints) -> float:
    """Nats that the uncounted members cost, with each other and with what is counted, see `labels_cost`."""
    total = 0.0
    for m in range(len(members)):
        first, last = members[m, 0], members[m, 1]
        total += labels_cost(spans, at.codec, at.labels, first, last)
        count_labels(spans, at.codec, at.labels, first, last, 1)
    _count_group(spans, at, members, -1)
    return total
