"""A hidden Markov model from counts, smoothed by Witten and Bell; counts may be expected ones, of parts of tokens.

Of counts c(i, ·) of T kinds, C in all, and a coarser distribution q over the same things,

    p(j | i) = (c(i, j) + T · q(j)) / (C + T)

(Witten & Bell 1991): the more kinds of things were seen, the likelier is another. T · q are what smoothing imagines to
have been seen. Labels back off to how often each is there, words to their shape, shapes to one another; a label that
was never seen has q alone, so all stays finite. Chang, Ratinov & Roth (2008) name no smoothing for their HMM, and it
decides everything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.workers.learning.estimation.chains import GoldChains, transition_counts
from concord.workers.models.hmm import Tables


class HmmCounts(NamedTuple):
    """How often: ``initial`` (L,) a label opens a sentence, ``transition`` (L, L) follows another, ``word`` (L, V) goes
    with each word."""

    initial: Floats
    transition: Floats
    word: Floats


class Evidence(NamedTuple):
    """Counts with those that smoothing imagines; ``emission`` (L, V + S + 1): words, then a word that was never seen of
    each shape, as in `Tables`."""

    initial: Floats
    transition: Floats
    emission: Floats


def counted(gold: GoldChains, word: Ints, words: int, share: Floats | None = None) -> HmmCounts:
    """Counts of chains of labels, and of their words (N,), of ``words`` kinds; a token counts by its ``share`` (N,)."""
    size, labels, first = gold.width, gold.labels.astype(np.int64), gold.bounds[:-1]
    together = np.bincount(labels * words + word, share, size * words).reshape(size, words)
    opening = np.bincount(labels[first], None if share is None else share[first], size)
    return HmmCounts(opening.astype(np.float64), transition_counts(gold, share), together.astype(np.float64))


def evidence(counts: HmmCounts, shape_of: Ints) -> Evidence:
    """The counts smoothed; ``shape_of`` (V,) numbers the shape of each word."""
    label = label_shares(counts)
    return Evidence(
        witten_bell(counts.initial[None], label)[0], witten_bell(counts.transition, label), _emission(counts, shape_of)
    )


def label_shares(counts: HmmCounts) -> Floats:
    """(L,) how often each label is there, one token more of each imagined."""
    often = counts.word.sum(axis=1) + 1.0
    shares: Floats = often / often.sum()
    return shares


def _emission(counts: HmmCounts, shape_of: Ints) -> Floats:
    size = len(counts.word)
    shapes = int(shape_of.max(initial=-1)) + 1
    by_shape = np.zeros((size, shapes + 1))
    np.add.at(by_shape.T, shape_of, counts.word.T)
    # Of the words of a shape one was never seen: it stands for all such.
    kinds = np.append(np.bincount(shape_of, minlength=shapes), 0) + 1
    other = shares(witten_bell(by_shape, np.full(shapes + 1, 1.0 / (shapes + 1)))) / kinds
    coarser = np.concatenate([other[:, shape_of], other], axis=1)
    return witten_bell(np.concatenate([counts.word, np.zeros_like(other)], axis=1), coarser)


def witten_bell(counts: Floats, coarser: Floats) -> Floats:
    """(I, J) counts (I, J) and what is imagined beside them; ``coarser`` is q: (J,), or (I, J) where it differs by row.

    What was seen for a part of a token, below one, is that part of a kind.
    """
    kinds = np.maximum(np.minimum(counts, 1.0).sum(axis=1), 1.0)
    smoothed: Floats = counts + kinds[:, None] * coarser
    return smoothed


def shares(counts: Floats) -> Floats:
    """Counts (..., J) as shares of their row."""
    found: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return found


def likeliest(found: Evidence, words: int) -> Tables:
    """The model under which the evidence is likeliest; ``words`` is V."""
    with np.errstate(divide="ignore"):  # what has no evidence at all is impossible
        initial, transition, emission = (np.log(shares(counts)) for counts in found)
    return Tables(
        initial,
        transition,
        np.ascontiguousarray(emission[:, :words].T),
        np.ascontiguousarray(emission[:, words:].T),
    )


def estimated(counts: HmmCounts, shape_of: Ints) -> Tables:
    """The smoothed model of these counts; ``shape_of`` (V,) numbers the shape of each word."""
    return likeliest(evidence(counts, shape_of), len(shape_of))


def mixed(first: Floats, learned: Floats, gamma: float) -> Floats:
    """Log probabilities of a share γ of one model and the rest of another."""
    with np.errstate(divide="ignore"):  # a share may be nothing
        found: Floats = np.logaddexp(np.log(gamma) + first, np.log1p(-gamma) + learned)
    return found
