"""Kernels of `settling`: a block descent that solves only sentences whose charges changed, and can be taken back.

Invariant: a sentence that is not in the heap was last solved under its present charges, or has no choice. So the
descent is over when the heap is empty, as if it had passed over all sentences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints, Records, record_type
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import copy_to, inner_in_place, kernel_in_place
from concord.workers.inference.core.agreement import Codec, item_end
from concord.workers.inference.relaxation.block_descent import (
    MOST_PASSES,
    Descent,
    charges_changed,
    count_sentence,
    local_score,
    solve,
    uncount_sentence,
)
from concord.workers.inference.relaxation.sentences import Chains
from concord.workers.inference.sampling.memory import Readers, mark_stale, note_outside, note_span, readers_for

TRIAL_NOW = record_type(("local", "f8"), ("work", "f8"))
"""Fields of ``now`` of a `DescentTrial`."""


class SentenceSet(NamedTuple):
    """A set of sentences, out of S.

    - ``items`` (S,): the sentences, in the first ``length`` (1,) places.
    - ``held`` (S,): mask of the sentences in the set.
    """

    items: Ints
    length: Ints
    held: NDArray[np.bool_]


class DescentTrial(NamedTuple):
    """The record of a descent's changes, by which they can be taken back; N tokens, S sentences, M candidate spans.

    - ``readers``: the counts that each token's charges were read from.
    - ``heap`` (S,): sentences to solve, as pass · S + sentence, in the first ``size`` (1,) places.
    - ``waiting`` (S,): mask of the sentences in the heap.
    - ``base`` (N,): the labels before the trial.
    - ``changed``: the sentences that may differ from ``base``.
    - ``looked``: the sentences whose charges were read or reset since the trial began.
    - ``seen`` (M + N,): charges of the sentences in ``looked`` from before the trial, in nats.
    - ``best`` (N,): the best labels tried, valid in the sentences of ``better``.
    - ``better``: the sentences in which the best labels tried may differ from ``base``.
    - ``old`` (N,): scratch for labels.
    - ``sentence`` (N,): the sentence of each token.
    - ``now`` (1,): ``local``, the local score of the present labels in nats, and ``work``.
    """

    readers: Readers
    heap: Ints
    size: Ints
    waiting: NDArray[np.bool_]
    base: Labels
    changed: SentenceSet
    looked: SentenceSet
    seen: Floats
    best: Labels
    better: SentenceSet
    old: Labels
    sentence: Ints
    now: Records


def trial_of(descent: Descent) -> DescentTrial:
    """A trial from a descent's labels; all sentences that have a choice are still to be solved."""
    bounds = descent.chains.bounds
    count = len(bounds) - 1
    trial = DescentTrial(
        readers_for(descent.state),
        np.zeros(count, np.int64),
        np.zeros(1, np.int64),
        np.zeros(count, np.bool_),
        descent.labels.copy(),
        _listed(count),
        _listed(count),
        descent.seen.copy(),
        descent.labels.copy(),
        _listed(count),
        descent.labels.copy(),
        np.repeat(np.arange(count), np.diff(bounds)),
        np.zeros(1, TRIAL_NOW),
    )
    _open(descent, trial)
    return trial


def _listed(count: int) -> SentenceSet:
    return SentenceSet(np.zeros(count, np.int64), np.zeros(1, np.int64), np.zeros(count, np.bool_))


def types_at(descent: Descent, trial: DescentTrial, places: Ints) -> NDArray[np.int32]:
    """(P,) the type of the span labelled at each of ``places`` (P, 2); −1 if there is none."""
    kinds = np.full(len(places), -1, np.int32)
    _types_at(descent, trial, places, kinds)
    return kinds


@kernel_in_place
def value(descent: Descent, trial: DescentTrial) -> float:
    """The objective of the present labels without rows, in nats."""
    return float(trial.now[0].local - descent.penalty[0])


@kernel_in_place
def better_all(descent: Descent, trial: DescentTrial) -> None:
    """Solves every sentence in the heap, and each one whose charges change by that, until the heap is empty.

    After `MOST_PASSES` passes, what is left in the heap is put off to the next descent.
    """
    sentences = len(trial.heap)
    while trial.size[0] > 0:
        code = _next(trial)
        number, s = code // sentences, code % sentences
        if number >= MOST_PASSES:
            _put_off(trial, s)
            return
        first, last = descent.chains.bounds[s], descent.chains.bounds[s + 1]
        _read(descent, trial, s)
        if not charges_changed(descent, first, last):
            continue
        copy_to(trial.old[first:last], descent.labels[first:last])
        if solve(descent, s):
            _moved(descent, trial, s, number)


@kernel_in_place
def retype(descent: Descent, trial: DescentTrial, places: Ints, kind: int) -> None:
    """Makes each of ``places`` (P, 2) a span of type ``kind``, then solves all sentences whose charges that changes."""
    codec, wanted = descent.chains.codec, trial.old
    for m in range(len(places)):
        s = trial.sentence[places[m, 0]]
        if m == 0 or trial.sentence[places[m - 1, 0]] != s:
            first, last = descent.chains.bounds[s], descent.chains.bounds[s + 1]
            copy_to(wanted[first:last], descent.labels[first:last])
        wanted[places[m, 0]] = codec.opening[kind]
        wanted[places[m, 0] + 1 : places[m, 1]] = codec.inside[kind]
    for m in range(len(places)):
        s = trial.sentence[places[m, 0]]
        if m + 1 == len(places) or trial.sentence[places[m + 1, 0]] != s:
            _relabel(descent, trial, s, wanted)
    better_all(descent, trial)


@kernel_in_place
def keep_if(is_better: bool, descent: Descent, trial: DescentTrial) -> None:  # noqa: FBT001 — a kernel takes no keywords
    """Keeps the present labels as the best tried, if ``is_better``.

    It is always called, so that any document compiles it.
    """
    if not is_better:
        return
    _clear(trial.better)
    for i in range(trial.changed.length[0]):
        s = trial.changed.items[i]
        first, last = descent.chains.bounds[s], descent.chains.bounds[s + 1]
        copy_to(trial.best[first:last], descent.labels[first:last])
        _list(trial.better, s)


@kernel_in_place
def undo(descent: Descent, trial: DescentTrial) -> None:
    """Restores the labels from before the trial."""
    for i in range(trial.changed.length[0]):
        _relabel(descent, trial, trial.changed.items[i], trial.base)


@kernel_in_place
def undo_looks(descent: Descent, trial: DescentTrial) -> None:
    """Restores the charges from before the trial, which are right again once the labels are restored."""
    for i in range(trial.looked.length[0]):
        _copy_seen(descent.chains, trial.looked.items[i], trial.seen, descent.seen)


@kernel_in_place
def take_best(descent: Descent, trial: DescentTrial) -> None:
    """Changes the labels to the best tried; later trials start from them."""
    for i in range(trial.better.length[0]):
        s = trial.better.items[i]
        first, last = descent.chains.bounds[s], descent.chains.bounds[s + 1]
        _relabel(descent, trial, s, trial.best)
        copy_to(trial.base[first:last], trial.best[first:last])
    _clear(trial.better)
    close(trial)


@kernel_in_place
def close(trial: DescentTrial) -> None:
    """Ends a trial: the sets of changed and looked-at sentences become empty."""
    _clear(trial.changed)
    _clear(trial.looked)


@kernel_in_place
def _open(descent: Descent, trial: DescentTrial) -> None:
    chains = descent.chains
    for s in range(len(chains.bounds) - 1):
        first, last = chains.bounds[s], chains.bounds[s + 1]
        trial.now[0].local += local_score(chains.unary, chains.edge, descent.labels, first, last)
        _wait(chains, trial, s, 0)


@kernel_in_place
def _types_at(descent: Descent, trial: DescentTrial, places: Ints, kinds: Labels) -> None:
    codec, labels = descent.chains.codec, descent.labels
    trial.now[0].work += len(places)
    for m in range(len(places)):
        start, end = places[m, 0], places[m, 1]
        opens = codec.opens_sentence[start] or not codec.continues[labels[start - 1], labels[start]]
        longest = min(end + 1, len(labels))
        if opens and item_end(codec.continues, codec.opens_sentence, labels, start, longest) == end:
            kinds[m] = codec.type_of[labels[start]]


@inner_in_place
def _relabel(descent: Descent, trial: DescentTrial, s: int, wanted: Labels) -> None:
    """Changes the labels of sentence s to those of ``wanted`` (N,), and puts it in the heap."""
    chains, labels = descent.chains, descent.labels
    first, last = chains.bounds[s], chains.bounds[s + 1]
    differs = False
    for t in range(first, last):
        differs |= labels[t] != wanted[t]
    if not differs:
        return
    _remember_seen(descent, trial, s)
    before = local_score(chains.unary, chains.edge, labels, first, last)
    _mark_readers(descent, trial, s, labels, wanted, -1)
    descent.penalty[0] -= uncount_sentence(descent, first, last)
    descent.penalty[0] += count_sentence(descent, wanted, first, last)
    trial.now[0].local += local_score(chains.unary, chains.edge, labels, first, last) - before
    descent.seen[chains.first[first] : chains.first[last]] = np.nan
    _list(trial.changed, s)
    _wait(chains, trial, s, 0)


@inner_in_place
def _moved(descent: Descent, trial: DescentTrial, s: int, number: int) -> None:
    """Notes that sentence s, whose labels were ``trial.old``, got better ones in pass ``number``."""
    chains = descent.chains
    first, last = chains.bounds[s], chains.bounds[s + 1]
    _mark_readers(descent, trial, s, trial.old, descent.labels, number)
    trial.now[0].local += local_score(chains.unary, chains.edge, descent.labels, first, last)
    trial.now[0].local -= local_score(chains.unary, chains.edge, trial.old, first, last)
    _list(trial.changed, s)


@inner_in_place
def _mark_readers(descent: Descent, trial: DescentTrial, s: int, old: Labels, new: Labels, number: int) -> None:
    """Puts all sentences in the heap whose charges change with the labels of sentence s, from ``old`` to ``new``.

    Sentences after s come in this pass, ``number``, those before it in the next. With ``number`` −1 all come in the
    first.
    """
    chains, readers = descent.chains, trial.readers
    first, last = _changed_part(chains.codec, old, new, chains.bounds[s], chains.bounds[s + 1])
    mark_stale(readers, descent.state, chains.codec, old, first, last)
    mark_stale(readers, descent.state, chains.codec, new, first, last)
    trial.now[0].work += last - first + readers.stale_count[0]
    for i in range(readers.stale_count[0]):
        readers.is_stale[readers.stale[i]] = False
        other = trial.sentence[readers.stale[i]]
        _wait(chains, trial, other, number if number >= 0 and other > s else number + 1)
    readers.stale_count[0] = 0


@inner_in_place
def _changed_part(codec: Codec, old: Labels, new: Labels, first: int, last: int) -> tuple[int, int]:
    """The smallest part of a sentence that holds all differences and cuts no span of either labelling."""
    low, high = first, last
    while low < last and old[low] == new[low]:
        low += 1
    while high > low and old[high - 1] == new[high - 1]:
        high -= 1
    while first < low < last and (codec.continues[old[low - 1], old[low]] or codec.continues[new[low - 1], new[low]]):
        low -= 1
    while low < high < last and (
        codec.continues[old[high - 1], old[high]] or codec.continues[new[high - 1], new[high]]
    ):
        high += 1
    return low, high


@inner_in_place
def _read(descent: Descent, trial: DescentTrial, s: int) -> None:
    """Notes the counts that the charges of sentence s are read from, and saves the charges seen before."""
    chains = descent.chains
    first, last = chains.bounds[s], chains.bounds[s + 1]
    _remember_seen(descent, trial, s)
    trial.now[0].work += last - first + chains.first[last] - chains.first[first]
    for i in range(chains.first[first], chains.first[last]):
        note_span(trial.readers, descent.state, chains.start[i], chains.end[i])
    for t in range(first, last):
        note_outside(trial.readers, descent.state, t)


@inner_in_place
def _remember_seen(descent: Descent, trial: DescentTrial, s: int) -> None:
    if not trial.looked.held[s]:
        _list(trial.looked, s)
        _copy_seen(descent.chains, s, descent.seen, trial.seen)


@inner_in_place
def _copy_seen(chains: Chains, s: int, source: Floats, target: Floats) -> None:
    first, last = chains.bounds[s], chains.bounds[s + 1]
    copy_to(target[chains.first[first] : chains.first[last]], source[chains.first[first] : chains.first[last]])
    spans = len(chains.start)
    copy_to(target[spans + first : spans + last], source[spans + first : spans + last])


@inner_in_place
def _list(listed: SentenceSet, s: int) -> None:
    if not listed.held[s]:
        listed.held[s] = True
        listed.items[listed.length[0]] = s
        listed.length[0] += 1


@inner_in_place
def _clear(listed: SentenceSet) -> None:
    for i in range(listed.length[0]):
        listed.held[listed.items[i]] = False
    listed.length[0] = 0


@inner_in_place
def _wait(chains: Chains, trial: DescentTrial, s: int, number: int) -> None:
    """Puts sentence s into the heap, once, if it has a candidate span."""
    if trial.waiting[s] or chains.first[chains.bounds[s]] == chains.first[chains.bounds[s + 1]]:
        return
    trial.waiting[s] = True
    _push(trial, number * len(trial.heap) + s)


@inner_in_place
def _push(trial: DescentTrial, code: int) -> None:
    heap, place = trial.heap, trial.size[0]
    trial.size[0] += 1
    while place > 0 and heap[(place - 1) // 2] > code:
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = code


@inner_in_place
def _next(trial: DescentTrial) -> int:
    """Takes the next sentence out of the heap: the first one of the earliest pass."""
    heap = trial.heap
    code = heap[0]
    trial.size[0] -= 1
    size, moved, place = trial.size[0], heap[trial.size[0]], 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= moved:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moved
    trial.waiting[code % len(heap)] = False
    return int(code)


@inner_in_place
def _put_off(trial: DescentTrial, s: int) -> None:
    """Moves sentence s, and all others in the heap, to the first pass of the next descent."""
    size, sentences = trial.size[0], len(trial.heap)
    trial.size[0] = 0
    for i in range(size):
        _push(trial, trial.heap[i] % sentences)
    trial.waiting[s] = True
    _push(trial, s)
