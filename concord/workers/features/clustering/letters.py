"""How the words of a class are spelled: for each class a hidden Markov model over letters (Clark 2003 §4).

The first state of a word, each next one or the end of the word, and the letter of each state are drawn in turn. Models
are learned from the distinct words of their classes by expectation maximisation; words count once, however frequent
they are. Pseudo-counts keep each letter possible in each class: those of letters are the letters' shares of all words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import inner_in_place, kernel

LONGEST_SPELLING = 40
"""Number of characters of a word that are looked at."""
MOST_LETTERS = 500
"""Number of characters that are told apart, the most frequent ones; the others are one more letter."""
PSEUDO_COUNT = 0.1
"""Pseudo-count of each state as the first or the next one."""


class Spelling(NamedTuple):
    """V words as numbers of A letters.

    - ``start`` (V + 1,): the letters of word w are ``letter[start[w]:start[w + 1]]``.
    - ``letter``: numbers below A.
    - ``share`` (A,): fraction of each letter among all of them, above 0.
    """

    start: Ints
    letter: Ints
    share: Floats


class LetterModels(NamedTuple):
    """C models of S states over A letters: probabilities.

    - ``first`` (C, S): first state.
    - ``next`` (C, S, S): next state, by the state before it.
    - ``end`` (C, S): the word ends after a state.
    - ``letter`` (A, C, S): letter of a state.
    """

    first: Floats
    next: Floats
    end: Floats
    letter: Floats


def spelling(words: Sequence[str]) -> Spelling:
    """The words' letters; equals in frequency are numbered in the order of their code points."""
    cut = [word[:LONGEST_SPELLING] for word in words]
    times = Counter(letter for word in cut for letter in word)
    common = sorted(times, key=lambda letter: (-times[letter], letter))[:MOST_LETTERS]
    number = {letter: i for i, letter in enumerate(common)}
    letters = np.array([number.get(letter, len(common)) for word in cut for letter in word], np.int64)
    share = 1.0 + np.bincount(letters, minlength=len(common) + 1)
    return Spelling(np.cumsum([0, *map(len, cut)]), letters, share / share.sum())


def first_models(spelled: Spelling, classes: int, states: int, seed: int) -> LetterModels:
    """Models to start from: all letters by their shares, with some chance that tells the states apart."""
    rng = np.random.default_rng(seed)
    letter = spelled.share[:, None, None] * rng.uniform(0.5, 1.5, (len(spelled.share), classes, states))
    move = rng.uniform(0.5, 1.5, (classes, states, states + 1))
    move /= move.sum(axis=2, keepdims=True)
    return LetterModels(
        np.full((classes, states), 1.0 / states),
        np.ascontiguousarray(move[:, :, :states]),
        np.ascontiguousarray(move[:, :, states]),
        letter / letter.sum(axis=0),
    )


@kernel
def learned_models(models: LetterModels, spelled: Spelling, member: Ints) -> LetterModels:
    """Models after one step of expectation maximisation, from the words of each class; ``member`` (V,): their classes.

    The step never lowers the words' likelihood times the pseudo-counts' density.
    """
    first, move = np.full_like(models.first, PSEUDO_COUNT), np.full_like(models.next, PSEUDO_COUNT)
    end, letter = np.full_like(models.end, PSEUDO_COUNT), np.empty_like(models.letter)
    for a in range(len(letter)):
        letter[a] = spelled.share[a]
    states = first.shape[1]
    forward = np.empty((LONGEST_SPELLING, states))
    backward, earlier = np.empty(states), np.empty(states)
    for word in range(len(member)):
        letters = spelled.letter[spelled.start[word] : spelled.start[word + 1]]
        if len(letters) > 0:
            _expect(letters, member[word], models, forward, backward, earlier, first, move, end, letter)
    for c in range(len(first)):
        first[c] /= first[c].sum()
        for s in range(states):
            total = move[c, s].sum() + end[c, s]
            move[c, s] /= total
            end[c, s] /= total
            letter[:, c, s] /= letter[:, c, s].sum()
    return LetterModels(first, move, end, letter)


@inner_in_place
def _expect(
    letters: Ints,
    c: int,
    models: LetterModels,
    forward: Floats,
    backward: Floats,
    earlier: Floats,
    first: Floats,
    move: Floats,
    end: Floats,
    letter: Floats,
) -> None:
    """Adds the expected counts of one word; ``forward``, ``backward`` and ``earlier`` are scratch.

    Each row of ``forward`` has the sum 1. Messages back are scaled so that their products with it have the sum 1, too.
    """
    states, last = len(backward), len(letters) - 1
    for t in range(len(letters)):
        total = 0.0
        for s in range(states):
            reached = models.first[c, s]
            if t > 0:
                reached = 0.0
                for r in range(states):
                    reached += forward[t - 1, r] * models.next[c, r, s]
            forward[t, s] = reached * models.letter[letters[t], c, s]
            total += forward[t, s]
        for s in range(states):
            forward[t, s] /= total
    total = 0.0
    for s in range(states):
        backward[s] = models.end[c, s]
        total += forward[last, s] * backward[s]
    for s in range(states):
        backward[s] /= total
        end[c, s] += forward[last, s] * backward[s]
    for t in range(last, -1, -1):
        for s in range(states):
            letter[letters[t], c, s] += forward[t, s] * backward[s]
        if t == 0:
            break
        total = 0.0
        for r in range(states):
            earlier[r] = 0.0
            for s in range(states):
                earlier[r] += models.next[c, r, s] * models.letter[letters[t], c, s] * backward[s]
            total += forward[t - 1, r] * earlier[r]
        for r in range(states):
            for s in range(states):
                step = models.next[c, r, s] * models.letter[letters[t], c, s] * backward[s]
                move[c, r, s] += forward[t - 1, r] * step / total
        for r in range(states):
            backward[r] = earlier[r] / total
    for s in range(states):
        first[c, s] += forward[0, s] * backward[s]


@inner_in_place
def add_spelling(letters: Ints, models: LetterModels, reached: Floats, before: Floats, scores: Floats) -> None:
    """Adds a word's log probability in each class's model to ``scores`` (C,); the other arrays (S,) are scratch."""
    states = len(reached)
    if len(letters) == 0:
        return
    for c in range(len(scores)):
        total = 0.0
        for s in range(states):
            reached[s] = models.first[c, s] * models.letter[letters[0], c, s]
            total += reached[s]
        for t in range(1, len(letters)):
            scores[c] += np.log(total)
            for s in range(states):
                before[s] = reached[s] / total
            total = 0.0
            for s in range(states):
                step = 0.0
                for r in range(states):
                    step += before[r] * models.next[c, r, s]
                reached[s] = step * models.letter[letters[t], c, s]
                total += reached[s]
        ending = 0.0
        for s in range(states):
            ending += reached[s] * models.end[c, s]
        scores[c] += np.log(ending)


@kernel
def spelling_scores(spelled: Spelling, models: LetterModels) -> Floats:
    """(V, C) log probability of each word in each class's model."""
    classes, states = models.first.shape
    scores = np.zeros((len(spelled.start) - 1, classes))
    reached, before = np.empty(states), np.empty(states)
    for word in range(len(scores)):
        letters = spelled.letter[spelled.start[word] : spelled.start[word + 1]]
        add_spelling(letters, models, reached, before, scores[word])
    return scores
