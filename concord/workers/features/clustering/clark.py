"""Clark's clusters (Clark 2003): words are exchanged between classes that a bigram model and their spelling tell apart.

With n(c, d) the count of words of class c directly before words of class d, o(c) = Σ_d n(c, d) and i(d) = Σ_c n(c, d),
the classes' model of word pairs has, up to a constant, the log likelihood (Ney, Essen & Kneser 1994)

    L = Σ_{c,d} f(n(c, d)) − Σ_c f(o(c)) − Σ_d f(i(d)),     f(n) = n · log n.

Morphology is a prior on the classes: each distinct word w of class c adds log a(c) + log p(w | c), where a(c) is the
class's share of the words and p(w | c) its model of letters (`workers.features.clustering.letters`). Frequent words are
ruled by L, rare ones by their letters.

The most frequent words begin as classes of their own, all others in the last one. An iteration takes the words in turn,
the most frequent first, out of their classes, and puts each where L plus prior is highest. The first has no prior yet;
before each of the others shares and letters are learned from the classes. It ends when no word moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import inner_in_place, kernel
from concord.workers.features.clustering.letters import (
    LetterModels,
    Spelling,
    add_spelling,
    first_models,
    learned_models,
    spelling,
)
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts
from concord.workers.features.clustering.word_pairs import Bigrams, bigram_tables
from concord.workers.features.clusters import Clusters
from concord.workers.features.settings import ClarkSettings

LETTER_STEPS = 5
"""Steps of expectation maximisation before each iteration."""
TABLE_SIZE = 1 << 15
"""Counts whose n · log n is looked up."""
SMALLEST_GAIN = 1e-9
"""Nats; a word that gains less by leaving its class stays."""


class ExchangeState(NamedTuple):
    """V words in C classes.

    - ``member`` (V,): class of each word.
    - ``times`` (C, C): number of pairs of a word of one class directly before a word of the other.
    - ``turned`` (C, C): the same with rows for the second class.
    - ``first``, ``second`` (C,): sums of the rows of both.
    """

    member: Ints
    times: Ints
    turned: Ints
    first: Ints
    second: Ints


def clark_clusters(
    counts: ContextCounts, contexts: Contexts, settings: ClarkSettings, advanced: Callable[[int], object]
) -> Clusters:
    """Clusters by exchange, one clustering for each number of clusters; ``advanced`` is told each iteration."""
    after, before = bigram_tables(counts, contexts)
    spelled = spelling(contexts.words)
    codes = list[NDArray[np.int32]]()
    for size in settings.clusters:
        state = first_state(after, size)
        for _ in iterations(state, after, before, spelled, settings):
            advanced(1)
        codes.append(state.member.astype(np.int32))
    names = tuple(f"clark-{size}" for size in settings.clusters)
    return Clusters(pa.array(contexts.words, pa.string()), names, np.stack(codes, axis=1))


def first_state(after: Bigrams, classes: int) -> ExchangeState:
    """The first words as classes of their own, all others in the last one."""
    member = np.minimum(np.arange(len(after.start) - 1), classes - 1)
    first = np.repeat(member, np.diff(after.start))
    times = np.zeros((classes, classes), np.int64)
    np.add.at(times, (first, member[after.word]), after.times)
    return ExchangeState(member, times, np.ascontiguousarray(times.T), times.sum(axis=1), times.sum(axis=0))


def iterations(
    state: ExchangeState, after: Bigrams, before: Bigrams, spelled: Spelling, settings: ClarkSettings
) -> Iterator[int]:
    """Changes the state in place; gives after each iteration how many words moved, until none does."""
    classes = len(state.first)
    models = first_models(spelled, classes, settings.states, settings.seed)
    shares, unspelled = np.zeros(classes), spelling([""] * len(state.member))
    for nth in range(settings.iterations):
        if nth > 0:
            shares = log_shares(state.member, classes)
            for _ in range(LETTER_STEPS):
                models = learned_models(models, spelled, state.member)
        moved = exchanged(state, after, before, shares, models, spelled if nth > 0 else unspelled)
        yield moved
        if not moved:
            return


def log_shares(member: Ints, classes: int) -> Floats:
    """(C,) log share of each class among the words, with one more word in each so that none is empty."""
    size = 1.0 + np.bincount(member, minlength=classes)
    shares: Floats = np.log(size / size.sum())
    return shares


@kernel
def exchanged(
    state: ExchangeState, after: Bigrams, before: Bigrams, shares: Floats, models: LetterModels, spelled: Spelling
) -> int:
    """Puts each word in turn into its best class, of equals its own, then the lowest; returns how many moved."""
    classes, states = models.first.shape
    table = np.zeros(TABLE_SIZE)
    for n in range(2, TABLE_SIZE):
        table[n] = n * np.log(n)
    out, into, gains = np.zeros(classes, np.int64), np.zeros(classes, np.int64), np.empty(classes)
    outs, ins = np.empty(classes, np.int64), np.empty(classes, np.int64)
    reached, earlier = np.empty(states), np.empty(states)
    moved = 0
    for word in range(len(state.member)):
        own = state.member[word]
        twice = _twice(word, after)
        heads = _neighbours(word, after, state.member, out, outs)
        tails = _neighbours(word, before, state.member, into, ins)
        _put(-1, own, twice, out, outs[:heads], into, ins[:tails], state)
        gains[:] = shares
        letters = spelled.letter[spelled.start[word] : spelled.start[word + 1]]
        add_spelling(letters, models, reached, earlier, gains)
        _add_gains(twice, out, outs[:heads], into, ins[:tails], state, table, gains)
        best = own
        for c in range(classes):
            if gains[c] > gains[best] + SMALLEST_GAIN:
                best = c
        _put(1, best, twice, out, outs[:heads], into, ins[:tails], state)
        state.member[word] = best
        moved += best != own
        out[:] = 0
        into[:] = 0
    return moved


@inner_in_place
def _twice(word: int, after: Bigrams) -> int:
    """How often the word stands directly before itself."""
    for k in range(after.start[word], after.start[word + 1]):
        if after.word[k] == word:
            return int(after.times[k])
    return 0


@inner_in_place
def _neighbours(word: int, beside: Bigrams, member: Ints, times: Ints, classes: Ints) -> int:
    """Counts the other words beside a word by class in ``times`` (C,); returns how many ``classes`` there are."""
    size = 0
    for k in range(beside.start[word], beside.start[word + 1]):
        other = beside.word[k]
        if other != word:
            c = member[other]
            if times[c] == 0:
                classes[size] = c
                size += 1
            times[c] += beside.times[k]
    return size


@inner_in_place
def _put(sign: int, c: int, twice: int, out: Ints, outs: Ints, into: Ints, ins: Ints, state: ExchangeState) -> None:
    """Adds a word's pairs to a class (``sign`` 1), or takes them out (−1)."""
    for d in outs:
        state.times[c, d] += sign * out[d]
        state.turned[d, c] += sign * out[d]
        state.second[d] += sign * out[d]
        state.first[c] += sign * out[d]
    for d in ins:
        state.times[d, c] += sign * into[d]
        state.turned[c, d] += sign * into[d]
        state.first[d] += sign * into[d]
        state.second[c] += sign * into[d]
    state.times[c, c] += sign * twice
    state.turned[c, c] += sign * twice
    state.first[c] += sign * twice
    state.second[c] += sign * twice


@inner_in_place
def _add_gains(
    twice: int, out: Ints, outs: Ints, into: Ints, ins: Ints, state: ExchangeState, table: Floats, gains: Floats
) -> None:
    """Adds to ``gains`` (C,) by how much L rises when a word that is in no class enters each one.

    While it is out, the sums ``first`` and ``second`` of its neighbours' classes lack its pairs. They get the same back
    whichever class it enters, which is a constant, except where that is the neighbours' own class.
    """
    heads, tails = twice, twice
    for d in outs:
        heads += out[d]
    for d in ins:
        tails += into[d]
    for c in range(len(gains)):
        gain = 0.0
        row, column = state.times[c], state.turned[c]
        for d in outs:
            if d != c:
                gain += _times_log(row[d] + out[d], table) - _times_log(row[d], table)
        for d in ins:
            if d != c:
                gain += _times_log(column[d] + into[d], table) - _times_log(column[d], table)
        inside = out[c] + into[c] + twice
        gain += _times_log(row[c] + inside, table) - _times_log(row[c], table)
        # The class's own sums: with the pairs in which a word of this class stands beside the word.
        gain -= _times_log(state.first[c] + heads + into[c], table) - _times_log(state.first[c] + into[c], table)
        gain -= _times_log(state.second[c] + tails + out[c], table) - _times_log(state.second[c] + out[c], table)
        gains[c] += gain


@inner_in_place
def _times_log(n: int, table: Floats) -> float:
    return float(table[n]) if n < len(table) else float(n * np.log(n))
