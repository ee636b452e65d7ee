"""Brown clusters (Brown et al. 1992): a tree of words, merged so that a class bigram model loses least likelihood.

Let n(c, d) be the count of words of class c directly before words of class d, o(c) the count of c as first word, and
i(d) the count of d as second word. The model's log likelihood is, up to a constant,

    Q = Σ_{c,d} f(n(c, d)) − Σ_c out(c) · log o(c) − Σ_d in(d) · log i(d),     f(n) = n · log n,

where out(c) = Σ_d n(c, d) and in(d) = Σ_c n(c, d) sum over the present classes. As in Liang (2005), words enter one at
a time, the most frequent first, each as a class of its own. Whenever there is one class too many, the two classes are
merged whose merge lowers Q least. At the end all classes are merged into one. The tree of merges gives each word a
string of bits; its prefixes name larger clusters.

The cost of merging a and b in the first sum, besides the four counts between them, is Σ_d g(n(a, d), n(b, d)) plus the
same with n(d, a), n(d, b), where g(x, y) = f(x) + f(y) − f(x + y) is zero if x or y is zero. ``shared`` (K, K) keeps
this cost for all pairs; a new or merged class d changes it only at pairs of d's neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints, Mask
from concord.workers.compiling.kernel import kernel, kernel_in_place
from concord.workers.features.clustering.trees import WordPath, prefix_clusters
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts
from concord.workers.features.clustering.word_pairs import Bigrams, bigram_tables
from concord.workers.features.clusters import Clusters
from concord.workers.features.settings import BrownSettings

WORDS_A_TELLING = 200
"""Number of words between two reports of progress."""


def ignored(_words: int) -> None:
    """Progress callback that does nothing."""


class Classes(NamedTuple):
    """K slots for classes.

    - ``times`` (K, K): bigram counts of the classes.
    - ``first``, ``second`` (K,): counts of a class as first and as second word of a bigram with any word.
    - ``shared`` (K, K): cost of merging, see the module's docstring, in nats.
    - ``used`` (K,): slots that hold a class.
    """

    times: Floats
    first: Floats
    second: Floats
    shared: Floats
    used: Mask


def brown_clusters(
    counts: ContextCounts,
    contexts: Contexts,
    settings: BrownSettings,
    advanced: Callable[[int], object] = ignored,
) -> Clusters:
    """Brown clusters, one clustering for each length of prefix, see `prefix_clusters`.

    ``advanced`` is told, now and then, how many words came to classes since it was told last.
    """
    words = contexts.words
    after, before = bigram_tables(counts, contexts)
    member, merges = merged(after, before, settings.clusters, advanced)
    bits = _bits(merges, settings.clusters)
    paths = [WordPath(word, bits[slot]) for word, slot in zip(words, member.tolist(), strict=True)]
    return prefix_clusters(paths, settings.prefixes)


def _bits(merges: Ints, clusters: int) -> list[str]:
    """Path from the root to each slot's class, as a string of bits; merge t put merges[t, 1] into merges[t, 0]."""
    bits = [""] * (clusters + 1)
    for kept, gone in reversed(merges.tolist()):
        bits[gone] = bits[kept] + "1"
        bits[kept] += "0"
    return bits


def merged(
    after: Bigrams, before: Bigrams, clusters: int, advanced: Callable[[int], object] = ignored
) -> tuple[Ints, Ints]:
    """Slot (V,) of each word's class, and the merges (C − 1, 2) of the C classes into one, in their order.

    ``after`` are the words after each of V ≥ C words, ``before`` those before it; ``advanced`` as in `brown_clusters`.
    """
    size = clusters + 1
    # An empty slot counts 1: `cheapest` takes the logarithm of all counts, though it reads those of classes alone.
    classes = Classes(
        np.zeros((size, size)), np.ones(size), np.ones(size), np.zeros((size, size)), np.zeros(size, np.bool_)
    )
    member = np.full(len(after.start) - 1, -1, np.int64)
    for word in range(len(member)):
        slot = int(np.argmin(classes.used))
        _enter(word, slot, member, after, before, classes)
        if classes.used.all():
            _merge_cheapest(member, classes)
        if word % WORDS_A_TELLING == WORDS_A_TELLING - 1:
            advanced(WORDS_A_TELLING)
    advanced(len(member) % WORDS_A_TELLING)
    merges = [_merge_cheapest(member.copy(), classes) for _ in range(clusters - 1)]
    return member, np.array(merges, np.int64).reshape(-1, 2)


def _merge_cheapest(member: Ints, classes: Classes) -> tuple[int, int]:
    kept, gone = cheapest(classes)
    _merge(kept, gone, member, classes)
    return kept, gone


@kernel_in_place
def _enter(word: int, slot: int, member: Ints, after: Bigrams, before: Bigrams, classes: Classes) -> None:
    """A word becomes a class of its own."""
    member[word] = slot
    classes.used[slot] = True
    first = second = 0
    for k in range(after.start[word], after.start[word + 1]):
        first += after.times[k]
        other = member[after.word[k]]
        if other >= 0:
            classes.times[slot, other] += after.times[k]
    for k in range(before.start[word], before.start[word + 1]):
        second += before.times[k]
        other = member[before.word[k]]
        if other >= 0 and other != slot:
            classes.times[other, slot] += before.times[k]
    classes.first[slot], classes.second[slot] = max(1, first), max(1, second)
    _share(slot, 1.0, classes)
    _compare(slot, classes)


@kernel_in_place
def _merge(kept: int, gone: int, member: Ints, classes: Classes) -> None:
    """Merges the class of one slot into that of another."""
    times = classes.times
    for slot in (kept, gone):
        _share(slot, -1.0, classes)
        classes.used[slot] = False
    for d in range(len(times)):
        times[kept, d] += times[gone, d]
        times[gone, d] = 0.0
    for d in range(len(times)):
        times[d, kept] += times[d, gone]
        times[d, gone] = 0.0
    classes.first[kept] += classes.first[gone]
    classes.second[kept] += classes.second[gone]
    classes.used[kept] = True
    _share(kept, 1.0, classes)
    _compare(kept, classes)
    for word in range(len(member)):
        if member[word] == gone:
            member[word] = kept


@kernel_in_place
def _share(slot: int, sign: float, classes: Classes) -> None:
    """Adds (``sign`` 1) or subtracts (−1) the share of a class in ``shared`` of all pairs of other classes."""
    times, shared, used = classes.times, classes.shared, classes.used
    size = len(used)
    for a in range(size):
        if a == slot or not used[a] or (times[a, slot] == 0.0 and times[slot, a] == 0.0):
            continue
        for b in range(a):
            if b != slot and used[b]:
                both = _common(times[a, slot], times[b, slot]) + _common(times[slot, a], times[slot, b])
                shared[a, b] += sign * both


@kernel_in_place
def _compare(slot: int, classes: Classes) -> None:
    """Recomputes ``shared`` between a class and every other one."""
    times, shared, used = classes.times, classes.shared, classes.used
    for other in range(len(used)):
        if other == slot or not used[other]:
            continue
        total = 0.0
        for d in range(len(used)):
            if d not in (slot, other) and used[d]:
                total += _common(times[slot, d], times[other, d]) + _common(times[d, slot], times[d, other])
        shared[max(slot, other), min(slot, other)] = total


@kernel
def cheapest(classes: Classes) -> tuple[int, int]:
    """Slots of the two classes, lower first, whose merge loses least; ties go to the lowest slots."""
    times, used = classes.times, classes.used
    out, into = times.sum(axis=1), times.sum(axis=0)
    log_first, log_second = np.log(classes.first), np.log(classes.second)
    best, kept, gone = np.inf, 0, 0
    for a in range(len(used)):
        for b in range(a):
            if not (used[a] and used[b]):
                continue
            loss = classes.shared[a, b] + _times_log(times[a, a]) + _times_log(times[b, b])
            loss += _times_log(times[a, b]) + _times_log(times[b, a])
            loss -= _times_log(times[a, a] + times[b, b] + times[a, b] + times[b, a])
            loss += (out[a] + out[b]) * np.log(classes.first[a] + classes.first[b])
            loss += (into[a] + into[b]) * np.log(classes.second[a] + classes.second[b])
            loss -= out[a] * log_first[a] + out[b] * log_first[b] + into[a] * log_second[a] + into[b] * log_second[b]
            if loss < best:
                best, kept, gone = loss, b, a
    return kept, gone


@kernel_in_place
def _common(x: float, y: float) -> float:
    if x == 0.0 or y == 0.0:
        return 0.0
    return float(x * np.log(x) + y * np.log(y) - (x + y) * np.log(x + y))


@kernel_in_place
def _times_log(x: float) -> float:
    return float(x * np.log(x)) if x > 0.0 else 0.0
